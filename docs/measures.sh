#!/bin/sh
# sh docs/measures.sh, or `make measures`: counts the measures of docs/design.md, in the root of a source tree.
lines() { find "$@" -type f -exec cat {} + | wc -l; }
glue=milc_glue

echo "conjugate gradient: $(lines gpu_kernels/solver/cg.cpp) lines in one file"
echo "functions from MILC's call to the kernel: $(grep -cE '^\| [0-9]+ \| `' docs/design.md)"

# A routine with a row of its own, offloaded like most: HYP smearing. Lines that follow one another are one place.
places() { # PATTERN FILES...
  pattern=$1
  shift
  echo $(($(grep -hA2 -E "$pattern" "$@" | grep -c '^--$') + 1))
}
row=$(places 'load_hyp_links|HYP_SMEAR|milcgpu_plugin_hyp_smear(,|\()' $glue/*/routines.def $glue/api/plugin.h $glue/quda_compat/*.cpp)
function=$(places '^int milcgpu_plugin_hyp_smear' $glue/*/*.cpp)
wrapper=$(places '__wrap_load_hyp_links\(' $glue/use_gpu/*.c)
echo "an offloaded routine: $((row + function + wrapper)) places, $(find tests/milc_host/hyp -name '*.[ch]' | wc -l) files of the stand-in MILC"

operator=$(find gpu_kernels/laplace gpu_kernels/operators/laplace* $glue/solve/laplace* $glue/api/milcgpu_laplace.h -type f 2>/dev/null)
# shellcheck disable=SC2086
echo "an operator that is solved, Laplace: $(cat $operator | wc -l) lines"

echo "stores of vectors between calls: $(grep -lE '^class (ResidentVectors|QuarkFields|KnownSolutions|VectorStore) ' $glue/residency/*.h | wc -l) classes"

# Sources that see a header, by way of others, too.
find gpu_kernels reorder $glue tests examples -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' | xargs awk '
  FNR == 1 && FILENAME ~ /\.(cpp|cu|c)$/ { sources++ }
  /^ *# *include "/ { split($0, word, "\""); into[word[2]] = into[word[2]] " " FILENAME }
  function seen_by(header, list, n, k, count) {
    n = split(into[header], list, " ")
    for (k = 1; k <= n; k++) if (!(list[k] in seen)) {
      seen[list[k]]
      count += list[k] ~ /\.h$/ ? seen_by(list[k]) : 1
    }
    return count + 0
  }
  END { for (header in into) if (header ~ /\/(fields\/(spinor_block|spinor_field|link_field)|su3\/fields|halo\/halo|backend\/device)\.h$/) {
          split("", seen); print "sources that see " header ": " seen_by(header) " of " sources } }' | sort

for folder in $glue gpu_kernels tests; do echo "lines of $folder: $(lines $folder)"; done
