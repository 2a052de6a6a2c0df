# The ladder of matrix multiplication: GFLOPS of each step, cuBLAS as lines. Variables: csv, png.
# CSV: step,what,precision,us,gflops,percent_of_cublas,error with a heading (gemm_ladder --csv).
set terminal png size 1000,640
set output png
set datafile separator ","
set logscale y
set ylabel "GFLOPS"
set title "C = A B in single precision, step by step"
set grid ytics
set key left top
set style fill solid 0.7
set boxwidth 0.7
set xtics rotate by -35
set bmargin 9
set rmargin 14
steps(precision) = "< grep -E '^[0-9]+,.*,".precision.",' ".csv
cublas(precision) = real(system("awk -F, '/^cuBLAS,.*,".precision.",/ {x = $5} END {print x + 0}' ".csv)) # 0: not there
plot for [p in "FP32 TF32"] steps(p) using 1:5:xticlabels(strcol(1).". ".strcol(2)) with boxes title p, \
    for [p in "FP32 TF32"] cublas(p) > 0 ? cublas(p) : NaN with lines linewidth 2 title "cuBLAS, ".p
