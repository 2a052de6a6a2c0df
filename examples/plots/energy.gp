# delta H against the time within a trajectory, a curve for each. Variables: csv, png.
# CSV: trajectory,time,delta_h,lattice,card,date with a heading (rhmc --history).
load "style.gp"
set xlabel "time in the trajectory (units of molecular dynamics)"
set ylabel "delta H"
set title "Energy along the trajectories of RHMC, ".last("lattice")."\n".where
set key outside right
trajectories = system("tail -n +2 '".csv."' | cut -d, -f1 | uniq")
curve(k) = "< grep '^".word(trajectories, k).",' '".csv."'"
plot for [k=1:words(trajectories)] curve(k) using 2:3 with linespoints linetype k title "trajectory ".word(trajectories, k)
