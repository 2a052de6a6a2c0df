#!/bin/sh
# Prints the input of the staggered-CG probe 1.1.0 (lqcd-agent-handbook, October 2026) for MILC's ks_spectrum_hisq, or an
# input like those of its campaigns, as the local volume of one GPU.
#
#     sh campaign.sh PART NX NY NZ NT LATTICE [SLICES] > campaign.in
#
# PART      masses: ten light masses in a multi-shift solve, residual 1e-8, from a random wall and an even-odd wall
#           three:  a light mass, three right-hand sides a solve, residual 1e-8, from a corner wall
#           nine:   nine right-hand sides a solve, residual 1e-12, from the eight corners of a cube and a corner wall;
#                   baryons. Program: ks_spectrum_hisq_gb_baryon_blind_no_sink_links
#           heavy:  five heavy masses, each with its own correction of the Naik term, from the sources of 'masses'
#           probe:  six solves of one right-hand side, four of twelve; mass 0.01, residual 1e-8. The figure is MILC's
#                   mflops without the first solve of each kind: solves.awk
#           eigen:  256 eigenvectors, which deflate 24 solves: corner walls of three colours at four times, masses
#                   0.01 and 0.02, residual 1e-8
#           The program of the others: ks_spectrum_hisq.
# LATTICE   a file, or 'warm'
# SLICES    how many time slices have sources, 4 if not given; for 'probe' and 'eigen' no argument: their sources are one
#           input. MILC reads the others slice by slice.
# Environment: MASS, the lightest mass (not of 'eigen'); VECTORS, the eigenvectors of 'eigen'.
set -e
[ $# = 6 ] || [ $# = 7 ] || { sed -n '2,20s/^# \{0,1\}//p' "$0" >&2; exit 2; }
part=$1 nx=$2 ny=$3 nz=$4 nt=$5 slices=${7:-4}
[ "$6" = warm ] && lattice=warm || lattice="reload_serial $6"

# TYPE FIELDS T LABEL: a base source.
source_of() { printf '%s\nfield_type KS\nsubset full\nt0 %d\n%bsource_label %s\nforget_source\n' $1 $3 "$2" $4; }
# TYPE INV_TYPE: a set of propagators.
set_of() {
    printf 'set_type %s\ninv_type %s\nmax_cg_iterations %d\nmax_cg_restarts %d\n' $1 $2 $iterations $restarts
    printf 'check yes\nmomentum_twist 0 0 0\nprecision 2\n'
}
mass() { printf 'mass %s\nnaik_term_epsilon %s\n' $1 $2; }
# RESIDUAL
residual() { printf 'error_for_propagator %s\nrel_error_for_propagator 0\nfresh_ksprop\nforget_ksprop\n' $1; }
# The first argument times the second.
product() { awk "BEGIN { printf \"%.6g\", $1 * $2 }"; }
# MASS: its correction of the Naik term at tree level (arXiv:hep-lat/0610092, eq. 26).
naik() {
    awk "BEGIN { q = $1 * $1; printf \"%.6f\", q * (-27 / 40 + q * (327 / 1120 - q * (15607 / 268800 + q * 73697 / 3942400))) }"
}
# PROPAGATOR...: a quark of each.
quarks() {
    echo number_of_quarks $#
    for propagator; do printf 'propagator %d\nidentity\nop_label d\nforget_ksprop\n' $propagator; done
}
# T QUARK: the pion of a quark with itself.
pion() {
    printf 'pair %d %d\nspectrum_request meson\nforget_corr\nr_offset 0 0 0 %d\nnumber_of_correlators 1\n' $2 $2 $1
    echo 'correlator P5 p000 1 * 1 pion5 0 0 0 E E E'
}
# T QUARK...: the pion of each quark.
pions() {
    t=$1
    shift
    echo number_of_mesons $#
    for quark; do pion $t $quark; done
}
# T: the walls of 'masses' and 'heavy'.
walls() {
    printf 'number_of_base_sources 2\n'
    source_of random_color_wall 'ncolor 3\nmomentum 0 0 0\n' $1 r
    source_of evenandodd_wall '' $1 e
    echo number_of_modified_sources 0
}

masses() {
    walls $1
    echo number_of_sets 2
    for source in 0 1; do
        set_of multimass UML
        printf 'source %d\nnumber_of_propagators 10\n' $source
        for factor in 1 1.5 2 3 4 6 8 10 12 15; do
            mass $(product ${MASS:-.001} $factor) 0
            residual 1e-8
        done
    done
    quarks $(seq 0 19)
    pions $1 $(seq 0 19)
    echo number_of_baryons 0
}
three() {
    echo number_of_base_sources 1
    source_of corner_wall '' $1 c
    printf 'number_of_modified_sources 0\nnumber_of_sets 1\n'
    set_of multicolorsource CGZ
    mass ${MASS:-.001} 0
    printf 'number_of_propagators 1\nsource 0\n'
    residual 1e-8
    quarks 0
    pions $1 0
    echo number_of_baryons 0
}
nine() {
    echo number_of_base_sources 2
    source_of corner_wall '' $1 k0
    source_of evenandodd_wall '' $1 e
    echo number_of_modified_sources 7
    label=0
    for bits in '1 x' '1 y' '2 x y' '1 z' '2 x z' '2 y z' 3; do
        label=$((label + 1))
        echo "$bits" | awk '{ print "source 0\npar_xport_src_ks\ndisp " $1; if (NF > 1) { $1 = "dir"; print } }'
        printf 'op_label k%d\nforget_source\n' $label
    done
    echo number_of_sets 3
    for sources in '0 2 3' '4 5 6' '7 8 1'; do
        set_of multicolorsource UML
        mass ${MASS:-.035} 0
        echo number_of_propagators 3
        for source in $sources; do
            echo source $source
            residual 1e-12
        done
    done
    quarks $(seq 0 8)
    printf 'number_of_mesons 0\nnumber_of_baryons 0\nnumber_of_quark_octets 1\noctet 0 1 2 3 4 5 6 7\n'
    printf 'number_of_gb_baryons 1\ntriplet 0 0 0\nspectrum_request gb_baryon\nquark_content uud\nforget_corr\n'
    printf 'r_offset 0 0 0 %d\nmomentum 0 0 0 EO EO EO\nspin_taste 2point\nnumber_of_correlators 9\n' $1
    for from in 41 42 7; do
        for to in 41 42 7; do
            echo "correlator 16+M${from}_16+M$to 1 * 1 16+ M1/2 $from 16+ M1/2 $to point corner"
        done
    done
}
heavy() {
    walls $1
    echo number_of_sets 2
    for source in 0 1; do
        set_of single CGZ
        printf 'source %d\nnumber_of_propagators 5\n' $source
        for factor in 1 1.114 2.226 3.341 4.457; do
            m=$(product ${MASS:-.164} $factor)
            mass $m $(naik $m)
            residual 1e-8
        done
    done
    quarks $(seq 0 9)
    pions $1 $(seq 0 9)
    echo number_of_baryons 0
}
probe() {
    echo number_of_base_sources 4
    for t in 0 2 4 6; do source_of corner_wall '' $t c$t; done
    printf 'number_of_modified_sources 0\nnumber_of_sets 5\n'
    set_of single CGZ
    printf 'source 0\nnumber_of_propagators 2\n'
    for propagator in 0 1; do
        mass ${MASS:-.01} 0
        residual 1e-8
    done
    for set in 1 2 3 4; do
        set_of multicolorsource CGZ
        mass ${MASS:-.01} 0
        echo number_of_propagators 4
        for source in 0 1 2 3; do
            echo source $source
            residual 1e-8
        done
    done
    quarks 0 2 6 10 14
    pions 0 0 1 2 3 4
    echo number_of_baryons 0
}

eigen() {
    printf 'number_of_base_sources 4\n'
    for quarter in 0 1 2 3; do source_of corner_wall '' $((nt / 4 * quarter)) c$quarter; done
    printf 'number_of_modified_sources 0\nnumber_of_sets 4\n'
    for source in 0 1 2 3; do
        set_of single UML
        printf 'source %d\nnumber_of_propagators 2\n' $source
        for mass in .01 .02; do
            mass $mass 0
            echo deflate yes
            residual 1e-8
        done
    done
    quarks 0 1 2 3 4 5 6 7
    echo number_of_mesons 8
    for quark in 0 1 2 3 4 5 6 7; do pion $((nt / 4 * (quark / 2))) $quark; done
    echo number_of_baryons 0
}
# How MILC's Kalkreuter_Ritz computes eigenvectors; milcgpu reads the tolerance alone.
eigenvectors='fresh_ks_eigen
forget_ks_eigen
Max_Rayleigh_iters 1000
Restart_Rayleigh 10
Kalkreuter_iters 20
eigenval_tolerance 1e-8
error_decrease 0.3
'

iterations=5000 restarts=20 pairs=0
case $part in
masses | three | nine | heavy) eigenvectors= ;;
eigen) slices=1 pairs=${VECTORS:-256} ;;
probe) iterations=10000 restarts=50 slices=1 eigenvectors= ;;
*) echo "$0: no part '$part'" >&2; exit 2 ;;
esac
printf 'prompt 0\nnx %d\nny %d\nnz %d\nnt %d\niseed 5682304\njob_id campaign\n' $nx $ny $nz $nt
for slice in $(seq 0 $((slices - 1))); do
    cat <<END
$lattice
u0 1
no_gauge_fix
forget
staple_weight 0
ape_iter 0
coordinate_origin 0 0 0 0
time_bc antiperiodic
max_number_of_eigenpairs $pairs
${eigenvectors}number_of_pbp_masses 0
END
    $part $((slice * nt / slices))
    lattice=continue
done
