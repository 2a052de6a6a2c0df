#!/bin/sh
# sh examples/draw.sh TABLE.csv ...   in the repository's root: makes the pictures of each table, beside it.
# Where gnuplot is missing, this says so, and the exit status is 0. It is 1 where a picture could not be drawn or
# written. A picture has its name only when it is whole.
#
# A table may come from anywhere. The scripts put its cells between quotation marks into commands of the shell and of
# awk, so cells reach them without the characters that mean something there. Names that were given reach no script.
command -v gnuplot >/dev/null || { echo 'no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)'; exit 0; }
status=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
case $work in
*[!A-Za-z0-9/._-]*) echo "no pictures: the name of the folder TMPDIR may have letters, digits, '.', '_' and '-'"; exit 1 ;;
esac
say() { printf '%s\n' "$1" | LC_ALL=C tr '\001-\011\013-\037\177' '?'; }
for csv; do
  case $csv in /*) ;; *) csv=./$csv ;; esac # no option, and no assignment of awk's
  name=$(basename "$csv" .csv)
  case $name in
    bench)
      pictures=roofline
      grep -qs '^cg step,[0-9]*,double/' "$csv" && pictures="$pictures step_time"
      grep -qs '^solve,' "$csv" && pictures="$pictures several_sources"
      ;;
    demo_history) pictures=demo ;;
    *[!A-Za-z0-9_]*) pictures= ;;
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
    part=$png.$$.part
    # Scripts split rows at commas: cells come without quotation marks, and with semicolons for commas of their own.
    LC_ALL=C awk -F'"' -v OFS= '{ for (k = 2; k <= NF; k += 2) gsub(",", ";", $k); $1 = $1
        gsub(/[^A-Za-z0-9 ,;._:\/+=%-]/, "_"); print }' "$csv" >"$work/table.csv" &&
      gnuplot -e "csv='$work/table.csv'; png='$work/png'" "examples/$script.gp" ||
      { say "no picture: gnuplot failed on examples/$script.gp with ${csv#./}"; status=1; continue; }
    # gnuplot ends well on a full disk, too: the end of the picture tells. No file that exists is written into (set -C).
    if (set -C && : >"$part") 2>/dev/null; then
      cat "$work/png" >"$part" && [ "$(tail -c 8 "$part" | head -c 4)" = IEND ] && mv "$part" "$png" &&
        { say "picture: ${png#./}"; continue; }
      rm -f "$part"
    fi
    say "no picture: ${png#./} cannot be written"
    status=1
  done
done
exit $status
