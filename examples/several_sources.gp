# D and whole solves against the number of sources, on the last lattice of the table. Variables: csv, png.
# CSV: that of bench --csv (its columns: roofline.gp).
set terminal png size 1200,560
set output png
set datafile separator ","
lattice = system("tail -n 1 ".csv." | cut -d, -f5")
# The number of reals of a long link that the solves were done with.
reals = system("grep '^solve,' ".csv." | head -n 1 | cut -d, -f2 | cut -d' ' -f1")
set multiplot layout 1,2 title "Several sources at once, ".lattice.", long links of ".reals." reals"
set xlabel "sources"
set xrange [0:17]
set yrange [0:*]
set grid
set key bottom right opaque
set offsets 0, 0, graph 0.1, 0
d(precision) = "< grep '^dslash,".reals." plain,".precision.",[0-9]*,".lattice.",' ".csv
set ylabel "GFLOPS of D"
plot for [p in "double single half"] d(p) using 4:9 with linespoints linewidth 1.5 pointtype 7 title p
set ylabel "ms a source, whole call"
set key top right opaque
set offsets 0, 0, graph 0.25, 0
solves(way, sloppy) = "< grep '^solve,".reals." ".way.",double/".sloppy.",[0-9]*,".lattice.",' ".csv
plot for [w in "block lock-step"] for [p in "double single"] solves(w, p) using 4:($8/1000) \
    with linespoints linewidth 1.5 pointtype 7 title w.", double/".p
unset multiplot
