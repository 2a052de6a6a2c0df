# Common settings of all pictures. Each script loads it from the repository's root. `csv` and `png` must be set,
# `height` may be set. Curves differ in dashes and points, not in colour alone, so that a copy in black and white can be
# read.
if (!exists("height")) height = 640
# A name that ends in .svg gets a picture whose words can be read, for tests.
if (png[strlen(png)-3:strlen(png)] eq ".svg") {
    set terminal svg size 1000, height font "Sans,12"
} else {
    set terminal pngcairo size 1000, height font "Sans,12"
}
set output png
set datafile separator ","
set grid
do for [k=1:9] {
    set linetype k linewidth 1.7 linecolor rgb word("#000000 #0050a0 #b03000 #007050 #700080 #806000 #505050 #c00060 #0080c0", k) \
        dashtype k pointtype int(word("7 4 9 12 5 6 13 10 2", k)) pointsize 1.2
}
set linetype cycle 9
# A name of the header, and what stands there in the last row.
column_of(name) = int(system("head -n 1 '".csv."' | tr ',' '\\n' | grep -nx '".name."' | cut -d: -f1"))
last(name) = system(sprintf("tail -n 1 '%s' | cut -d, -f%d", csv, column_of(name)))
where = last("card").", ".last("date")
