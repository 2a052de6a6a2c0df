#!/bin/sh
# Links a program of MILC's CMake (milcgpu.cmake):
#   sh cmake_link.sh BUILD LIBDIR PROGRAM LINK-COMMAND...
# milc_gpu.mk compiles the glue in BUILD/milcgpu/PROGRAM, with CMake's compiler and flags for PROGRAM. The glue's objects
# and words go before the first object of the link command.
build=$1
lib=$2
program=$3
shift 3
glue=$build/milcgpu/$program
[ -s "$build/compile_commands.json" ] || {
    echo "milcgpu: $build/compile_commands.json is missing: it has the commands that compile $program. Run CMake again" >&2
    exit 1
}
compile=$(grep -F "CMakeFiles/$program.dir/" "$build/compile_commands.json" |
    sed -n 's/^ *"command": "\(.*\) -o .* -c .*\.c[\\"]*,*$/\1/p' | head -n 1 | sed 's/\\\(.\)/\1/g')
if [ -z "$compile" ]; then
    echo "milcgpu: CMake compiles no C file of $program: it is linked as without milcgpu"
    exec "$@"
fi
mkdir -p "$glue" && printf '#!/bin/sh\nexec %s "$@"\n' "$compile" >"$glue/cc" && chmod +x "$glue/cc" || exit

objects=
for word; do
    case $word in
    /*.[oa]) objects="$objects $word" ;;
    *.[oa]) objects="$objects $PWD/$word" ;;
    esac
done
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEFILES # if a make runs this
make -s --no-print-directory -C "$glue" -f "$(dirname "$0")/milc_gpu.mk" milcgpu_words CC=./cc CFLAGS= \
    MYTARGET="$program" MILCGPU_LIB="$lib" milcgpu_linked="$objects" || exit

words=$(cat "$glue/milcgpu_words")
for word; do # moves each word to the end
    case $word in
    *.[oa] | @*)
        set -- "$@" $words
        words=
        ;;
    esac
    set -- "$@" "$word"
    shift
done
exec "$@"
