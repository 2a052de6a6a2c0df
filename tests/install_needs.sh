#!/bin/sh
# Install what `make demo` and `make check` need on Debian or Ubuntu, when that is allowed (root, or sudo without a
# password); otherwise print the exact line to run and exit 1. Silent when nothing is missing.
#   sh tests/install_needs.sh [check] [demo]
# Both need make, a C++17 compiler ($CXX, default g++) with OpenMP, and CLI11, for the programs' options; check needs
# Catch2. Both would like gnuplot, for pictures; check would like an MPI, pkg-config, CMake, ip (two nodes of an MPI) and
# Python's cffi and numpy, each for the tests of its own: they go on without.
# nvcc is never installed: without it the library is built with its host backend alone.

cxx=${CXX:-g++}
need_catch=false
need_python=false
wanted=gnuplot
for goal in "$@"; do
    case $goal in
    check)
        need_catch=true
        need_python=true
        wanted="$wanted mpicxx pkg-config cmake ip"
        ;;
    demo) ;;
    esac
done

# Unquoted $cxx on purpose: it may be 'ccache g++'.
has_header() {
    printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" | $cxx -std=c++17 $CPPFLAGS -E -x c++ - >/dev/null 2>&1
}
has_compiler() {
    command -v "${cxx##* }" >/dev/null 2>&1 && has_header cstdlib && has_header omp.h
}
has_catch() {
    has_header catch2/catch_all.hpp || has_header catch2/catch.hpp
}

package_of() {
    case $1 in
    gnuplot) echo gnuplot-nox ;;
    mpicxx) echo libopenmpi-dev openmpi-bin ;;
    ip) echo iproute2 ;;
    *) echo "$1" ;;
    esac
}

# Sets $required and $optional to the packages still missing.
look() {
    required=
    optional=
    command -v make >/dev/null 2>&1 || required="$required make"
    has_compiler || required="$required g++" # which brings OpenMP
    has_header CLI/CLI.hpp || required="$required libcli11-dev"
    if $need_catch && ! has_catch; then required="$required catch2"; fi
    for tool in $wanted; do
        command -v $tool >/dev/null 2>&1 || optional="$optional $(package_of $tool)"
    done
    for module in cffi numpy; do
        if $need_python && ! { python3 -c "import $module" || /usr/bin/python3 -c "import $module"; } >/dev/null 2>&1; then
            optional="$optional python3-$module"
        fi
    done
}

if [ "$cxx" != g++ ] && ! has_compiler; then
    echo "CXX='$cxx' cannot be used: not found, or without C++17 or <omp.h> (for clang: package libomp-dev)" >&2
    exit 1
fi
look
[ -z "$required$optional" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    sudo=none
elif [ "$(id -u)" -eq 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo="sudo -n "
else
    sudo=none
fi

# install PACKAGES...
install() {
    echo "installing: $*"
    ${sudo}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
if [ "$sudo" != none ]; then
    ${sudo}env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    [ -n "$required" ] && install $required
    [ -n "$optional" ] && install $optional
    look
fi

[ -n "$optional" ] && echo "missing:$optional; without them no picture is drawn (gnuplot), and tests of what is missing are skipped"
[ -z "$required" ] && exit 0

required=${required# }
if command -v apt-get >/dev/null 2>&1; then
    echo "missing: $required. Run:" >&2
    [ "$(id -u)" -eq 0 ] && root= || root="sudo "
    echo "    ${root}apt-get update && ${root}apt-get install -y --no-install-recommends $required" >&2
else
    echo "missing: $required, and there is no apt-get here. Install with your package manager: GNU make," \
        "a C++17 compiler with OpenMP (or name yours: make CXX=...), CLI11 version 2, Catch2 version 2 or 3." >&2
fi
exit 1
