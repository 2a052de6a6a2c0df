#!/bin/sh
# sh examples/draw.sh TABLE.csv ...   in the repository's root: makes the pictures of each table, beside it.
# Pictures are a courtesy: where gnuplot is missing or fails, this says so, and the exit status is 0.
command -v gnuplot >/dev/null || { echo 'no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)'; exit 0; }
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
    gnuplot -e "csv='$csv'; png='$png'" "examples/$script.gp" && echo "picture: $png" || echo "no picture: gnuplot failed on examples/$script.gp with $csv"
  done
done
