# Roofline: every row of the table on its last lattice, a panel for each precision. Variables: csv, png.
# CSV of bench --csv: kind,what,precision,sources,lattice,grid,ranks,us,gflops,gbytes_per_second,percent_of_copy,
# flops_per_byte,error,steps,cublas_us,mass,sites,card,date with a heading.
height = 580
load "style.gp"
copy = real(system("grep '^copy,' '".csv."' | tail -n 1 | cut -d, -f10"))
set multiplot layout 1,3 margins 0.095,0.985,0.29,0.86 spacing 0.015,0 \
    title "Operations on ".last("lattice")." compared with the bandwidth of the device's copy\n".where
set logscale xy
set xrange [0.2:60]
slowest = real(system("awk -F, '$5 == \"".last("lattice")."\" && $9 > 0 && (!m || $9 < m) {m = $9} END {print m}' '".csv."'"))
set yrange [slowest/1.5:copy*15]
set xlabel "flops per compulsory byte"
set key at screen 0.5, screen 0.02 center bottom maxrows 4 Left reverse samplen 2
names = "'D, one source' 'D, several sources' 'step of conjugate gradient' 'Wilson, clover' Laplace 'links, forces' 'measurements, flow' 'Dirac contractions' 'dense algebra'"
kinds = "dslash,1$ dslash,[^1]|dslash,1. (cg.step|solve), (Wilson|clover), Laplace, (links|forces), (mesons|gauge), dirac, dense,"
# Rows whose kind and number of sources match, and whose work is done in the precision: flops per byte, GFLOPS. The last
# line is for kinds without rows.
rows(kind, p) = "< awk -F, '$5 == \"".last("lattice")."\" && ($1 \",\" $4) ~ /^".kind."/ && $3 ~ /(^|\\/)".p."$/ {print $12 \",\" $9} END {print \"NaN,NaN\"}' '".csv."'"
do for [n=1:3] {
    p = word("double single half", n)
    set label 1 p at graph 0.05, graph 0.94 font ",13"
    set ylabel n == 1 ? "GFLOPS" : ""
    set format y n == 1 ? "%g" : ""
    if (n != 2) { unset key } else { set key }
    plot copy*x linetype 1 linewidth 2.5 title sprintf("copy, %.2f TB/s", copy/1000), \
        for [k=1:words(names)] rows(word(kinds, k), p) using 1:2 with points linetype k title word(names, k)
}
unset multiplot
