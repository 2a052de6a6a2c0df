# Time of a step of conjugate gradient against the volume, beside the time in which the device's copy moves the step's
# compulsory bytes. Whole calls. Variables: csv, png. CSV: that of bench --csv (its columns: roofline.gp).
load "examples/style.gp"
set logscale xy
set xlabel "sites of the lattice"
set ylabel "microseconds per step"
set format x "10^{%L}"
# The number of reals of a long link that all lattices have.
reals = system("grep -m 1 '^cg step,' '".csv."' | cut -d, -f2")
set title "Step of conjugate gradient, long links of ".reals." reals\n".where
set key left top Left reverse
sites(which) = real(system("grep '^cg step,' '".csv."' | cut -d, -f16 | sort -g | ".which." -n 1"))
set xrange [sites("head")/1.5:sites("tail")*1.5]
set autoscale yfix
set offsets 0, 0, graph 0.2, graph 0.05
rows(p) = "< grep '^cg step,".reals.",double/".p.",' '".csv."' | sort -t, -g -k16"
plot for [n=1:3] rows(word("double single half", n)) using 16:8 with points linetype n pointsize 1.6 \
        title "double/".word("double single half", n).", measured", \
    for [n=1:3] rows(word("double single half", n)) using 16:($8*$11/100) with lines linetype n \
        title "double/".word("double single half", n).", limit by bandwidth"
