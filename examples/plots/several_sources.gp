# D and whole solves against the number of sources, on the last lattice of the table. Variables: csv, png.
# CSV: the table of bench --csv (its columns: roofline.gp).
height = 560
load "style.gp"
lattice = last("lattice")
# The number of reals of a long link in the solves.
reals = system("grep -m 1 '^solve,' '".csv."' | cut -d, -f2 | cut -d' ' -f1")
# All residuals of the solves are below this power of ten.
residual = system("awk -F, '/^solve,/ && $13 + 0 > m {m = $13} END {print m + 0}' '".csv."'")
mass = system(sprintf("grep -m 1 '^solve,' '%s' | cut -d, -f%d", csv, column_of("mass")))
set multiplot layout 1,2 title "Several sources at once, ".lattice.", mass ".mass.", long links of ".reals." reals".\
    (residual > 0 ? sprintf(", residuals below 1e%d\n", ceil(log10(real(residual)))) : "\n").where
set xlabel "sources"
set xrange [0:17]
set yrange [0:*]
set key bottom right opaque
set offsets 0, 0, graph 0.1, 0
# A line that draws nothing, for series without rows.
nothing = "; echo 0,0,0,NaN,0,0,0,NaN,NaN"
d(precision) = "< grep '^dslash,".reals." plain,".precision.",[0-9]*,".lattice.",' '".csv."'".nothing
set ylabel "GFLOPS of D, all sources together"
plot for [n=1:3] d(word("double single half", n)) using 4:9 with linespoints linetype n title word("double single half", n)
set ylabel "milliseconds per source, whole call"
set key top right opaque
set offsets 0, 0, graph 0.25, 0
solves(way) = "< grep '^solve,".reals." ".way.",double/single,[0-9]*,".lattice.",' '".csv."'".nothing
# One source alone: the time of a step times the number of steps.
alone(sloppy) = "< grep '^cg step,".reals.",double/".sloppy.",1,".lattice.",' '".csv."'".nothing
plot for [w=1:2] solves(word("block lock-step", w)) using 4:($8/1000) with linespoints linetype w \
        title word("block lock-step", w).", double/single", \
    for [n=1:2] alone(word("single half", n)) using 4:($8*$14/1000) with points linetype n+2 pointsize 1.6 \
        title "one source, double/".word("single half", n)
unset multiplot
