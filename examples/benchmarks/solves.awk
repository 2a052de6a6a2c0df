# The figures of solves from ks_spectrum_hisq's output:
#
#     awk [-v rhs=N] -f solves.awk OUTPUT
#
# rhs: right-hand sides of a solve; MILC prints a line for each. Without it, the output is the staggered-CG probe's: six
# solves of one right-hand side, then solves of twelve. The first solve of each kind is omitted. GF per rank, as MILC
# counts them, is the median of the CONGRAD5 lines, weighted by their time.
/^CONGRAD5/ {
    kind = rhs ? rhs : ++n <= 6 ? 1 : 12
    if (++seen[kind] <= kind) next
    for (k = 1; k < NF; k++) {
        if ($k == "time") time = $(k + 2)
        if ($k == "iters") iterations = $(k + 2)
        if ($k == "mflops") mflops = $(k + 2)
    }
    j = ++lines[kind]
    seconds[kind, j] = time; of[kind, j] = mflops; all[kind] += time; steps[kind] += iterations
}
/NOT converged/ { failed++ }
END {
    for (kind = rhs ? rhs : 1; kind <= (rhs ? rhs : 12); kind += 11) {
        m = lines[kind]
        if (m == 0) { printf "no solves of %d right-hand sides\n", kind; continue }
        for (i = 1; i <= m; i++)
            for (j = i + 1; j <= m; j++)
                if (of[kind, j] < of[kind, i]) {
                    t = of[kind, i]; of[kind, i] = of[kind, j]; of[kind, j] = t
                    t = seconds[kind, i]; seconds[kind, i] = seconds[kind, j]; seconds[kind, j] = t
                }
        sum = 0
        for (i = 1; i <= m && sum < all[kind] / 2; i++) { sum += seconds[kind, i]; median = of[kind, i] }
        printf "%2d right-hand side(s): %.4f s per solve, %.4f s and %.0f iterations each, %.1f GF per rank\n", kind,
               kind * all[kind] / m, all[kind] / m, steps[kind] / m, median / 1000
    }
    if (failed) printf "%d solves did not converge\n", failed
}
