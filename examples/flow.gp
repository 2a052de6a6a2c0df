# t^2 E and its derivative, which give t0 and w0, and the charge along a gradient flow. Variables: csv, png.
# CSV: time,clover_t,clover_s,...,charge,t2e,... with a heading (flow --csv).
set terminal png size 1000,700
set output png
set datafile separator ","
set multiplot layout 2,1 title "Gradient flow"
set xlabel "flow time t / a^2"
set grid
set key left top
set ylabel "t^2 E"
last_t = NaN
last_y = NaN
slope(t, y) = (s = (t + last_t) / 2 * (y - last_y) / (t - last_t), last_t = t, last_y = y, s)
plot csv using 1:9 every ::1 with linespoints pointtype 7 pointsize 0.5 title "t^2 E", \
    csv using (($1 + last_t) / 2):(slope($1, $9)) every ::1 with lines linewidth 1.5 title "t d/dt (t^2 E)", \
    0.3 with lines dashtype 2 linecolor "black" title "0.3: t0 and w0^2"
set ylabel "topological charge"
plot csv using 1:8 every ::1 with linespoints pointtype 7 pointsize 0.5 notitle
unset multiplot
