# The pion of one configuration: correlator and effective mass. Variables: csv, png.
# CSV: quark_mass,t,pion,effective_mass,lattice,card,date with a heading (cookbook/pion.py).
height = 760
load "style.gp"
set multiplot layout 2,1 title "Pion of a point source, quark mass ".last("quark_mass").", ".last("lattice")."\n".where
set xrange [-0.5:last("t") + 0.5]
set xlabel "t / a"
set lmargin at screen 0.1
unset key
set ylabel "C(t)"
set logscale y
set format y "10^{%L}"
plot csv every ::1 using 2:3 with linespoints linetype 2
unset logscale y
set format y "%g"
set ylabel "effective mass, a m"
set yrange [0:*]
plot csv every ::1 using 2:4 with points linetype 3, 0 with lines linecolor "black"
unset multiplot
