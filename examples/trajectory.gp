# Seconds of a trajectory by routine, a kind of point for each run. Variables: csv, png.
# CSV: routine, a column for each run, card, date with a heading; the last row is the whole run. Written by hand from what MILC prints.
height = 480
load "examples/style.gp"
set logscale x
set format x "%g"
set xlabel "seconds"
set yrange [*:*] reverse
set offsets 0, 0, 0.5, 0.5
set key left top Left reverse
set title "su3\\_rhmc\\_hisq, 16^3 x 32, one trajectory of 2 steps, 16 cores\n".where
plot for [n=2:4] csv using n:0:ytic(1) with points linetype n-1 pointsize 1.8 title columnheader(n)
