#!/bin/sh
# Copies what is built into a prefix and lists it there, in share/milcgpu/manifest, for uninstall.sh. `make install`
# calls it in the source tree:
#   install.sh BUILD VERSION PROGRAMS...        BUILD: the folder of the build; PROGRAMS: files in it, those that are built
# PREFIX, LIBDIR (a folder in PREFIX) and DESTDIR come from the environment. Compiles nothing.
set -e
umask 022 # others can use what root installs
build=$1
version=$2
shift 2
say() { printf 'milcgpu: %s\n' "$*"; }
fail() {
    say "$*" >&2
    exit 1
}

case $PREFIX in
/*) ;;
*) fail "PREFIX=$PREFIX: must be an absolute path" ;;
esac
case $LIBDIR$PREFIX in
*[\\\&\|]*) fail "PREFIX=$PREFIX: must not contain \\, & or |" ;;
esac
case $LIBDIR in
"$PREFIX"/?*) libdir=${LIBDIR#"$PREFIX"/} ;;
*) fail "LIBDIR=$LIBDIR: must be a folder in PREFIX=$PREFIX, as $PREFIX/lib64" ;;
esac
root=$DESTDIR$PREFIX
interface=${version%.*}
soname=libmilcgpu.so.$interface
manifest=share/milcgpu/manifest
. "$build/built" # milcgpu_variant, milcgpu_arch, milcgpu_private_libs
variant=$milcgpu_variant

new=$(mktemp)
trap 'rm -f "$new"' EXIT

# Makes a folder in the prefix; those that were not there are listed, so that they go again.
folder() {
    [ -d "$root/$1" ] && return
    case $1 in .) ;; */*) folder "${1%/*}" ;; *) folder . ;; esac
    mkdir -p "$root/$1" || fail "$(realpath -ms "$root/$1") cannot be created: choose a PREFIX that you can write to, or use sudo"
    echo "d $1" >>"$new"
}
# put MODE FILE PLACE: a copy, at PLACE in the prefix. Scripts can be run.
put() {
    folder "${3%/*}"
    case $3 in *.sh) mode=755 ;; *) mode=$1 ;; esac
    install -m "$mode" "$2" "$root/$3" || fail "$root/$3 cannot be written: choose a PREFIX that you can write to, or use sudo"
    echo "f $3" >>"$new"
}
link() { # link TARGET PLACE
    folder "${2%/*}"
    ln -sf "$1" "$root/$2"
    echo "f $2" >>"$new"
}
fill() { # fill TEMPLATE PLACE: put, with its @words@ filled in
    filled=$(mktemp)
    sed -e "s|@prefix@|$PREFIX|g; s|@libdir@|$libdir|g; s|@version@|$version|g; s|@interface@|$interface|g" \
        -e "s|@soname@|$soname|g; s|@variant@|$variant|g; s|@private_libs@|$milcgpu_private_libs|g" \
        -e "s|@private_list@|$(echo "$milcgpu_private_libs" | tr -s ' ' ';')|g" \
        -e "s|@to_prefix@|$(realpath -ms --relative-to="/$libdir/cmake/milcgpu" /)|g" "milc_glue/install/$1" >"$filled"
    put 644 "$filled" "$2"
    rm -f "$filled"
}

folder .
for header in milc_glue/api/milcgpu*.h; do
    put 644 "$header" "include/milcgpu/${header##*/}"
done
put 755 "$build/libmilcgpu.so" "$libdir/libmilcgpu.so.$version"
link "libmilcgpu.so.$version" "$libdir/$soname"
link "libmilcgpu.so.$version" "$libdir/libmilcgpu.so"
put 644 "$build/libmilcgpu.a" "$libdir/libmilcgpu.a"
fill milcgpu.pc.in "$libdir/pkgconfig/milcgpu.pc"
fill milcgpuConfig.cmake.in "$libdir/cmake/milcgpu/milcgpuConfig.cmake"
fill milcgpuConfigVersion.cmake.in "$libdir/cmake/milcgpu/milcgpuConfigVersion.cmake"

# The door for MILC's own GPU switches, whole by itself: MILC looks in its include and lib alone.
for header in milc_glue/quda_compat/*.h milc_glue/api/milcgpu.h milc_glue/api/milcgpu_milc.h milc_glue/api/milcgpu_mpi.h; do
    [ "${header##*/}" = internal.h ] || put 644 "$header" "quda-compat/include/${header##*/}"
done
# By its own name at run time: a site's QUDA is never taken for it.
put 755 "$build/libquda.so" "quda-compat/lib/libmilcgpu-quda.so.$version"
link "libmilcgpu-quda.so.$version" "quda-compat/lib/libmilcgpu-quda.so.$interface"
link "libmilcgpu-quda.so.$version" quda-compat/lib/libquda.so
link "../../$libdir/$soname" "quda-compat/lib/$soname"
put 644 milc_glue/install/QUDAConfig.cmake quda-compat/lib/cmake/QUDA/QUDAConfig.cmake

for file in milc_glue/use_gpu/*.[ch] milc_glue/api/plugin.h milc_glue/api/routines.def milc_glue/use_gpu/select.sh milc_glue/use_gpu/milc_gpu.mk; do
    put 644 "$file" "share/milcgpu/${file##*/}"
done
put 755 milc_glue/use_gpu/milcgpu-config bin/milcgpu-config
put 644 milc_glue/use_gpu/milcgpu.cmake share/milcgpu/milcgpu.cmake
put 644 milc_glue/use_gpu/cmake_link.sh share/milcgpu/cmake_link.sh
missing=
for program in "$@"; do
    name=milcgpu-$(basename "$program" | tr _ -)
    [ -e "$program" ] && put 755 "$program" "bin/$name" || missing="$missing $name"
done
for file in README.md LICENSE docs/*.[!s]* examples/cookbook/* examples/benchmarks/*; do
    put 644 "$file" "share/doc/milcgpu/$file"
done
for file in examples/python/pyproject.toml examples/python/milcgpu/*.py; do
    put 644 "$file" "share/milcgpu/${file#examples/}"
done
for file in examples/draw.sh examples/plots/*.gp; do
    put 644 "$file" "share/milcgpu/${file#examples/}"
done
link ../share/milcgpu/draw.sh bin/milcgpu-draw
fill modulefile.in "share/modulefiles/milcgpu/$version"
facts=$(mktemp)
printf 'libdir=%s\nvariant=%s\narch=%s\n' "$libdir" "$variant" "$(echo "$milcgpu_arch" | tr -s ' ' ,)" >"$facts"
put 644 "$facts" share/milcgpu/facts
rm -f "$facts"

# What an install before has left goes, but for libraries of other versions: programs that were linked with them need
# them. The folders that it made stay listed.
echo "f $manifest" >>"$new"
if [ -f "$root/$manifest" ]; then
    while read -r kind path; do
        grep -qxF "$kind $path" "$new" && continue
        case $kind$path in
        f*/libmilcgpu*.so.* | d*) echo "$kind $path" >>"$new" ;;
        f*) rm -f "$root/$path" ;;
        esac
    done <"$root/$manifest"
fi
install -m 644 "$new" "$root/$manifest"
[ -z "$missing" ] || say "not built, so not installed:$missing"
in_words() { # for the shell, in quotation marks if it needs them
    case $1 in *[!A-Za-z0-9/._-]*) echo "'$(echo "$1" | sed "s/'/'\\\\''/g")'" ;; *) echo "$1" ;; esac
}
say "installed $variant${milcgpu_arch:+ (for $milcgpu_arch)}, version $version, in $root. To remove it: make uninstall PREFIX=$(in_words "$PREFIX")${DESTDIR:+ DESTDIR=$(in_words "$DESTDIR")}"
