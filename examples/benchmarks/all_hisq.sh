#!/bin/sh
# Prints an input for ks_spectrum_hisq, a part of MILC's sample ks_spectrum_hisq.allHISQ.2.
#
#     sh all_hisq.sh NX NY NZ NT LATTICE > all_hisq.in
#
# Sources: a random wall without and with momentum. Quarks: a light one (mass 0.000569) from both sources, two heavy
# ones (0.164, 0.1827) from the first source, and both heavy ones again from the light quark at a sink near half the
# time. Ten meson correlators. The sample reads the wall from a file, for which MILC needs QIO; this input makes the
# second source from the first.
set -e
[ $# = 5 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# MASS EPSILON: a set with one solve to a relative residual.
heavy() {
    printf 'set_type single\ninv_type CGZ\nmax_cg_iterations 400\nmax_cg_restarts 5\ncheck yes\nmomentum_twist 0 0 0\n'
    printf 'precision 2\nsource 0\nnumber_of_propagators 1\nmass %s\nnaik_term_epsilon %s\n' $1 $2
    printf 'error_for_propagator 0\nrel_error_for_propagator 2e-4\nfresh_ksprop\nforget_ksprop\n'
}
# QUARK MASS EPSILON: solve again from a quark.
again() {
    printf 'quark %s\nks_inverse\nmass %s\nnaik_term_epsilon %s\nu0 1\nmax_cg_iterations 400\n' $1 $2 $3
    printf 'max_cg_restarts 5\ndeflate no\nerror_for_propagator 0\nrel_error_for_propagator 2e-4\nprecision 2\n'
    printf 'momentum_twist 0 0 0\nop_label x\nforget_ksprop\n'
}
# QUARKS CORRELATOR...: a pair of quarks and its correlators.
meson() {
    printf 'pair %s\nspectrum_request meson\nforget_corr\nr_offset 0 0 0 1\nnumber_of_correlators %d\n' "$1" $(($# - 1))
    shift
    for correlator; do echo "correlator $correlator EO EO EO"; done
}
cat <<END
prompt 0
nx $1
ny $2
nz $3
nt $4
iseed 1374111
job_id all_hisq
reload_serial $5
u0 1
no_gauge_fix
forget
staple_weight 0.05
ape_iter 20
coordinate_origin 0 0 0 0
time_bc antiperiodic
max_number_of_eigenpairs 0
number_of_pbp_masses 0
number_of_base_sources 1
random_color_wall
field_type KS
subset corner
t0 1
ncolor 1
momentum 0 0 0
source_label RW
forget_source
number_of_modified_sources 1
source 0
momentum
momentum 1 0 0
op_label p
forget_source
number_of_sets 3
set_type multisource
inv_type CGZ
max_cg_iterations 4000
max_cg_restarts 10
check yes
momentum_twist 0 0 0
precision 2
mass 0.000569
naik_term_epsilon 0
number_of_propagators 2
END
for source in 0 1; do
    printf 'source %d\nerror_for_propagator 1e-7\nrel_error_for_propagator 0\nfresh_ksprop\nforget_ksprop\n' $source
done
heavy 0.164 -0.0179
heavy 0.1827 -0.0222
echo number_of_quarks 7
for propagator in 0 1 2 3; do printf 'propagator %d\nidentity\nop_label d\nforget_ksprop\n' $propagator; done
printf 'quark 0\next_src_ks\nspin_taste_extend G5T-G5T\nmomentum 0 0 0\nt0 %d\n' $(($4 / 2 - 2))
printf 'op_label x\nforget_ksprop\n'
again 4 0.164 -0.0179
again 5 0.1827 -0.0222
pion='1 / 124416.0 G5-G5' current='-1 / 124416.0 GT-GT'
echo number_of_mesons 10
meson '0 0' "P5-P5 p000 $pion 0 0 0"
meson '0 1' "P5-P5 p100 $pion -1 0 0"
for quark in 2 3; do
    meson "$quark 0" "P5-P5 p000 $pion 0 0 0"
    meson "$quark 1" "P5-P5 p100 $pion -1 0 0"
done
for quark in 2 3; do
    meson "$quark 0" "A4-A4_V4-V4 p000 $current 0 0 0"
    meson "$quark 1" "A4-A4_V4-V4 p100 $current -1 0 0" "A4-A4_T14-V4 p100 1 / 124416.0 GXT-GT -1 0 0"
done
echo number_of_baryons 0
