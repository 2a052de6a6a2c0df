# gnuplot docs/trajectory.gp: docs/trajectory.png from docs/trajectory.csv
set terminal pngcairo noenhanced size 760,420 font "Sans,11"
set output "docs/trajectory.png"
set datafile separator ","
set style data histograms
set style histogram rowstacked
set style fill solid 0.85 border -1
set boxwidth 0.6
set grid ytics
set ylabel "seconds"
set title "su3_rhmc_hisq, 16^3 x 32, one trajectory of 2 steps, H200 and 16 cores"
set key right top
plot for [column=2:6] "docs/trajectory.csv" using column:xtic(1) title columnheader
