# Speed-up of a step of conjugate gradient by the number of GPUs, on the first lattice of the table.
# Variables: csv, png. CSV: tables of bench --csv, of one GPU and of several, one below the other (bench --grid; its columns: roofline.gp).
height = 560
load "style.gp"
first(name) = system(sprintf("grep -m 1 '^cg step,' '%s' | cut -d, -f%d", csv, column_of(name)))
lattice = first("lattice")
reals = first("what")
set title "A step of conjugate gradient on several GPUs of one host, ".lattice.", long links of ".reals." reals\n".where
set xlabel "GPUs"
set ylabel "speed-up over one GPU"
set logscale xy 2
set xrange [0.9:*]
set yrange [0.9:*]
set key left top Left reverse
# The least time for each number of GPUs, relative to the least time for one.
rows(p) = sprintf("< awk -F, '$1 == \"cg step\" && $2 == \"%s\" && $3 == \"double/%s\" && $5 == \"%s\" \
    {n = $%d; if (!(n in us) || $8 < us[n]) us[n] = $8} \
    END {for (n in us) print n \",\" us[1] / us[n]}' '%s' | sort -g", \
    reals, p, lattice, column_of("ranks"), csv)
plot for [n=1:3] rows(word("double single half", n)) using 1:2 with linespoints linetype n \
        title "double/".word("double single half", n), \
    x with lines linetype 7 dashtype 1 linewidth 0.7 title "ideal"
