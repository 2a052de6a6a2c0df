# Roofline of D on one source, on the last lattice of the table. Variables: csv, png.
# CSV of bench --csv: kind,what,precision,sources,lattice,grid,ranks,us,gflops,gbytes_per_second,percent_of_copy,
# flops_per_byte,error,steps,cublas_us with a heading.
set terminal png size 1000,640
set output png
set datafile separator ","
lattice = system("tail -n 1 ".csv." | cut -d, -f5")
copy = real(system("grep '^copy,.*,".lattice.",' ".csv." | cut -d, -f10"))
set logscale xy
set xlabel "flops a compulsory byte"
set ylabel "GFLOPS"
set title sprintf("D on %s; points are marked with the reals of a long link; line: device copy, %.0f GB/s", lattice, copy)
set grid
set key left top
set xrange [0.4:3]
rows(precision) = "< grep '^dslash,[0-9]* plain,".precision.",1,".lattice.",' ".csv
plot copy*x title "copy bandwidth" with lines linewidth 2 linecolor rgb "#444444", \
    for [p in "double single half"] rows(p) using 12:9 with points pointtype 7 pointsize 1.5 title p, \
    for [p in "double single half"] rows(p) using 12:9:(word(strcol(2), 1)) with labels offset 1.2,-0.7 font ",9" notitle
