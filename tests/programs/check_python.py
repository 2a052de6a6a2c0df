# Checks of the Python package that docs/python.md does not show. Silent if all hold.
import gc
import sys
import threading
import types
import warnings

import numpy

import milcgpu

random = numpy.random.RandomState(3)
size = [4, 6, 2, 4]
T, Z, Y, X = size[::-1]
h = random.normal(size=(4, T, Z, Y, X, 3, 3)) + 1j * random.normal(size=(4, T, Z, Y, X, 3, 3))
pyquda = numpy.linalg.qr(h)[0]
pyquda /= numpy.linalg.det(pyquda)[..., None, None] ** (1 / 3)  # [direction, t, z, y, x, 3, 3]


def raises(kind, words, function, *arguments, **members):
    try:
        function(*arguments, **members)
    except kind as error:
        assert words in str(error), (words, str(error))
        return error
    raise AssertionError(f"no {kind.__name__}: {words}")


# Orders: element by element, and back.
half = milcgpu.evenodd(pyquda, [1, 2, 3, 4])
for t, z, y, x in numpy.ndindex(T, Z, Y, X):
    assert (half[:, (x + y + z + t) % 2, t, z, y, x // 2] == pyquda[:, t, z, y, x]).all()
assert (milcgpu.lexico(half, [1, 2, 3, 4, 5]) == pyquda).all()
assert (milcgpu.directions_first(milcgpu.directions_last(pyquda)) == pyquda).all()

# One physics in all orders: fields are read and written in place.
orders = ["evenodd", "lexicographic", random.permutation(T * Z * Y * X)]
lattices = [milcgpu.Lattice(size, order) for order in orders]
numbers = []
for lattice in lattices:
    links = lattice.zeros(4, 3, 3)
    for t, z, y, x in numpy.ndindex(T, Z, Y, X):
        links[lattice.site(x, y, z, t)] = pyquda[:, t, z, y, x]
        assert [of[lattice.site(x, y, z, t)] for of in (lattice.x, lattice.y, lattice.z, lattice.t)] == [x, y, z, t]
    with milcgpu.Context(lattice) as context:
        d = context.hisq(links)
        sources = lattice.point_sources(1, 2, 0, 3)
        before = sources.copy()
        g = d.propagator(sources, 0.3, 1e-12)
        assert (sources == before).all()
        for eta, of in zip(sources, g):  # M G = eta by D alone
            image = 0.6 * of + d.dslash(of, milcgpu.EVEN) + d.dslash(of, milcgpu.ODD)
            assert abs(image - eta).max() < 1e-11
        assert abs(d.propagator(sources[1], 0.3, 1e-12) - g[1]).max() < 1e-11
        assert d.residual(g[0], g[0], 0.3) > 0.1
        numbers.append(numpy.append(lattice.pion(g), context.gauge(links).plaquettes()))
        context.write("order.nersc", links, "nersc", precision=milcgpu.DOUBLE, rows=3)
        assert (context.read("order.nersc") == links).all()
        single = context.read("order.nersc", numpy.complex64)
        assert single.dtype == numpy.complex64 and (single == links.astype(numpy.complex64)).all()
        context.write("order.lat", links, "milc", time="now")
        head = milcgpu.look("order.lat")
        assert (head.format, head.extent, head.time) == (milcgpu.FILE_MILC, size, "now")
        raises(ValueError, "format", context.write, "x", links, "ildg")
        raises(ValueError, "format", context.write, "x", links, "milc", rows=2)
assert abs(numbers[1] / numbers[0] - 1).max() < 1e-10 and abs(numbers[2] / numbers[0] - 1).max() < 1e-10
raises(ValueError, "four even extents", milcgpu.Lattice, [4, 4, 4])
raises(ValueError, "four even extents", milcgpu.Lattice, [4, 4, 4, 5])
raises(ValueError, "each number from 0", milcgpu.Lattice, size, [0] * (T * Z * Y * X))
raises(ValueError, "order", milcgpu.Lattice, size, "oddeven")
raises(TypeError, "integer", milcgpu.Lattice, [4, 4, 4, 8.9])
assert milcgpu.Lattice([256] * 4).volume == 2**32  # coordinates, which take 128 GB, are made when they are needed
raises(ValueError, "each number from 0", milcgpu.Lattice, size, numpy.arange(T * Z * Y * X) + 0.5)
raises(ValueError, "backend 'even'", milcgpu.Context, lattices[0], "even")

# All that the headers declare is in the library.
assert len([getattr(milcgpu.lib, name) for name in dir(milcgpu.lib)]) > 150
assert (milcgpu.OPEN_SPIN, milcgpu.FLOW_AUTO_STOP, milcgpu.EVEN_AND_ODD, milcgpu.LANDAU) == (-1, -1.0, 3, 8)
raises(AttributeError, "no MILCGPU_NOTHING", getattr, milcgpu, "NOTHING")

# Arrays that are refused, as input and as output.
lattice = lattices[0]
context = milcgpu.Context(lattice)
u = numpy.ascontiguousarray(milcgpu.directions_last(half))
d = context.hisq(u)
b = lattice.zeros(3)
b[...] = random.normal(size=b.shape)
fixed = b.copy()
fixed.flags.writeable = False
odd_address = numpy.frombuffer(bytearray(b.nbytes + 1), numpy.uint8)[1:].view(complex).reshape(b.shape)
for kind, words, array in [
    (TypeError, "must be a numpy array, not list", b.tolist()),
    (TypeError, "dtype float64", b.real.copy()),
    (TypeError, "dtype >c16", b.astype(">c16")),
    (TypeError, "must be a numpy array, not MaskedArray", numpy.ma.masked_array(b, mask=b.real > 0)),
    (ValueError, "shape (2, 4, 2, 6, 2, 2)", b[..., :2].copy()),
    (ValueError, "shape (192, 3): must be (2, 4, 2, 6, 2, 3)", b.reshape(-1, 3)),
    (ValueError, "must be contiguous", numpy.repeat(b, 2, axis=-1)[..., ::2]),
    (ValueError, "must be contiguous", numpy.asfortranarray(b)),
    (ValueError, "must be contiguous", odd_address),
]:
    raises(kind, "source: " + words, d.solve, array, 0.3, 1e-8)
    raises(kind, "out: " + words, d.solve, b, 0.3, 1e-8, out=array)
    raises(kind, "source: " + words, d.dslash, array, milcgpu.EVEN)
raises(ValueError, "source_tolerances has 1 numbers", d.solve, numpy.stack([b, b]), 0.3, 1e-8, source_tolerances=[1e-3])
raises(ValueError, "propagator has shape", lattice.pion, numpy.stack([b, b]))
raises(ValueError, "parity", d.propagator, b, 0.3, 1e-8, parity=milcgpu.ODD)
raises(ValueError, "the mass is 0", d.propagator, b, 0, 1e-8)
for path in "x\0.lat", b"x\0.lat":
    raises(ValueError, "has a zero byte", context.write, path, u)
    raises(ValueError, "has a zero byte", milcgpu.look, path)
raises(ValueError, "has a zero byte", context.write, "x.lat", u, time="now\0")
raises(ValueError, "has a zero byte", context.write, "x.nersc", u, "nersc", ensemble_id="a\0b")
assert context.write(b"bytes.lat", u).format == milcgpu.look("bytes.lat").format
raises(TypeError, "PathLike", context.read, None)
raises(ValueError, "out: the array is read-only", d.solve, b, 0.3, 1e-8, out=fixed)
raises(ValueError, "source: shape", d.solve_masses, numpy.stack([b, b]), [0.3], 1e-8)
raises(TypeError, "gauge: dtype", context.hisq, u.real.copy())
raises(milcgpu.Error, "BAD_ARGUMENT", context.links, u, u.astype(numpy.complex64))
d.solve(fixed, 0.3, 1e-8)  # a source may be read-only
x, report = d.solve(b.astype(numpy.complex64), 0.3, 1e-5)
assert x.dtype == numpy.complex64 and report.true_residual < 1e-5

# Members by name, tolerances of each source, guesses.
raises(TypeError, "has no member 'max_iteration'", d.solve, b, 0.3, 1e-8, max_iteration=5)
x, reports = d.solve(numpy.stack([b, b]), 0.3, 1e-8, together=milcgpu.ONE_BY_ONE, source_tolerances=[1e-3, 1e-9])
assert 1e-8 < reports[0].true_residual < 1e-3 and reports[1].true_residual < 1e-9
assert abs(reports[1].true_residual - d.residual(b, x[1], 0.3)) < 1e-12
ys, report = d.solve_masses(b, [0.3, 0.5], 1e-9)
assert [s.status for s in report.shifts] == [milcgpu.OK] * 2
assert d.residual(b, ys[1], 0.5) < 1e-9 and abs(ys[0] - x[1]).max() < 1e-7 * abs(x[1]).max()
out = x[1].copy()
other_parity = b.copy()
other_parity[0] = 0
for work in (lambda: d.solve(other_parity, 0.3, 1e-8), lambda: d.solve_masses(other_parity, [0.3], 1e-8)):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        zero, report = work()
    assert len(said) == 1 and "the source is 0 on all sites that this call reads" in str(said[0].message)
    assert not zero.any() and report.status == milcgpu.OK and said[0].filename == __file__
same, report = d.solve(b, 0.3, 1e-8, out=out)
assert same is out and report.steps == 0
error = raises(milcgpu.Error, "NOT_CONVERGED", d.solve, b, 0.3, 1e-12, max_iterations=4, max_restarts=1)
assert error.name == "NOT_CONVERGED" and error.status == milcgpu.NOT_CONVERGED
assert abs(error.result[0]).max() > 0 and error.result[1].true_residual > 1e-12
error = raises(milcgpu.Error, "NOT_CONVERGED", d.propagator, b, 0.3, 1e-12, max_iterations=4, max_restarts=1)
g = error.result  # on odd sites M x = b holds for any x on even sites
assert abs((0.6 * g + d.dslash(g, milcgpu.ODD) - b)[1]).max() < 1e-12
assert raises(milcgpu.Error, "spec.parity", d.solve, b, 0.3, 1e-8, parity=7).result is None

# Callbacks: exceptions come back, a flow is ended, messages are text.
raises(ZeroDivisionError, "", d.solve, b, 0.3, 1e-10, progress=lambda step, residual: 1 / 0)
field = context.gauge(u)
points, report = field.flow(lambda point: point.time >= 0.05, stop=1, step=0.01)
assert report.ended_by_caller == 1 and len(points) == 6
raises(ValueError, "invalid literal", field.flow, lambda point: "end", stop=1, step=0.01)
raises(OverflowError, "", field.flow, lambda point: 2**40, stop=1, step=0.01)
raises(KeyError, "no", field.flow, lambda point: {}["no"], stop=1, step=0.01)
said = []
milcgpu.Context(lattice, verbosity=1, message=said.append).close()
assert len(said) >= 1 and all(isinstance(line, str) for line in said)

# Progress: a bar of tqdm, here a bar that remembers; without tqdm none.
class Bar:
    def __init__(self, **words):
        Bar.last, self.n = self, 0

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.closed = True

    def update(self, by):
        assert by >= 0
        self.n += by


sys.modules["tqdm"], sys.modules["tqdm.auto"] = types.ModuleType("tqdm"), types.SimpleNamespace(tqdm=Bar)
for work in (
    lambda: d.solve(b, 0.3, 1e-8, progress=True),
    lambda: d.solve_masses(b, [0.3, 0.5], 1e-8, progress=True),
    lambda: d.eigenvectors(4, tolerance=1e-3, progress=True).close(),
    lambda: field.flow(stop=0.05, step=0.01, progress=True),
):
    work()
    assert 90 <= Bar.last.n <= 100 and Bar.last.closed
sys.modules["tqdm.auto"] = None  # import fails
assert d.solve(b, 0.3, 1e-8, progress=True)[1].true_residual < 1e-8

# Closing: by name, by `with`, by the context, when nothing refers to it; never during a call.
living = context._owner.living
count = len(living)
second = context.hisq(u)
vectors = second.eigenvectors(4, tolerance=1e-3)
assert len(living) == count + 2
del second
gc.collect()
assert len(living) == count + 2  # the eigenvectors hold their links
vectors.close()
vectors.close()
raises(ValueError, "this Eigenvectors is closed", vectors.write, "x")
del vectors
gc.collect()
assert len(living) == count
waiting = [context.hisq(u)]
during = []


def drop(step, residual):
    waiting.clear()
    during.append(len(living))


d.solve(b, 0.3, 1e-8, progress=drop)
assert during[-1] == count + 1 and len(living) == count
copy = context.gauge(u)  # a pointer keeps its handle
milcgpu.call(milcgpu.lib.milcgpu_gauge_copy, context.gauge(u).pointer, copy.pointer)
copy.close()
gc.collect()
assert len(living) == count
other = milcgpu.Context(lattice)
ring = [other, other.hisq(u)]
ring.append(ring)
gone = other._owner.living
del other, ring
gc.collect()
assert len(gone) == 0

# Threads take turns with a context; what they drop or close waits for the call that runs.
right, failed = d.solve(b, 0.3, 1e-10)[0], []


def work():
    try:
        for _ in range(5):
            context.hisq(u)
            assert abs(d.solve(b, 0.3, 1e-10)[0] - right).max() < 1e-12
    except BaseException as error:
        failed.append(error)


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
assert not failed and len(living) == count, (failed, living)

closing = []


def close(step, residual):
    if not closing:
        closing.append(threading.Thread(target=context.close))
        closing[0].start()
        closing[0].join()


d.solve(b, 0.3, 1e-8, progress=close)
assert len(living) == 0
for closed in (d.solve, field.plaquettes, context.read):
    arguments = {d.solve: (b, 0.3, 1e-8), context.read: ("order.nersc",)}.get(closed, ())
    raises(ValueError, "is closed", closed, *arguments)
left_open = milcgpu.Context(lattice).hisq(u)  # closed when Python ends
