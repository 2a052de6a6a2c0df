# Time of a solve and its steps against the number of eigenvectors, for the masses and numbers of sources of the table.
# Variables: csv, png. CSV: tables of sources --csv, with --eigenvectors and without, one below the other (backend,mass,
# precisions,sources,way,asked,steps,updates,seconds,solver_seconds,seconds_a_source,residual,status,eigenvectors,
# lattice,card,date with a heading).
height = 520
load "style.gp"
first(name) = system(sprintf("sed -n 2p '%s' | cut -d, -f%d", csv, column_of(name)))
series = system("tail -n +2 '".csv."' | grep -v '^backend,' | cut -d, -f2,4 | sort -u -t, -k1,1gr -k2,2g")
cell(k, n) = system("echo '".word(series, k)."' | cut -d, -f".n)
label(k) = "mass ".cell(k, 1).", ".cell(k, 2).(cell(k, 2) eq "1" ? " source" : " sources together")
# The least value of a column for each number of vectors.
rows(k, c) = sprintf("< awk -F, '$2 == \"%s\" && $4 == \"%s\" && $13 == \"ok\" \
    {n = $14; if (!(n in least) || $%d < least[n]) least[n] = $%d} \
    END {for (n in least) print n \",\" least[n]}' '%s' | sort -g", cell(k, 1), cell(k, 2), c, c, csv)
set multiplot layout 1,2 title "Deflation, ".last("lattice").", residuals of ".first("asked")."\n".where
set xlabel "eigenvectors"
set logscale y
set xrange [0:*]
set offsets graph 0.03, graph 0.05, graph 0.15, 0
set key top right Right noreverse opaque
set ylabel "milliseconds per source, whole call"
plot for [k=1:words(series)] rows(k, 11) using 1:(1000*$2) with linespoints linetype k title label(k)
set ylabel "steps"
unset key
plot for [k=1:words(series)] rows(k, 7) using 1:2 with linespoints linetype k
unset multiplot
