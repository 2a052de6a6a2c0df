#!/bin/sh
# Prints an input for ks_spectrum_hisq: eigenvectors, then 24 solves that they deflate.
#
#     sh eigenvectors.sh NX NY NZ NT LATTICE [VECTORS] > eigenvectors.in
#
# VECTORS: 256 unless it is given. Corner walls of three colours at four times, masses 0.01 and 0.02, residual 1e-8, and
# a pion of each.
set -e
[ $# = 5 ] || [ $# = 6 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cat <<END
prompt 0
nx $1
ny $2
nz $3
nt $4
iseed 5682304
job_id eigenvectors
reload_serial $5
u0 1
no_gauge_fix
forget
staple_weight 0
ape_iter 0
coordinate_origin 0 0 0 0
time_bc antiperiodic
max_number_of_eigenpairs ${6:-256}
fresh_ks_eigen
forget_ks_eigen
Max_Rayleigh_iters 1000
Restart_Rayleigh 10
Kalkreuter_iters 20
eigenval_tolerance 1e-8
error_decrease 0.3
number_of_pbp_masses 0
number_of_base_sources 4
END
for quarter in 0 1 2 3; do
    printf 'corner_wall\nfield_type KS\nsubset full\nt0 %d\nsource_label c%d\nforget_source\n' \
        $(($4 / 4 * quarter)) $quarter
done
printf 'number_of_modified_sources 0\nnumber_of_sets 4\n'
for source in 0 1 2 3; do
    printf 'set_type single\ninv_type UML\nmax_cg_iterations 5000\nmax_cg_restarts 20\ncheck yes\n'
    printf 'momentum_twist 0 0 0\nprecision 2\nsource %d\nnumber_of_propagators 2\n' $source
    for mass in .01 .02; do
        printf 'mass %s\nnaik_term_epsilon 0\ndeflate yes\nerror_for_propagator 1e-8\n' $mass
        printf 'rel_error_for_propagator 0\nfresh_ksprop\nforget_ksprop\n'
    done
done
echo number_of_quarks 8
for propagator in 0 1 2 3 4 5 6 7; do printf 'propagator %d\nidentity\nop_label d\nforget_ksprop\n' $propagator; done
echo number_of_mesons 8
for quark in 0 1 2 3 4 5 6 7; do
    printf 'pair %d %d\nspectrum_request meson\nforget_corr\n' $quark $quark
    printf 'r_offset 0 0 0 %d\nnumber_of_correlators 1\n' $((quark / 2 * ($4 / 4)))
    echo 'correlator P5 p000 1 * 1 pion5 0 0 0 E E E'
done
echo number_of_baryons 0
