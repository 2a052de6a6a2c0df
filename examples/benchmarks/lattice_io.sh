#!/bin/sh
# Prints an input for MILC's su3_ora (pure_gauge), which reads a lattice and writes it again, each by all ranks. MILC
# prints the seconds of both.
#
#     sh lattice_io.sh NX NY NZ NT LATTICE COPY > io.in
set -e
[ $# = 6 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cat <<END
prompt 0
nx $1
ny $2
nz $3
nt $4
iseed 1

warms 0
trajecs 0
traj_between_meas 1
beta 6.0
steps_per_trajectory 1
qhb_steps 1
reload_parallel $5
no_gauge_fix
save_parallel $6
END
