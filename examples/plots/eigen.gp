# The spectrum of -D^2 with the residuals |B v - l v|, and the number of modes below lambda with a straight line.
# Variables: csv, png. CSV: mode,l,lambda,residual,line,lattice,card,date with a heading (eigen --csv).
height = 760
load "style.gp"
set multiplot layout 2,1 title "The lowest modes of -D^2 on ".last("lattice")."\n".where
set lmargin 11
set key left top
set logscale y
set format y "10^{%T}"
set xlabel "mode"
set ylabel "l (no unit)"
plot csv using 1:2 every ::1 with linespoints linetype 1 pointinterval 5 title "l", \
    csv using 1:4 every ::1 with linespoints linetype 2 pointinterval 5 title "|B v - l v|"
unset logscale y
set format y "%g"
set xlabel "lambda a = sqrt(l) / 2"
set ylabel "modes below lambda"
plot csv using 3:($1 - 0.5) every ::1 with points linetype 1 title "modes, half of the mode itself", \
    csv using 3:5 every ::1 with lines linetype 3 title "a straight line"
unset multiplot
