# Residual of the recursion against the step, a curve for each backend and precision pair. Variables: csv, png.
# CSV: label,step,residual,lattice,card,date with a heading (solve --history).
load "examples/style.gp"
set logscale y
set format y "10^{%T}"
set xlabel "step of conjugate gradient"
set ylabel "|residual| / |source|"
set title "Convergence by precision pair (solution/iteration), ".last("lattice")."\n".where
set key outside right
# "host double/half" travels through gnuplot's word list as host_double/half.
labels = system("tail -n +2 '".csv."' | cut -d, -f1 | uniq | tr ' ' '_'")
curve(k) = "< tr ' ' '_' <'".csv."' | grep '^".word(labels, k).",'"
set label 1 "Flat pieces: there the residual was recomputed, and was larger than the iteration had it, by rounding of coarse numbers." \
    at graph 0.5, screen 0.02 center font ",10"
set bmargin 5
plot for [k=1:words(labels)] curve(k) using 2:3 with linespoints linetype k pointinterval 5 pointsize 0.8 \
    title system("echo ".word(labels, k)." | tr '_' ' '")
