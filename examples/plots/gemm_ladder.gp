# The ladder of matrix multiplication: GFLOPS of each step, cuBLAS as lines. Variables: csv, png.
# CSV: step,what,precision,us,gflops,percent_of_cublas,error,card,date with a heading (gemm_ladder --csv).
height = 700
load "style.gp"
set logscale y
set yrange [1000:3e6]
set format y "10^{%L}"
set ylabel "GFLOPS"
# 2 n^3 flops
n = int((last("us") * last("gflops") * 500.0) ** (1 / 3.0) + 0.5)
set title sprintf("C = A B, %d x %d, in single precision, step by step\n", n, n).where
set grid noxtics
set key left top maxrows 2
set boxwidth 0.7
set xtics rotate by -35
set bmargin 11
set rmargin 16
steps(precision) = "< grep -E '^[0-9]+,.*,".precision.",' '".csv."'"
cublas(precision) = real(system("awk -F, '/^cuBLAS,.*,".precision.",/ {x = $5} END {print x + 0}' '".csv."'")) # 0: no cuBLAS
plot for [n=1:2] steps(word("FP32 TF32", n)) using 1:5:xticlabels(strcol(1).". ".strcol(2)) with boxes \
        fillstyle pattern 4*(n-1) linetype 1 dashtype 1 title word("FP32 TF32", n), \
    for [n=1:2] (c = cublas(word("FP32 TF32", n))) > 0 ? c : NaN with lines linetype n+1 linewidth 2.5 \
        title "cuBLAS, ".word("FP32 TF32", n)
