# t^2 E and its derivative, which give t0 and w0, and the charge along a gradient flow. Variables: csv, png.
# CSV: time,clover_t,clover_s,...,charge,t2e,...,field,lattice,card,date with a heading (flow --csv).
height = 760
load "style.gp"
set multiplot layout 2,1 title "Gradient flow, ".last("field").", ".last("lattice")."\n".where
set xlabel "flow time t / a^2"
set key left top
set lmargin 9
set ylabel "t^2 E (no unit)"
last_t = NaN
last_y = NaN
slope(t, y) = (s = (t + last_t) / 2 * (y - last_y) / (t - last_t), last_t = t, last_y = y, s)
plot csv using 1:9 every ::1 with linespoints linetype 1 pointinterval 5 title "t^2 E", \
    csv using (($1 + last_t) / 2):(slope($1, $9)) every ::1 with lines linetype 2 title "t d/dt (t^2 E)", \
    0.3 with lines linetype 3 title "0.3: there t = t_0 and t = w_0^2"
set ylabel "topological charge"
plot csv using 1:8 every ::1 with linespoints linetype 1 pointinterval 5 notitle
unset multiplot
