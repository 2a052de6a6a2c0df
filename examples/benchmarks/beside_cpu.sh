#!/bin/sh
# Prints a table of the seconds that MILC takes on the host without and with milcgpu.
#
#     sh beside_cpu.sh PLAIN WITH [PART...] > table.md
#
# PLAIN   a folder of MILC with ks_spectrum/ks_spectrum_hisq and ks_imp_rhmc/su3_rhmc_hisq, built for the CPU
# WITH    another, whose programs were built with milcgpu
# PART    solve:N:T  solves at two masses to 1e-10, one colour, on N^3 x T from a warm lattice
#         solve3:N:T the same for three colours, as for a propagator
#         rhmc:N:T   the whole program su3_rhmc_hisq: a trajectory of four steps from a warm lattice (rhmc.sh f211)
#         run:N:T    the whole program ks_spectrum_hisq: a corner wall, mass 0.05, pions (campaign.sh three)
#         if none is given: solve at 16:32 and 24:32, solve3 at 16:32, rhmc at 8:8 and 12:12, run at 16:32
# Environment: THREADS, numbers of threads ("1 2" and all cores, if not set).
#
# CPU seconds are those of all threads. The seconds of solves are the difference to a run with one iteration a solve.
set -e
[ $# -ge 2 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }
plain=$1 with=$2 here=$(dirname "$0")
shift 2
[ $# -gt 0 ] || set -- solve:16:32 solve3:16:32 solve:24:32 rhmc:8:8 rhmc:12:12 run:16:32
cores=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

# N T COLOURS: two masses, each with a solve on both parities.
solve() {
    sh "$here/campaign.sh" probe $1 $1 $1 $2 warm | sed '/^number_of_base_sources/,$d'
    echo number_of_base_sources 1
    printf 'random_color_wall\nfield_type KS\nsubset full\nt0 0\nncolor %d\nmomentum 0 0 0\n' $3
    printf 'source_label r\nforget_source\n'
    printf 'number_of_modified_sources 0\nnumber_of_sets 1\nset_type single\ninv_type CGZ\nmax_cg_iterations 5000\n'
    printf 'max_cg_restarts 10\ncheck yes\nmomentum_twist 0 0 0\nprecision 2\nsource 0\nnumber_of_propagators 2\n'
    for mass in .1 .05; do
        printf 'mass %s\nnaik_term_epsilon 0\nerror_for_propagator 1e-10\nrel_error_for_propagator 0\n' $mass
        printf 'fresh_ksprop\nforget_ksprop\n'
    done
    printf 'number_of_quarks 0\nnumber_of_mesons 0\nnumber_of_baryons 0\n'
}
# FOLDER PROGRAM INPUT: CPU and wall seconds.
seconds() {
    begin=$(date +%s.%N)
    ("$1/$2" < "$3" > "$work/out" 2> "$work/log" || true; times > "$work/times")
    end=$(date +%s.%N)
    grep -q 'RUNNING COMPLETED' "$work/out" || { tail "$work/out" "$work/log" >&2; return 1; }
    awk -F '[ms ]+' -v begin=$begin -v end=$end 'END { print 60 * $1 + $2 + 60 * $3 + $4, end - begin }' "$work/times"
}
# PROGRAM PART
both() {
    for folder in "$plain" "$with"; do
        seconds "$folder" $1 "$work/in"
        if [ "$2" != "${2#solve}" ] && grep -q 'NOT converged' "$work/out"; then echo 'not converged' >&2; return 1; fi
        if [ "$2" != "${2#solve}" ]; then seconds "$folder" $1 "$work/short"; else echo 0 0; fi
    done
}

echo '| | threads | MILC: CPU s | wall s | with milcgpu: CPU s | wall s | CPU: ratio | wall: ratio |'
echo '|---|---|---|---|---|---|---|---|'
for part; do
    kind=${part%%:*} size=${part#*:}
    n=${size%:*} t=${size#*:} program=ks_spectrum/ks_spectrum_hisq
    case $kind in
    solve | solve3)
        solve $n $t $([ $kind = solve ] && echo 1 || echo 3) > "$work/in"
        sed 's/^\(max_cg_[a-z]*\) .*/\1 1/' "$work/in" > "$work/short"
        ;;
    run) MASS=.05 sh "$here/campaign.sh" three $n $n $n $t warm 1 > "$work/in" ;;
    rhmc)
        program=ks_imp_rhmc/su3_rhmc_hisq
        rational=$plain/ks_imp_rhmc/test/rationals.sample.su3_rhmc_hisq_f211
        sh "$here/rhmc.sh" f211 $n $n $n $t "$rational" fresh 1 4 | sed 's/^fresh$/warm/' > "$work/in"
        ;;
    *) echo "$0: no part '$part'" >&2; exit 2 ;;
    esac
    for threads in $(printf '%s\n' ${THREADS:-1 2 $cores} | sort -nu); do
        export OMP_NUM_THREADS=$threads
        both $program $kind > "$work/seconds"
        awk -v part="$kind $n^3 x $t" -v threads=$threads '
            function ratio(a, b) { return b > 0 ? sprintf("%.2f", a / b) : "-" }
            { cpu[NR] = $1; wall[NR] = $2 }
            END {
                c = cpu[1] - cpu[2]; w = wall[1] - wall[2]; g = cpu[3] - cpu[4]; v = wall[3] - wall[4]
                printf "| %s | %d | %.1f | %.1f | %.1f | %.1f | %s | %s |\n", part, threads, c, w, g, v, ratio(g, c),
                       ratio(v, w)
            }' "$work/seconds"
    done
done
