# Roofline of the dslash rows: GFLOPS against flops a byte, with the copy bandwidth of the same run. Variables: csv, png.
# CSV: kind,what,us,gflops,gbytes_per_second,percent_of_copy,flops_per_byte,error,grid,ranks with a heading (bench --csv).
set terminal png size 1000,640
set output png
set datafile separator ","
copy = real(system("grep '^copy,' ".csv." | cut -d, -f5"))
set logscale xy
set xlabel "flops a compulsory byte"
set ylabel "GFLOPS"
set title sprintf("dslash rows (spinor/link/reals of a long link); line: device copy, %.0f GB/s", copy)
set grid
set key left top
set xrange [0.4:3]
rows(precision) = "< grep '^dslash,".precision."/".precision."/.*plain' ".csv
plot copy*x title "copy bandwidth" with lines linewidth 2 linecolor rgb "#444444", \
    for [p in "double single half"] rows(p) using 7:4 with points pointtype 7 pointsize 1.5 title p, \
    for [p in "double single half"] rows(p) using 7:4:(word(system("echo '".strcol(2)."' | tr '/' ' '"), 3)[1:2]) \
        with labels offset 1.2,-0.7 font ",9" notitle
