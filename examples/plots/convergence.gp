# Residual of the recursion against the step, a curve for each backend and precision pair. Variables: csv, png.
# CSV: label,step,residual,lattice,card,date with a heading (solve --history).
load "style.gp"
set logscale y
set format y "10^{%T}"
set xlabel "step of conjugate gradient"
set ylabel "|residual| / |source|"
set title "Convergence by precision pair (solution/iteration), ".last("lattice")."\n".where
set key outside right
# "host double/half" travels through gnuplot's word list as host_double/half.
labels = system("tail -n +2 '".csv."' | cut -d, -f1 | uniq | tr ' ' '_'")
curve(k) = "< tr ' ' '_' <'".csv."' | grep '^".word(labels, k).",'"
set label 1 "Why half takes more steps than double: its numbers are rounded more coarsely. Where the residual is computed\n\
anew in the precision of the solution, it is larger than the iteration had it (flat pieces). More steps make up for it.\n\
A step in half moves 0.3 of the bytes of a step in double." at screen 0.02, screen 0.075 left font ",10"
set bmargin 7
plot for [k=1:words(labels)] curve(k) using 2:3 with linespoints linetype k pointinterval 5 pointsize 0.8 \
    title system("echo '".word(labels, k)."' | tr '_' ' '")
