#!/bin/sh
# sh draw.sh TABLE.csv ...   (installed: milcgpu-draw): draws the pictures of each table, beside the table. The table's
# name says which: plots/NAME.gp draws NAME.csv.
# If gnuplot is missing, it says so, and the exit status is 0. The exit status is 1 if a picture could not be drawn or
# written. A picture gets its name when it is whole.
#
# Tables are not trusted. The scripts put cells, between quotation marks, into commands of the shell and of awk. So
# special characters are replaced before a script reads the cells, and no script gets the names of files.
command -v gnuplot >/dev/null || { echo 'no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)'; exit 0; }
status=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
plots=$(dirname "$(readlink -f "$0")")/plots
cp "$plots"/*.gp "$work" || exit 1
say() { printf '%s\n' "$1" | LC_ALL=C tr '\001-\011\013-\037\177' '?'; }
[ $# -gt 0 ] || say 'no pictures: no table is named (TABLE.csv)'
for csv; do
  [ -f "$csv" ] || { say "no picture: there is no file $csv"; status=1; continue; }
  case $csv in /*) ;; *) csv=./$csv ;; esac # so that the name is neither an option nor an assignment of awk
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
  drawn=
  for picture in $pictures; do
    case $picture in
      demo) script=convergence ;;
      demo_*) script=${picture#demo_} ;;
      *) script=$picture ;;
    esac
    [ -f "$plots/$script.gp" ] || continue
    drawn=1
    png=$(dirname "$csv")/$picture.png
    part=$png.$$.part
    # Scripts split rows at commas, so cells lose their quotation marks, and commas within cells become semicolons.
    LC_ALL=C awk -F'"' -v OFS= '{ for (k = 2; k <= NF; k += 2) gsub(",", ";", $k); $1 = $1
        gsub(/[^A-Za-z0-9 ,;._:\/+=%-]/, "_"); print }' "$csv" >"$work/table.csv" &&
      (cd "$work" && gnuplot -e "csv='table.csv'; png='png'" "$script.gp") ||
      { say "no picture: gnuplot failed on plots/$script.gp with ${csv#./}"; status=1; continue; }
    # gnuplot reports success even on a full disk, so the end of the picture is tested. No existing file is overwritten
    # (set -C).
    if (set -C && : >"$part") 2>/dev/null; then
      cat "$work/png" >"$part" && [ "$(tail -c 8 "$part" | head -c 4)" = IEND ] && mv "$part" "$png" &&
        { say "picture: ${png#./}"; continue; }
      rm -f "$part"
    fi
    say "no picture: ${png#./} cannot be written"
    status=1
  done
  [ -n "$drawn" ] || say "no picture of ${csv#./}: a table's name says how it is drawn (bench$(cd "$plots" && for f in *.gp; do [ "$f" = style.gp ] || printf ', %s' "${f%.gp}"; done))"
done
exit $status
