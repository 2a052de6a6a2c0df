# Correlators and effective masses of pion, rho and nucleon, with a type of point for each quark mass, source and
# hadron. Variables: csv, png.
# CSV: quark_mass,source,hadron,t,correlator,error,effective_mass,error_of_mass,lattice,card,date with a heading
# (spectrum --csv). Masses with an error above a third of the mass are omitted. An error that is unknown, as that of one
# configuration, is nan in the table and 0 here: gnuplot draws no point with an error bar of nan.
height = 900
load "style.gp"
series = system("tail -n +2 '".csv."' | cut -d, -f1,2 | uniq | awk '!seen[$0]++'")
hadrons = "pion rho nucleon"
rows(k, h) = "< grep '^".word(series, k).",".word(hadrons, h).",' '".csv."' | awk -F, -v OFS=, '{for (c = 6; c <= 8; c += 2) if ($c !~ /^[0-9]/) $c = 0} 1'"
label(k, h) = word(hadrons, h).", m ".system("echo '".word(series, k)."' | tr ',' ' '")
good(mass, error) = error < mass / 3 ? mass : NaN
kind(k, h) = 3 * (k - 1) + h
set multiplot layout 2,1 title "Hadrons of staggered quarks, ".last("lattice")."\n".where
set xlabel "t / a"
set key outside right
set lmargin at screen 0.1
set rmargin at screen 0.68
set ylabel "|C(t)|"
set logscale y
set format y "10^{%L}"
plot for [k=1:words(series)] for [h=1:3] rows(k, h) using ($4 + 0.06 * (k - 1)):(abs($5)):6 \
    with yerrorbars linetype kind(k, h) dashtype 1 title label(k, h), \
    for [k=1:words(series)] for [h=1:3] rows(k, h) using ($4 + 0.06 * (k - 1)):($5 < 0 ? -$5 : NaN) \
    with points linetype 7 pointtype 2 pointsize 1.6 title k == 1 && h == 1 ? "C(t) < 0" : ""
unset logscale y
set format y "%g"
set ylabel "effective mass, a m"
# Up to the largest mass with its error; 1 if no mass is known.
largest = system("awk -F, '$8 !~ /^[0-9]/ {$8 = 0} $7 ~ /^[0-9]/ && $7 > m && 3 * $8 < $7 {m = $7} END {print (m > 0 ? 1.2 * m : 1)}' '".csv."'")
set yrange [0:real(largest)]
set xrange [0:last("t") / 2.0 + 1]
unset key
# A line at 0, so that there is a point if no mass is known. Not the function 0: beside a loop over files without points
# gnuplot 6 then ends with 'undefined variable'.
plot "+" using 1:(0) with lines linecolor "black" notitle, \
    for [k=1:words(series)] for [h=1:3] rows(k, h) using ($4 + 0.06 * (k - 1)):(good($7, $8)):8 \
    with yerrorbars linetype kind(k, h) dashtype 1 title label(k, h)
unset multiplot
