# Estimates the seconds of a build of MILC that is too slow for the whole benchmark. SHORT is the output of this build,
# with looser residuals or fewer sites. LONG is the output of any build for the whole benchmark, with as many solves in
# the same order:
#
#     awk [-v sites=N] -f as_long.awk LONG SHORT
#
# Prints SHORT with the iterations of LONG, and multiplies the seconds of each solve by the ratio of iterations. Then it
# multiplies all seconds by N, the sites of LONG divided by the sites of SHORT. Solves that end after one iteration,
# such as checks, are not scaled.
function kind(  name) { name = $0; sub(/^[^(]*\(/, "", name); sub(/[ )].*/, "", name); return name }
function field(name,  k) { for (k = 1; k < NF; k++) if ($k == name && $(k + 1) == "=") return k + 2 }
BEGIN { if (!sites) sites = 1 }
FNR == NR { if (/^CONGRAD5/) long[kind(), ++longs[kind()]] = $field("iters"); next }
/^CONGRAD5/ {
    name = kind()
    iterations = long[name, ++shorts[name]]
    if ($field("iters") > 1 && iterations) {
        more = $field("time") * (iterations / $field("iters") - 1)
        trajectory += more; run += more
        $field("time") += more
        $field("iters") = iterations
    }
}
/^Aggregate time to do one trajectory/ { $NF += trajectory; trajectory = 0 }
/^Aggregate time to compute propagators/ { $NF += run }
/^Time = / { $3 += run; run = 0; $3 *= sites }
/^Aggregate time/ { $NF *= sites }
/: +time = / { $field("time") *= sites }
{ print }
END {
    for (name in shorts) longs[name] += 0
    for (name in longs) if (shorts[name] != longs[name]) {
        print "as_long.awk: LONG has " longs[name] " solves '" name "', SHORT " shorts[name] + 0 >"/dev/stderr"
        exit 2
    }
}
