# The pion of a point source at the origin, from a lattice file:  python3 pion.py FILE MASS [TABLE.csv]
# The numbers are those of correlators.c. With TABLE.csv it writes a table, and a picture of it if matplotlib is there.
import sys

import milcgpu

path, mass = sys.argv[1], float(sys.argv[2])
lattice = milcgpu.look(path).lattice
with milcgpu.Context(lattice) as context:
    card = context.device_name
    links = context.hisq(context.read(path))
    propagator = links.propagator(lattice.point_sources(0, 0, 0, 0), mass, 1e-12, progress=True)
pion = lattice.pion(propagator)
for t, value in enumerate(pion):
    print(f"{t},{value:.15e}")

if len(sys.argv) > 3:
    import csv
    import datetime

    import numpy

    ratio = (numpy.roll(pion, 1) + numpy.roll(pion, -1)) / (2 * pion)  # cosh m, if one state is left
    effective = [float(numpy.arccosh(r)) if r > 1 and 0 < t < lattice.Lt - 1 else "" for t, r in enumerate(ratio)]
    size = "x".join(str(extent) for extent in lattice.size)
    with open(sys.argv[3], "w", newline="") as table:
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(["quark_mass", "t", "pion", "effective_mass", "lattice", "card", "date"])
        for t, (value, m) in enumerate(zip(pion, effective)):
            rows.writerow([mass, t, f"{value:.9e}", m and f"{m:.6f}", size, card, datetime.date.today()])
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit()
    pyplot.semilogy(pion, "o")
    pyplot.xlabel("t / a")
    pyplot.ylabel("pion, C(t)")
    pyplot.title(f"{size}, mass {mass}")
    pyplot.savefig(sys.argv[3].replace(".csv", "") + ".png")
