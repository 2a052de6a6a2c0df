#!/bin/sh
# Builds program.cpp with every MPI that is found, and lists the programs: one line each, the launcher and the program.
#   sh tests/mpi_ranks/build.sh FOLDER COMPILER ARGUMENTS...
# FOLDER gets the programs and the list. The MPI's compiler calls COMPILER with ARGUMENTS. Debian has Open MPI and MPICH
# side by side, mpicxx.openmpi and mpicxx.mpich; elsewhere mpicxx is the only one. A program that is newer than its
# sources, the library and the flags is not built again. Without an MPI the list is empty.

folder=$1
compiler=$2
shift 2
sources=tests/mpi_ranks
mkdir -p "$folder"
: >"$folder/list.new"
names=
for name in mpicxx.openmpi mpicxx.mpich; do
    command -v $name >/dev/null 2>&1 && names="$names $name"
done
[ -z "$names" ] && command -v mpicxx >/dev/null 2>&1 && names=mpicxx

for name in $names; do
    mpicxx=$(command -v $name)
    mpirun=$(dirname "$mpicxx")/mpirun${name#mpicxx}
    [ -x "$mpirun" ] && "$mpicxx" -E -include mpi.h -x c++ /dev/null >/dev/null 2>&1 || continue
    program=$folder/program${name#mpicxx}
    older="$sources $folder/../libmilcgpu.a $folder/../obj/milc_glue/quda_compat $folder/../flags"
    if [ ! -e "$program" ] || [ -n "$(find $older -newer "$program" -print -quit)" ]; then
        echo "  MPI   $program"
        OMPI_CXX=$compiler MPICH_CXX=$compiler "$mpicxx" "$@" -o "$program" || exit 1
        # The header in C, without warnings of this MPI's own types.
        printf '#include "milc_glue/api/milcgpu_mpi.h"\nint test(void *u, void *h, int *done);\n%s\n' \
            'int test(void *u, void *h, int *done) { return milcgpu_mpi_test(u, h, done); }' >"$folder/header.c"
        "$(dirname "$mpicxx")/mpicc${name#mpicxx}" -std=c99 -O2 -Wall -Wextra -Werror -I. -c "$folder/header.c" \
            -o "$folder/header.o" || exit 1
    fi
    echo "$mpirun $program" >>"$folder/list.new"
done
mv "$folder/list.new" "$folder/list"
