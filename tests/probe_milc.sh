#!/bin/sh
# Builds every target of every program of a MILC tree, without milcgpu and with it, and prints a table.
#
#   MILCGPU_LIB=$PWD/build/host tests/probe_milc.sh TREE [FOLDER...]
#
# TREE: an unpacked MILC; a copy of it is built in. FOLDER: these programs alone. A line for each target: folder, target,
# whether it builds without the word and with it, and what milcgpu takes over, or why it does not build.
# Environment: PROBE_WORDS, more words for make (MPP=true); PROBE_JOBS (2); TMPDIR.
# The two builds of a target share MILC's objects: the word changes none of them. A target that needs what is not on
# this machine, as QIO, builds neither way. Status 1: a target builds without the word, and not with it.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tree=$(cd "${1:?a MILC tree}" && pwd) && shift
work=$(mktemp -d "${TMPDIR:-/tmp}/probe_milc.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
cp -R "$tree/." "$work" && cd "$work" || exit 2
cc=gcc cxx=g++
command -v ccache >/dev/null && cc="ccache $cc" cxx="ccache $cxx"

# The targets whose recipe names them in MYTARGET.
targets_of() {
    awk '/^[A-Za-z0-9_][A-Za-z0-9_.]*[ \t]*::?/ { sub(/[ \t]*:.*/, ""); name = $0 }
         name != "" && /MYTARGET/ && /MAKE/ { print name; name = "" }' "$1/Make_template" | sort -u
}
# stdint.h: some headers of MILC's of 2024 and later want it.
build() { # FOLDER TARGET WORDS...
    (
        cd "$1" && target=$2 && shift 2 && rm -f "$target" localmake
        # shellcheck disable=SC2086
        LC_ALL=C timeout 600 make -j"${PROBE_JOBS:-2}" "$target" PRECISION=2 MY_CC="$cc" MY_CXX="$cxx" WANTFFTW=false \
            OMP=true OPT="${PROBE_OPT:--O0 -include stdint.h}" ${PROBE_WORDS:-} "$@" && [ -x "$target" ]
    ) >said 2>&1 </dev/null
}
why() { grep -E 'milcgpu: MILC|error: |undefined reference|No rule|cannot find|Syntax error' said | grep -v '^make.*recipe' |
    head -n 1 | cut -c1-160; }
lost=0
[ $# -gt 0 ] || set -- $(ls -d */Make_template | sed 's,/.*,,')
for folder; do
    [ -f "$folder/Make_template" ] || continue
    cp Makefile "$folder/" || exit 2
    for target in $(targets_of "$folder"); do
        rm -f "$folder"/*.o
        without=no with=-
        if ! build "$folder" "$target"; then
            text=$(why)
        elif build "$folder" "$target" MAKEFILES="$here/milc_glue/use_gpu/milc_gpu.mk"; then
            without=yes with=yes
            text=$(sed -n 's/^milcgpu: \(.*\) \(goes\|go\) to .*/\1/p; s/^milcgpu: .* has no .*/not served/p' said | head -n 1)
            for file in md mesons invert propagators; do
                grep -q "^$file .*GLUE_$file" "$folder/milcgpu_glue" 2>/dev/null && text="$text, $file"
            done
        else
            without=yes with=NO lost=1
            text=$(why)
        fi
        printf '%-18s %-34s %-4s %-4s %s\n' "$folder" "$target" $without $with "$text"
    done
done
exit $lost
