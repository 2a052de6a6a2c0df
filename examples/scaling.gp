# gnuplot docs/scaling.gp: docs/scaling.png from docs/scaling.csv, whose figures are those of docs/performance.md
set terminal pngcairo noenhanced size 900,420 font "Sans,11"
set output "docs/scaling.png"
set datafile separator ","
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.85 border -1
set boxwidth 0.9
set grid ytics
set yrange [0:1.1]
set ylabel "efficiency"
set title "A step on two H200s, lattice doubled in t and cut there; sites of one GPU"
set key left top horizontal
set xtics font ",10"
plot for [column=2:3] "docs/scaling.csv" using column:xtic(1) title columnheader
