# Efficiency of two GPUs, as a model has it and as measured. Variables: csv, png.
# CSV: case,model,measured,card,date with a heading, written by hand from two tables of bench --grid.
height = 480
load "examples/style.gp"
set style data histograms
set style histogram clustered gap 1
set grid noxtics
set yrange [0:1.2]
set ylabel "efficiency (time on one / time on two)"
set xlabel "sites of each GPU, precision of the iteration"
set title "A step of conjugate gradient on two GPUs, lattice doubled in t and cut there\n".where
set key left top horizontal
set xtics scale 0
plot for [n=1:2] csv using n+1:xtic(1) linetype 1 fillstyle pattern 4*(n-1) title columnheader
