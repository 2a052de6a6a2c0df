#!/bin/sh
# Prints the input of a benchmark for MILC's su3_rhmd_hisq (apex, n10) or su3_rhmc_hisq (f211). All have three masses
# and five pseudofermions.
#
#     sh rhmc.sh BENCHMARK NX NY NZ NT RATIONAL LATTICE TRAJECS STEPS... > rhmc.in
#
# BENCHMARK apex: APEX (Crossroads); medium: apex 36 36 36 72 apex.rational LATTICE 2 30
#           n10:  NERSC-10, generation; tiny: n10 48 48 48 64 rat.m001907m05252m6382 LATTICE 2 4
#           f211: as MILC's sample su3_rhmc_hisq.f211.2, with its rationals.sample.su3_rhmc_hisq_f211
# LATTICE   a file, or 'fresh'
# STEPS     even; each further number is another set of TRAJECS trajectories
# Environment: WARMS, the number of warm-ups of 20 steps before (APEX makes its lattice by 40 from 'fresh'); SAVE, a
# file for the lattice after the warm-ups.
set -e
[ $# -ge 9 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
benchmark=$1 nx=$2 ny=$3 nz=$4 nt=$5 rational=$6 lattice=$7 trajecs=$8
shift 8
[ "$lattice" = fresh ] && start=fresh || start="reload_serial $lattice"

# PRECISION, MAX, and the residuals of force, action and heat bath, for a pseudofermion.
solves() {
    printf 'cgresid_md_fa_gr %s %s %s\nmax_multicg_md_fa_gr %s %s %s\n' $3 $4 $5 $2 $2 $2
    printf 'cgprec_md_fa_gr %s %s %s\n' $1 $1 $1
}
# MASS EPSILON RESIDUAL: for a condensate.
condensate() {
    printf 'mass %s\nnaik_term_epsilon %s\nerror_for_propagator %s\nrel_error_for_propagator 0\n' $1 $2 $3
}
# PRECISION MAX RESTARTS
condensates() {
    printf 'prec_ff %s\nnumber_of_pbp_masses 3\nmax_cg_prop %s\nmax_cg_prop_restarts %s\n' $1 $2 $3
    printf 'npbp_reps 1\nprec_pbp %s\n' $1
}
# TRAJECS EVERY DT STEPS
steps() {
    printf 'warms 0\ntrajecs %s\ntraj_between_meas %s\n' $1 $2
    printf 'microcanonical_time_step %s\nsteps_per_trajectory %s\n' $3 $4
}
# STEPS: a set of trajectories.
trajectories() {
    case $benchmark in
    apex)
        steps $trajecs 2 .0333 $1
        solves 2 2500 1e-5 1e-5 1e-5
        for field in 2 3 4 5; do solves 2 2500 1e-7 1e-7 1e-7; done
        condensates 2 500 1
        for mass in 0.01 0.05 0.5; do condensate $mass 0 1e-8; done
        ;;
    n10)
        steps $trajecs 5 0.00833333 $1
        solves 1 3000 0.00015 3e-05 3e-05
        for field in 2 3 4; do solves 1 1750 5e-06 1e-06 1e-06; done
        solves 1 1750 6e-07 1e-07 1e-07
        condensates 1 1000 5
        condensate 0.001907 0 1e-06
        condensate 0.05252 0 1e-06
        condensate 0.6382 -0.230930 1e-12
        ;;
    f211)
        steps $trajecs 1 .04 $1
        solves 2 2500 .0005 .0001 .0001
        for field in 2 3 4 5; do solves 2 2500 .000005 1e-6 1e-6; done
        condensates 2 500 5
        for mass in 0.01 0.05 0.5; do condensate $mass 0 1e-8; done
        ;;
    esac
}

case $benchmark in
apex) iseed=4563421 beta=6.3 masses='.001 .05 .5' u0=0.890 ;;
n10) iseed=571213 beta=6.00 masses='0.001907 0.05252 0.6382' u0=0.86372 ;;
f211) iseed=4563421 beta=6.7 masses='.01 .05 .5' u0=0.890 ;;
*) echo "$0: no benchmark '$benchmark'" >&2; exit 2 ;;
esac
cat <<END
prompt 0
nx $nx
ny $ny
nz $nz
nt $nt
iseed $iseed
n_pseudo 5
load_rhmc_params $rational
beta $beta
n_dyn_masses 3
dyn_mass $masses
dyn_flavors 2 1 1
u0 $u0

END
if [ -n "$WARMS" ]; then
    printf 'warms %s\ntrajecs 0\ntraj_between_meas 40\nmicrocanonical_time_step .05\nsteps_per_trajectory 20\n' $WARMS
    for field in 1 2 3 4 5; do solves 2 5 1 1 1; done
    printf 'prec_ff 2\nnumber_of_pbp_masses 0\n%s\n%s\n' "$start" "${SAVE:+save_serial }${SAVE:-forget}"
    start=continue
fi
for number; do
    trajectories $number
    printf '%s\nforget\n' "$start"
    start=continue
done
