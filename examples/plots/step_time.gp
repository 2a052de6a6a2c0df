# The time of a step of conjugate gradient against the volume, for whole calls, and the time in which the device's copy
# moves the compulsory bytes of the step. Variables: csv, png. CSV: the table of bench --csv (its columns: roofline.gp).
load "style.gp"
set logscale xy
set xlabel "sites of the lattice"
set ylabel "microseconds per step"
set format x "10^{%L}"
# The number of reals of a long link that all lattices have.
reals = system("grep -m 1 '^cg step,' '".csv."' | cut -d, -f2")
mass = system(sprintf("grep -m 1 '^cg step,' '%s' | cut -d, -f%d", csv, column_of("mass")))
set title "Step of conjugate gradient, mass ".mass.", long links of ".reals." reals\n".where
set key left top Left reverse
s = column_of("sites")
sites(which) = real(system(sprintf("grep '^cg step,' '%s' | cut -d, -f%d | sort -g | %s -n 1", csv, s, which)))
set xrange [sites("head")/1.5:sites("tail")*1.5]
set autoscale yfix
set offsets 0, 0, graph 0.2, graph 0.05
rows(p) = "< grep '^cg step,".reals.",double/".p.",' '".csv."' | sort -t, -g -k".s
plot for [n=1:3] rows(word("double single half", n)) using s:8 with points linetype n pointsize 1.6 \
        title "double/".word("double single half", n).", measured", \
    for [n=1:3] rows(word("double single half", n)) using s:($8*$11/100) with lines linetype n \
        title "double/".word("double single half", n).", limit by bandwidth"
