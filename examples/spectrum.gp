# Correlators and effective masses of pion, rho and nucleon, a kind of point for each quark mass and source. Variables:
# csv, png. CSV: quark_mass,source,hadron,t,correlator,error,effective_mass,error_of_mass with a heading (spectrum --csv).
# Masses whose error is above a third of them are left out.
set terminal png size 1100,900
set output png
set datafile separator ","
series = system("tail -n +2 ".csv." | cut -d, -f1,2 | uniq | awk '!seen[$0]++'")
hadrons = "pion rho nucleon"
rows(k, h) = "< grep '^".word(series, k).",".word(hadrons, h).",' ".csv
label(k, h) = word(hadrons, h).", m ".system("echo ".word(series, k)." | tr ',' ' '")
known(x) = x == x ? x : 0
good(mass, error) = known(error) < mass / 3 ? mass : NaN
set multiplot layout 2,1 title "Hadrons of staggered quarks"
set xlabel "t"
set grid
set key outside right
set ylabel "C(t)"
set logscale y
set format y "10^{%L}"
plot for [k=1:words(series)] for [h=1:3] rows(k, h) using ($4 + 0.06 * (k - 1)):5:(known($6)) \
    with yerrorbars linecolor h pointtype 8 - k pointsize 0.9 title label(k, h)
unset logscale y
set format y "%g"
set ylabel "effective mass"
set yrange [0:*]
plot for [k=1:words(series)] for [h=1:3] rows(k, h) using ($4 + 0.06 * (k - 1)):(good($7, $8)):(known($8)) \
    with yerrorbars linecolor h pointtype 8 - k pointsize 0.9 title label(k, h)
unset multiplot
