#!/bin/sh
# Prints the input of the staggered-CG probe 1.1.0 (lqcd-agent-handbook, 2026-10) for MILC's ks_spectrum_hisq.
#
#     sh cg_probe.sh NX NY NZ NT > probe.in      40 40 40 40: one rank; 40 40 40 80: two
#
# A warm lattice; six solves of one right-hand side, then four of twelve; mass 0.01, residual 1e-8, inv_type CGZ. The
# figure is the mflops of MILC's CONGRAD5 lines, without the first solve of each kind: solves.awk.
set -e
[ $# = 4 ] || { echo "usage: sh cg_probe.sh NX NY NZ NT > probe.in" >&2; exit 2; }
cat <<END
prompt 0
nx $1
ny $2
nz $3
nt $4
iseed 5682304
job_id cg_probe
warm
u0 1.0
no_gauge_fix
forget
staple_weight 0
ape_iter 0
coordinate_origin 0 0 0 0
time_bc antiperiodic
max_number_of_eigenpairs 0
number_of_pbp_masses 0
number_of_base_sources 4
END
for t in 0 2 4 6; do
    printf 'corner_wall\nfield_type KS\nsubset full\nt0 %d\nsource_label c%d\nforget_source\n' $t $t
done
echo number_of_modified_sources 0
echo number_of_sets 5
control="inv_type CGZ
max_cg_iterations 10000
max_cg_restarts 50
check yes
momentum_twist 0 0 0
precision 2"
residuals="error_for_propagator 1e-8
rel_error_for_propagator 0
fresh_ksprop
forget_ksprop"
printf 'set_type single\n%s\nsource 0\nnumber_of_propagators 2\n' "$control"
for propagator in 0 1; do
    printf 'mass 0.01\nnaik_term_epsilon 0\n%s\n' "$residuals"
done
for set in 1 2 3 4; do
    printf 'set_type multicolorsource\n%s\nmass 0.01\nnaik_term_epsilon 0\nnumber_of_propagators 4\n' "$control"
    for source in 0 1 2 3; do
        printf 'source %d\n%s\n' $source "$residuals"
    done
done
echo number_of_quarks 5
for propagator in 0 2 6 10 14; do
    printf 'propagator %d\nidentity\nop_label d\nforget_ksprop\n' $propagator
done
echo number_of_mesons 5
for quark in 0 1 2 3 4; do
    printf 'pair %d %d\nspectrum_request meson\nforget_corr\nr_offset 0 0 0 0\n' $quark $quark
    printf 'number_of_correlators 1\ncorrelator P5 p000 1 * 1 pion5 0 0 0 E E E\n'
done
echo number_of_baryons 0
