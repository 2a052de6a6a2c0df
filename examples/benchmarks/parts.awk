# Prints how a MILC run spent its time, by MILC's output and by milcgpu's table at exit:
#
#     awk [-v steps=30 -v trajecs=2] [-v row=NAME] -f parts.awk OUTPUT MILCGPU_LOG
#
# Instead of the log it also reads the table that MILCGPU_TABLE=NAME.csv has written. Trajectories of two lengths
# determine the seconds of a step and the seconds outside of steps (heat bath, actions). From both it computes the time
# of the benchmark, which has 'steps' and 'trajecs'. With 'row' it prints only milcgpu's parts, as a row of the table
# that examples/plots/parts.gp draws.
function part(routine) {
    if (routine ~ /congrad|multicg|invert|bicgilu|eigensolve/) return "solves"
    if (routine ~ /force/) return "forces"
    if (routine ~ /fn_links|fatlinks|lnglinks|hisq_links|backlinks|hyp_links/) return "links"
    if (routine ~ /cont_mom|open_mom/) return "contractions"
    if (routine ~ /update_u|reunitarize|G_from_site|action|plaq|gaugefix|ape|flow/) return "gauge field"
    return "other"
}
function say(name, seconds, note) { printf "  %-34s %10.3f s%s\n", name, seconds, note }
function share(name, seconds) { say(name, seconds, sprintf(" %5.1f %%", 100 * seconds / whole)) }

/^trajecs / { asked = $2 }
/^warms / { warms = $2 }
/^steps_per_trajectory / { steps_of = $2 + 0 }
/^Aggregate time to do one trajectory/ {
    if (!(steps_of in n)) sets[++lengths] = steps_of
    n[steps_of]++
    time[steps_of] += $NF
    next
}
/^Aggregate time to / {
    name = $0
    sub(/^Aggregate time to /, "", name)
    sub(/ [^ ]*$/, "", name)
    if (!(name in milc)) names[++kinds] = name
    milc[name] += $NF
}
/^Time = / { run += $3; if (warms > 0) { warm_ups += warms; warm_up_time += $3 } }
/^CONGRAD5/ {
    name = $0
    sub(/^[^(]*\(/, "", name)
    sub(/[ _)].*/, "", name)
    calls[name]++
    for (k = 1; k < NF; k++) {
        if ($k == "time") solve_time[name] += $(k + 2)
        if ($k == "iters") iterations[name] += $(k + 2)
    }
}
/^(FF|GF|FL|GRSOURCE|ACTION)TIME:|^LINK_UPDATE:/ {
    sub(/:.*/, "", $1)
    timed[$1]++
    for (k = 1; k < NF; k++) if ($k == "time") timed_seconds[$1] += $(k + 2)
}
/NOT converged|NOT CONVERGED/ { failed++ }

/^milcgpu: routine +calls/ { table = 1; next }
/^milcgpu: all of these/ { table = 0; inside = $5; whole = $11 }
table && /^milcgpu: / { of[part($2)] += $5 }
/^"[^"]*",[0-9]+,[0-9]+,[0-9.]+,/ {
    split($0, cells, ",")
    if (/^"outside of milcgpu"/) whole = inside + cells[4]
    else { of[part(cells[1])] += cells[4]; inside += cells[4] }
}

END {
    count = split("solves,forces,links,gauge field,contractions,other", order, ",")
    if (row) {
        printf "%s", row
        for (k = 1; k <= count; k++) printf ",%.3f", of[order[k]]
        printf ",%.3f\n", whole - inside
        exit
    }
    print "MILC says"
    if (warm_ups) say("set-up and " warm_ups " warm-up(s) of 20 steps", warm_up_time)
    for (k = 1; k <= lengths; k++) {
        s = sets[k]
        say(n[s] " trajectories of " s " steps, each", time[s] / n[s])
        if (k == 1 || s < few) few = s
        if (s > many) many = s
    }
    if (many > few) {
        step = (time[many] / n[many] - time[few] / n[few]) / (many - few)
        beside = time[few] / n[few] - few * step
        say("a step", step)
        say("beside the steps, a trajectory", beside)
        if (steps) say(trajecs " trajectories of " steps " steps", trajecs * (beside + steps * step), ", scaled")
    } else if (many && steps)
        say(trajecs " trajectories of " steps " steps", trajecs * steps / many * time[many] / n[many],
            ", whole trajectories scaled: an upper limit")
    for (k = 1; k <= kinds; k++) if (milc[names[k]] >= 0.0005) say(names[k], milc[names[k]])
    for (name in calls)
        say("CONGRAD5 (" name "), " calls[name] " lines", solve_time[name], ", " iterations[name] " iterations")
    for (name in timed) say(name ", " timed[name] " lines", timed_seconds[name])
    say("in all", run)
    if (failed) printf "  %d solves did not converge\n", failed
    if (!whole) { print "the log has no table of milcgpu"; exit }
    print "milcgpu says"
    for (k = 1; k <= count; k++) if (order[k] in of) share(order[k], of[order[k]])
    share("outside of milcgpu", whole - inside)
    say("in all", whole)
}
