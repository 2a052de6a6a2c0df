#!/bin/sh
# Selects the parts of the glue that a program of MILC's gets. milc_gpu.mk calls it in the folder of the build:
#
#   sh select.sh PROGRAM LIBRARY_FOLDER 'COMPILER' FLAGS OF MILC'S C FILES...
#
# Prints one line for the user, and writes
#   milcgpu_glue  a line for each file of the glue to compile: its name without .c, and more flags for it
#   milcgpu_link  the words of the link line
# Both are empty if the program has no routine that the glue wraps. Status 1, after a message: the build must stop.
here=$(cd "$(dirname "$0")" && pwd)
table=$here/routines.def
[ -f "$table" ] || table=$here/../api/routines.def # in the source tree
program=$1 library=$2 cc=$3
shift 3
known='master 1e11e121, develop 9782cb00 (October 2024) and 17e94a39 (February 2025), and c6785115 of lnhorg/milc_qcd_yuzhi (May 2025)'
generations='3 2 1' # of MILC's headers, as routines.def has them; the newest first
: >milcgpu_glue
: >milcgpu_link

compiles() { # FILE MORE_FLAGS MILC'S_FLAGS...
    source=$here/$1 more=$2
    shift 2
    # shellcheck disable=SC2086
    LC_ALL=C $cc "$@" $more -w -c "$source" -o milcgpu_check.o >milcgpu_said 2>&1
}
sections() { # GENERATION FILES: the flags for these files
    printf -- '-DMILCGPU_MILC=%s' "$1"
    shift
    printf -- ' -DMILCGPU_GLUE_%s' "$@"
}
table() { # GENERATION FILES FLAGS...: routines.def with these macros
    # shellcheck disable=SC2086
    of=$(sections "$1" $2)
    shift 2
    # shellcheck disable=SC2086
    $cc -E -P "$@" $of -x c "$table"
}
find_generation() { # FILES MILC'S_FLAGS...
    unit=$1
    shift
    for generation in $generations; do
        # shellcheck disable=SC2086
        compiles check.c "$(sections $generation $unit)" "$@" && return 0
    done
    return 1
}
sections_of() { # FILE: the sections that it is compiled with
    case $1 in
    program) echo "$files" ;;
    sites) case " $files " in *' md '*) echo md ;; *) echo sites ;; esac ;;
    make_links) echo links hisq_links deferred ;;
    gb_octets) echo gb_baryons ;;
    reload) case " $files " in *' md '*) echo reload md updates ;; *) echo reload no_md ;; esac ;;
    *) echo "$1" ;;
    esac
}
# Prints the declarations that differ from the generation that fits best, and stops.
refuse() { # MILC'S_FLAGS...
    fewest=
    for generation in $generations; do
        # shellcheck disable=SC2086
        compiles check.c "$(sections $generation $files)" "$@"
        differ=$(grep -c 'conflicting types for' milcgpu_said)
        if [ -z "$fewest" ] || [ "$differ" -lt "$fewest" ]; then
            fewest=$differ best=$generation
            mv milcgpu_said milcgpu_differs
        fi
    done
    for name in $(sed -n 's/.*conflicting types for [^A-Za-z_]*\([A-Za-z0-9_]*\).*/\1/p' milcgpu_differs | uniq); do
        echo "milcgpu: MILC declares $name otherwise than milcgpu expects. milcgpu knows MILC's $known"
        table "$best" "$files" '-DMILCGPU_WRAPPED(result,routine,arguments)=result routine arguments' \
            '-DMILCGPU_CALLED(result,routine,arguments)=result routine arguments' |
            sed -n "s/^ *\(.*[ *]$name *(.*\)/milcgpu: expected: \1/p" | tr -s ' '
        earlier=':[0-9]+: note: previous declaration'
        sed -n -E "s/^(.*)$earlier of '$name' with type '([^']*)'.*/milcgpu: MILC's: \2, \1/p
            s/^(.*)$earlier (is here|of '$name' was here)$/milcgpu: MILC's: \1/p" milcgpu_differs
    done
    [ "$fewest" -gt 0 ] ||
        echo "milcgpu: the glue does not compile with the headers of this MILC. milcgpu knows MILC's $known"
    echo "milcgpu: make stops. Take a milcgpu that knows this MILC, or leave its word out. The compiler says:"
    cat milcgpu_differs
    rm -f milcgpu_differs milcgpu_said milcgpu_check.o
    exit 1
} >&2

# Prints which feature of the program stays with MILC, because MILC's headers do not fit the file of the glue.
say_left() {
    case $file in
    md) stays='molecular dynamics stays' ;;
    lattice_file) stays='reading and writing lattices stays' ;;
    mesons) stays='shifts, smearing and contractions stay' ;;
    gb_baryons) stays='Golterman-Bailey baryons stay' ;;
    *) stays='sources that are solved together stay' ;;
    esac
    echo "milcgpu: $program: $stays with MILC's own routines, because MILC's headers do not have what $file.c reads."
    echo "milcgpu: milcgpu knows MILC's $known. Take a milcgpu that knows this MILC. The compiler says:"
    cat milcgpu_differs
} >&2

# Prints the wrapped routines that this MILC does not declare under these names.
say_undeclared() {
    for name in $(sed -n -E "s/.*error: ('([A-Za-z0-9_]+)' undeclared|use of undeclared identifier '([A-Za-z0-9_]+)').*/\2\3/p" milcgpu_said |
        sort -u); do
        echo "milcgpu: MILC's headers do not declare $name: what this MILC has in its place runs on the CPU. milcgpu knows MILC's $known"
    done
} >&2

has_object() { # NAME: whether MILC's makefile has it in OBJECTS
    case " $MILCGPU_OBJECTS " in *" $1.o "*) return 0 ;; *) return 1 ;; esac
}

files='start ranks memory program offload' more_flags=
# The preprocessor decides. Its messages are dropped, because a missing header is an answer, too.
# shellcheck disable=SC2086
case $($cc "$@" -E "$here/serves.h" 2>/dev/null) in
*milcgpu_serves_flow*)
    what='the gradient flow of %s goes'
    files="$files gradient_flow"
    ;;
*milcgpu_serves_hyp*)
    what='HYP smearing of %s goes'
    files="$files hyp"
    ;;
*milcgpu_serves*)
    what='solves and links of %s go'
    files="$files setup fields draws random sites solve make_links deferred links hisq_links gauge_fix clover dirac_mesons baryons"
    for file in reload md grsource mesons invert propagators gb_baryons; do
        if compiles probe.c "-DMILCGPU_PROBE_$file" "$@"; then
            files="$files $file"
            [ $file != md ] || files="$files updates fermion_force"
            [ $file != invert ] || files="$files eigen"
            [ $file != gb_baryons ] || files="$files gb_octets"
        else
            mv milcgpu_said milcgpu_differs
            ! compiles probe.c "-DMILCGPU_PROBE_$file -DMILCGPU_FEATURE" "$@" || say_left
        fi
    done
    case $files in *mesons*eigen*) files="$files currents" ;; esac
    case " $files " in *' md '*) ;; *' reload '*) files="$files no_md" ;; esac
    ;;
*)
    if ! $cc "$@" -E -x c /dev/null >/dev/null; then
        echo "milcgpu: the compiler of this make cannot be run: $cc (MY_CC=... names another, as MY_CC=gcc)" >&2
        exit 1
    fi
    # Without these fermions, the program's objects and headers decide.
    set -- "$@" -DMILCGPU_WITHOUT_FERMIONS
    more_flags=-DMILCGPU_WITHOUT_FERMIONS what= were=$files
    if { has_object gaugefix || has_object gaugefix2; } && compiles probe.c -DMILCGPU_PROBE_gauge_fix "$@"; then
        files="$files gauge_fix" what='gauge fixing of %s goes'
    fi
    if has_object integrate && has_object fmunu && compiles probe.c -DMILCGPU_PROBE_flow_steps "$@"; then
        files="$files flow_steps" what='the gradient flow of %s goes'
    fi
    dynamics=
    if has_object update_u && has_object update_h; then
        dynamics='molecular dynamics of %s goes'
    elif has_object relax && has_object monte && has_object dsdu_qhb; then
        dynamics='over-relaxation and heat bath of %s go'
    fi
    if [ -n "$dynamics" ] && compiles probe.c -DMILCGPU_PROBE_pure_gauge "$@"; then
        files="$files draws pure_gauge" what=$dynamics
    fi
    if [ "$files" = "$were" ] || ! find_generation "$files" "$@"; then
        echo "milcgpu: $program has no asqtad or HISQ solver to take over: it is built as without milcgpu"
        exit 0
    fi
    ;;
esac

if compiles probe.c -DMILCGPU_PROBE_lattice_file "$@"; then
    files="$files lattice_file"
else
    file=lattice_file
    mv milcgpu_said milcgpu_differs
    ! compiles probe.c "-DMILCGPU_PROBE_lattice_file -DMILCGPU_FEATURE" "$@" || say_left
fi

# All files by one generation. For a MILC between two generations, a file that shares nothing with others gets its own.
units=$(echo "$files" | tr ' ' ,)
if ! find_generation "$files" "$@"; then
    core="" alone=""
    for file in $files; do
        case $file in
        lattice_file | invert | eigen | propagators | mesons | currents | gb_baryons | gb_octets) alone="$alone $file" ;;
        *) core="$core,$file" ;;
        esac
    done
    units="$core$alone"
fi
for unit in $units; do
    unit=$(echo "$unit" | tr , ' ')
    find_generation "$unit" "$@" || refuse "$@"
    # shellcheck disable=SC2086
    compiles check.c "$(sections $generation $unit) -DMILCGPU_DECLARED" "$@" || say_undeclared
    # shellcheck disable=SC2046
    for file in $unit; do echo "$file $(sections "$generation" $(sections_of "$file")) $more_flags" >>milcgpu_glue; done
    table "$generation" "$unit" '-DMILCGPU_WRAPPED(result,routine,arguments)=wrap routine' \
        '-DMILCGPU_OF_LIBC(result,routine,arguments)=wrap routine' |
        sed -n 's/^ *wrap *\([A-Za-z0-9_]*\) *$/-Wl,--wrap=\1/p' >>milcgpu_link
done
echo "-L$library -Wl,-rpath,$library -lmilcgpu" >>milcgpu_link
rm -f milcgpu_said milcgpu_differs milcgpu_check.o
# shellcheck disable=SC2059
printf "milcgpu: $what to %s\n" "$program" "$library/libmilcgpu.so"
