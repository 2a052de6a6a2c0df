#!/bin/sh
# sh examples/draw.sh TABLE.csv ...   in the repository's root: makes the pictures of each table, beside it.
# Where gnuplot is missing, this says so, and the exit status is 0. It is 1 where a picture could not be drawn or
# written. A picture has its name only when it is whole.
command -v gnuplot >/dev/null || { echo 'no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)'; exit 0; }
status=0
plain=$(mktemp) || exit 1
trap 'rm -f "$plain" "$png.$$.part"' EXIT
for csv; do
  name=$(basename "$csv" .csv)
  case $name in
    bench)
      pictures=roofline
      grep -qs '^cg step,[0-9]*,double/' "$csv" && pictures="$pictures step_time"
      grep -qs '^solve,' "$csv" && pictures="$pictures several_sources"
      ;;
    demo_history) pictures=demo ;;
    *) pictures=$name ;;
  esac
  for picture in $pictures; do
    case $picture in
      demo) script=convergence ;;
      demo_*) script=${picture#demo_} ;;
      *) script=$picture ;;
    esac
    [ -f "$csv" ] && [ -f "examples/$script.gp" ] || continue
    png=$(dirname "$csv")/$picture.png
    # Scripts split rows at commas: cells come without quotation marks, and with semicolons for commas of their own.
    awk -F'"' -v OFS= '{ for (k = 2; k <= NF; k += 2) gsub(",", ";", $k); $1 = $1; print }' "$csv" >"$plain" &&
      gnuplot -e "csv='$plain'; png='$png.$$.part'" "examples/$script.gp" ||
      { echo "no picture: gnuplot failed on examples/$script.gp with $csv"; status=1; continue; }
    # gnuplot ends well on a full disk, too: the end of the picture tells.
    [ "$(tail -c 8 "$png.$$.part" | head -c 4)" = IEND ] && mv "$png.$$.part" "$png" && echo "picture: $png" ||
      { echo "no picture: $png cannot be written"; status=1; }
  done
done
exit $status
