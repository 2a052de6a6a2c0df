# How MILC's runs spend their time: a bar for each run, its parts in percent. Variables: csv, png.
# CSV: run, seconds of each part with a heading, card, date. Written by examples/benchmarks/parts.awk with -v row.
height = 480
load "style.gp"
set style data histograms
set style histogram rowstacked
set style fill pattern border -1
set boxwidth 0.7
set grid xtics
set ylabel "% of the run"
set yrange [0:100]
set key outside right top reverse Left invert
set title "MILC with milcgpu: the parts of the run time"
set bmargin 5
total = "(sum [k=2:8] column(k))"
card = "strcol(9)[strcol(9)[1:7] eq 'NVIDIA ' ? 8 : 1 : *]"
name = "(sprintf(\"%s\\n%.0f s\\n%s\", strcol(1), @total, @card))"
plot for [n=2:8] csv using (100*column(n)/@total):xtic(@name) linetype n-1 dashtype 1 title columnheader(n)
