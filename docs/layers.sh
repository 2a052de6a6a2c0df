#!/bin/sh
# sh docs/layers.sh, or `make layers`: draws the layers of the code from its includes, for docs/design.md. Each folder is
# above all folders whose headers it includes. A circle of folders is an error. MILC's compiler sees no paths: there
# plugin.h is the interface of routines/ (residency/ takes its names alone), and milcgpu*.h are headers of api/.
find milc_glue reorder gpu_kernels -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' | xargs awk '
function folder_of(file, part, n) {
    n = split(file, part, "/")
    if (part[1] == "gpu_kernels") return part[2] (n > 4 || (n == 4 && part[3] !~ /\./) ? "/" part[3] : "")
    return part[1] (n > 2 ? "/" part[2] : "")
}
function level_of(folder, other, lowest) {
    if (folder in level) return level[folder]
    if (folder in open) { print "layers: a circle of includes at " folder >"/dev/stderr"; exit failed = 1 }
    open[folder]
    lowest = 0
    for (other in folders)
        if ((folder, other) in takes && level_of(other) >= lowest) lowest = level[other] + 1
    return level[folder] = lowest
}
FNR == 1 { here = folder_of(FILENAME); folders[here] }
/^ *# *include "/ {
    split($0, word, "\"")
    header = word[2]
    if (header == "plugin.h" || header == "milc_glue/api/plugin.h") there = "milc_glue/" (here == "milc_glue/residency" ? "api" : "routines")
    else if (header ~ /^milcgpu.*\.h$/) there = "milc_glue/api"
    else if (header ~ /^(milc_glue|reorder|gpu_kernels)\//) there = folder_of(header)
    else next
    if (there != here) { takes[here, there]; folders[there] }
}
END {
    if (failed) exit 1
    for (folder in folders) if (level_of(folder) > top) top = level[folder]
    for (k = top; k >= 0; k--) {
        count = 0
        for (folder in folders) if (level[folder] == k) {
            for (at = ++count; at > 1 && row[at - 1] > folder; at--) row[at] = row[at - 1]
            row[at] = folder
        }
        line = ""
        for (at = 1; at <= count; at++) line = line (at > 1 ? "  " : "") row[at]
        printf "    %2d  %s\n", k, line
    }
}
' || exit 1
