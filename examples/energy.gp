# delta H against the time within a trajectory, a curve for each. Variables: csv, png.
# CSV: trajectory,time,delta_h with a heading (rhmc --history).
set terminal png size 1000,640
set output png
set datafile separator ","
set xlabel "time in the trajectory"
set ylabel "delta H"
set title "Energy along the trajectories of RHMC (steps of the integrator)"
set grid
set key outside right
trajectories = system("tail -n +2 ".csv." | cut -d, -f1 | uniq")
curve(k) = "< grep '^".word(trajectories, k).",' ".csv
plot for [k=1:words(trajectories)] curve(k) using 2:3 with linespoints linewidth 1.5 pointtype 7 pointsize 0.6 \
    title "trajectory ".word(trajectories, k)
