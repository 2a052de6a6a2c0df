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
    older="$sources milc_glue/use_gpu/ranks.c $folder/../libmilcgpu.a $folder/../obj/milc_glue/quda_compat $folder/../flags"
    if [ ! -e "$program" ] || [ -n "$(find $older -newer "$program" -print -quit)" ]; then
        echo "  MPI   $program"
        mpicc=$(dirname "$mpicxx")/mpicc${name#mpicxx}
        for file in milc_glue/use_gpu/ranks.c $sources/milc.c; do # as MILC's make does
            "$mpicc" -std=c99 -O2 -Wall -Wextra -Werror -DMPI_COMMS -DMILC_PRECISION=2 -DMILC_HOST_hisq -DSINGLE -DFN \
                -DMILCGPU_MILC=2 -DMILCGPU_GLUE_ranks -I. -Imilc_glue/api -Itests/milc_host -Itests/milc_host/app \
                -c $file -o "$folder/$(basename $file .c).o" || exit 1
        done
        OMPI_CXX=$compiler MPICH_CXX=$compiler "$mpicxx" "$folder/ranks.o" "$folder/milc.o" \
            -Wl,--wrap=initialize_machine,--wrap=terminate "$@" -o "$program" || exit 1
    fi
    echo "$mpirun $program" >>"$folder/list.new"
done
mv "$folder/list.new" "$folder/list"
