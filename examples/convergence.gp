# Residual of the recursion against the step, a curve for each backend and precision pair. Variables: csv, png.
# CSV: label,step,residual with a heading (solve --history).
set terminal png size 1000,640
set output png
set datafile separator ","
set logscale y
set format y "10^{%T}"
set xlabel "step of conjugate gradient"
set ylabel "|r| / |b|"
set title "Convergence of the staggered solve, by precision pair (precise/sloppy vectors)"
set grid
set key outside right
# "host double/half" travels through gnuplot's word list as host_double/half.
labels = system("tail -n +2 ".csv." | cut -d, -f1 | uniq | tr ' ' '_'")
curve(k) = "< tr ' ' '_' <".csv." | grep '^".word(labels, k).",'"
plot for [k=1:words(labels)] curve(k) using 2:3 with linespoints linewidth 1.5 pointtype 7 pointsize 0.4 \
    title system("echo ".word(labels, k)." | tr '_' ' '")
