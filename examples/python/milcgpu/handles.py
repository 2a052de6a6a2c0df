"""Contexts and what they own. Each closes itself: by `with`, by close(), or when nothing refers to it any more."""

import itertools
import math
import threading
import warnings
import weakref

import numpy

from .fields import fields, several
from .lattice import Lattice, layout
from .library import Error, c_text, call, callback, ffi, lib, struct, unpack, watched


class _Owner:
    """The pointers of a context and its handles, so that handles are destroyed before their context, and one thread at
    a time uses them. While a call runs the library destroys nothing: that waits for the end of the call."""

    def __init__(self):
        self.living, self.late, self.calls = {}, [], 0
        self.keys, self.lock = itertools.count(), threading.RLock()

    def destroy(self, key):
        self.late.append(key)
        self._destroy_late()

    def _destroy_late(self):
        """No-op while a call runs, in any thread: then its end does this."""
        while self.late and self.lock.acquire(blocking=False):
            try:
                if self.calls:
                    return
                key = self.late.pop() if self.late else None
                # With the context (key 0) all that is left of its handles.
                for each in sorted(self.living, reverse=True) if key == 0 else [key]:
                    pointer, function = self.living.pop(each, (None, None))
                    if pointer is not None:
                        function(pointer)
            finally:
                self.lock.release()

    def call(self, handle, function, *arguments, result=None):
        try:
            with self.lock:
                handle.pointer  # closed handles are refused here
                self.calls += 1
                try:
                    call(function, *arguments, result=result)
                finally:
                    self.calls -= 1
        finally:
            self._destroy_late()


class Handle:
    """An object of the library."""

    def __init__(self, owner, pointer, destroy):
        self._owner = owner
        self._key = next(owner.keys)
        owner.living[self._key] = pointer, destroy
        self._finalizer = weakref.finalize(self, owner.destroy, self._key)

    @property
    def pointer(self):
        """For the functions of milcgpu.lib. The handle lives at least as long as this."""
        pointer, _ = self._owner.living.get(self._key, (None, None))
        if not self._finalizer.alive or pointer is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return ffi.gc(pointer, lambda _, kept=self: None)

    def close(self):
        """Frees the memory. A second call does nothing."""
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    def _call(self, function, *arguments, result=None):
        self._owner.call(self, function, *arguments, result=result)


class Context(Handle):
    """A lattice on a device. lattice: a Lattice, or its size. backend: "auto", "cuda" or "host". Other members of
    milcgpu_options by their names, for example message=print."""

    def __init__(self, lattice, backend="auto", device=-1, verbosity=-1, **options):
        self.lattice = lattice if isinstance(lattice, Lattice) else Lattice(lattice)
        backends = {"auto": lib.MILCGPU_AUTO, "cuda": lib.MILCGPU_CUDA, "host": lib.MILCGPU_HOST}
        if backend not in backends:
            raise ValueError(f"backend {backend!r}: must be one of {', '.join(backends)}")
        options = struct("options", backend=backends[backend], device=device, verbosity=verbosity, **options)
        made = ffi.new("milcgpu_context **")
        call(lib.milcgpu_context_create, struct("layout", **layout(self.lattice)), options, made)
        self._options = options  # has the callback of `message`
        super().__init__(_Owner(), made[0], lambda pointer, kept=options: lib.milcgpu_context_destroy(pointer))

    @property
    def device_name(self):
        return ffi.string(lib.milcgpu_context_device_name(self.pointer)).decode()

    def read(self, path, dtype=complex):
        """The links of a lattice file, [sites.., 4, 3, 3], without phases: MILC, SciDAC, ILDG or NERSC."""
        links = self.lattice.zeros(4, 3, 3, dtype=dtype)
        to = fields(self.lattice, links, (4, 3, 3), "links", write=True)
        self._call(lib.milcgpu_gauge_file_read, self.pointer, c_text(path), to, ffi.NULL)
        return links

    def write(self, path, links, format="milc", time=None, **members):
        """Writes links without phases: format "milc" (version 5, single precision; time: a text) or "nersc" (members of
        milcgpu_nersc_spec). Returns what `look` returns."""
        if format not in ("milc", "nersc") or (members and format == "milc") or (time and format == "nersc"):
            raise ValueError('format: must be "milc", with no members, or "nersc", with no time')
        file, source = struct("gauge_file"), fields(self.lattice, links, (4, 3, 3), "links")
        name = c_text(path)
        if format == "milc":
            when = ffi.NULL if time is None else c_text(time)
            self._call(lib.milcgpu_gauge_file_write, self.pointer, name, source, when, file)
        else:
            self._call(
                lib.milcgpu_gauge_file_write_nersc, self.pointer, name, source, struct("nersc_spec", **members), file
            )
        return _head(file)

    def links(self, fat, long):
        """Links of D from fat and long links with phases, [sites.., 4, 3, 3] each."""
        made = ffi.new("milcgpu_links **")
        two = [fields(self.lattice, array, (4, 3, 3), what) for array, what in ((fat, "fat"), (long, "long"))]
        self._call(lib.milcgpu_links_create, self.pointer, *two, made)
        return Links(self, made[0])

    def hisq(self, gauge, eps=0, **members):
        """HISQ links from a gauge field, [sites.., 4, 3, 3], without phases (with phases: signs=milcgpu.SIGNS_IN). eps:
        eps_naik. members: of milcgpu_fatlink_spec."""
        return self._made(gauge, eps, ("hisq",), members)

    def asqtad(self, gauge, u0, eps=0, **members):
        """Asqtad links with tadpole factor u0; else as hisq."""
        return self._made(gauge, eps, ("asqtad", u0), members)

    def _made(self, gauge, eps, defaults, members):
        members.setdefault("signs", lib.MILCGPU_SIGNS_OUT)
        made = ffi.new("milcgpu_links **")
        sets = ffi.new("milcgpu_fatlink_set[]", [{"eps": eps, "links": made}])
        spec = struct("fatlink_spec", defaults, **members)
        source = fields(self.lattice, gauge, (4, 3, 3), "gauge")
        self._call(lib.milcgpu_links_make, self.pointer, spec, source, sets, 1, ffi.NULL, ffi.NULL)
        return Links(self, made[0])

    def gauge(self, links, unitarity=0):
        """A gauge field on the device, for flow, smearing and measurements, in the precision of the array."""
        source = fields(self.lattice, links, (4, 3, 3), "links")
        made = Gauge(self, source[0].precision)
        made._call(lib.milcgpu_gauge_load, made.pointer, source, unitarity)
        return made


def _fraction(tolerance):
    """How much of a solve is done, by the logarithm of the residual."""
    return lambda step, residual: math.log(residual) / math.log(tolerance) if 0 < tolerance < 1 and residual > 0 else 0


def _warn(report):
    """A message of a solve that has succeeded, for example that its source is 0 on the sites of its parity."""
    words = ffi.string(report.message).decode(errors="replace")
    if words:
        warnings.warn(words, stacklevel=3)


class Links(Handle):
    """Fat and long links on the device, and solves with them. Colour fields are [sites.., 3]."""

    def __init__(self, context, pointer):
        self.context, self.lattice = context, context.lattice
        super().__init__(context._owner, pointer, lib.milcgpu_links_destroy)

    def solve(self, source, mass, tolerance, out=None, together=0, progress=None, **members):
        """(4 m^2 - D D) x = b on even sites (or parity=milcgpu.ODD). source: one field, or several, [n, sites.., 3].

        out: the array for the solution; its content is the initial guess. None: a new one, guess 0. together: how
        several sources are solved, for example milcgpu.BLOCK. progress: True for a bar of tqdm, or a function of step
        and residual. members: of milcgpu_solve_spec, for example sloppy=milcgpu.SINGLE, eigenvectors=...
        Returns the solution and the report, or the list of reports.
        """
        count = several(self.lattice, source)
        b = fields(self.lattice, source, (3,), "source", count)
        out = numpy.zeros_like(source) if out is None else out
        x = fields(self.lattice, out, (3,), "out", count, write=True)
        n = len(b)
        reports = ffi.new("milcgpu_solve_report[]", n)
        for report in reports:
            report.struct_size = ffi.sizeof("milcgpu_solve_report")

        def result():
            return out, unpack(reports) if count is not None else unpack(reports[0])

        for name in "source_tolerances", "source_max_iterations":
            if members.get(name) is not None and len(members[name]) != n:
                raise ValueError(f"{name} has {len(members[name])} numbers: must have {n}, one for each source")
        with watched(progress, "solve", _fraction(tolerance)) as show:
            spec = struct("solve_spec", mass=mass, tolerance=tolerance, progress=show, **members)
            if count is None:
                self._call(lib.milcgpu_staggered_solve, self.pointer, spec, b, x, reports, result=result)
            else:
                self._call(
                    lib.milcgpu_staggered_solve_sources, self.pointer, spec, together, n, b, x, reports, result=result
                )
        for report in reports:
            _warn(report)
        return result()

    def solve_masses(self, source, masses, tolerance, progress=None, **members):
        """(4 m^2 - D D) x = b for several masses in one Krylov space. Returns the solutions, [masses, sites.., 3], and
        the report with one of `shifts` for each mass. members: of milcgpu_multi_mass_spec."""
        b = fields(self.lattice, source, (3,), "source")
        n = len(masses)
        out = numpy.zeros((n,) + source.shape, dtype=source.dtype)
        x = fields(self.lattice, out, (3,), "out", n, write=True)
        poles = ffi.new("milcgpu_pole[]", [{"offset": 4 * mass**2, "tolerance": tolerance} for mass in masses])
        shifts = ffi.new("milcgpu_shift_report[]", n)
        report = struct("multi_mass_report", shifts=shifts)

        def result():
            reported = unpack(report)
            reported.shifts = unpack(shifts)
            return out, reported

        with watched(progress, "solve", _fraction(tolerance)) as show:
            spec = struct("multi_mass_spec", n_shifts=n, shifts=poles, progress=show, **members)
            self._call(lib.milcgpu_staggered_multi_mass, self.pointer, spec, b, x, report, result=result)
        _warn(report)
        return result()

    def dslash(self, source, parity, out=None):
        """out on `parity` = D source on the other parity. out may be the source. None: a new array, 0 elsewhere."""
        given = fields(self.lattice, source, (3,), "source")
        out = numpy.zeros_like(source) if out is None else out
        to = fields(self.lattice, out, (3,), "out", write=True)
        what = struct("storage", precision=lib.MILCGPU_DOUBLE)
        self._call(lib.milcgpu_staggered_dslash, self.pointer, what, parity, given, to)
        return out

    def residual(self, source, solution, mass, parity=lib.MILCGPU_EVEN):
        """|b - (4 m^2 - D D) x| / |b|, in double."""
        number = ffi.new("double *")
        two = [fields(self.lattice, array, (3,), what) for array, what in ((source, "source"), (solution, "solution"))]
        self._call(lib.milcgpu_staggered_residual, self.pointer, parity, mass, *two, number)
        return number[0]

    def propagator(self, source, mass, tolerance, **members):
        """M x = b on all sites, M = 2 m + D: one field, or several, [n, sites.., 3]. Solves as `solve` does, on even
        sites; the mass must not be 0."""
        count = several(self.lattice, source)
        sources = source if count is not None else source[numpy.newaxis]
        fields(self.lattice, sources, (3,), "source", len(sources))  # refused here, if at all
        mass = float(mass)
        if mass == 0 or "parity" in members:
            raise ValueError("propagator: " + ("the mass is 0" if mass == 0 else "parity: it solves on even sites"))
        even = (self.lattice.x + self.lattice.y + self.lattice.z + self.lattice.t) % 2 == 0
        rhs = numpy.stack([2 * mass * b - self.dslash(b, lib.MILCGPU_EVEN) for b in sources])  # M^dag b

        def whole(x):
            for b, solution in zip(sources, x if count is not None else x[numpy.newaxis]):
                self.dslash(solution, lib.MILCGPU_ODD, solution)
                solution[~even] = (b[~even] - solution[~even]) / (2 * mass)
            return x

        try:
            return whole(self.solve(rhs if count is not None else rhs[0], mass, tolerance, **members)[0])
        except Error as error:
            if error.result is not None:
                error.result = whole(error.result[0])
            raise

    def eigenvectors(self, count, progress=None, **members):
        """The lowest eigenvectors of -D^2. members: of milcgpu_eigen_spec, for example tolerance=1e-8."""
        made = ffi.new("milcgpu_eigenvectors **")
        with watched(progress, "eigenvectors", lambda done, of: done / of) as show:
            spec = struct("eigen_spec", count=count, progress=show, **members)
            self._call(lib.milcgpu_eigenvectors_compute, self.pointer, spec, made, ffi.NULL)
        return Eigenvectors(self, made[0])

    def read_eigenvectors(self, path, precision=0, most=0):
        """The lowest `most` eigenvectors (0: all) of a file of MILC's."""
        made = ffi.new("milcgpu_eigenvectors **")
        self._call(lib.milcgpu_eigenvectors_read, self.pointer, c_text(path), precision, most, made)
        return Eigenvectors(self, made[0])


class Eigenvectors(Handle):
    """Eigenvectors of -D^2 on one parity, the lowest first."""

    def __init__(self, links, pointer):
        self.lattice = links.lattice
        self._links = links  # lives as long as its vectors
        super().__init__(links._owner, pointer, lib.milcgpu_eigenvectors_destroy)
        self.values, self.residuals = numpy.zeros(len(self)), numpy.zeros(len(self))
        two = [ffi.cast("double *", array.ctypes.data) for array in (self.values, self.residuals)]
        self._call(lib.milcgpu_eigenvectors_values, self.pointer, *two)

    def __len__(self):
        return lib.milcgpu_eigenvectors_count(self.pointer)

    def __getitem__(self, index):
        """A copy of one vector, [sites.., 3], 0 on sites of the other parity."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"eigenvector {index} of {len(self)}")
        vector = self.lattice.zeros(3)
        to = fields(self.lattice, vector, (3,), "vector", write=True)
        self._call(lib.milcgpu_eigenvectors_save, self.pointer, index % len(self), to)
        return vector

    def write(self, path, precision=lib.MILCGPU_DOUBLE, time=None):
        """Writes a file of MILC's. precision: that of the MILC that will read it."""
        when = ffi.NULL if time is None else c_text(time)
        self._call(lib.milcgpu_eigenvectors_write, self.pointer, c_text(path), precision, when)


class Gauge(Handle):
    """A gauge field on the device. Links without phases unless signs=milcgpu.SIGNS_IN says otherwise."""

    def __init__(self, context, precision):
        self.context, self.lattice, self.precision = context, context.lattice, precision
        made = ffi.new("milcgpu_gauge **")
        context._call(lib.milcgpu_gauge_create, context.pointer, precision, made)
        super().__init__(context._owner, made[0], lib.milcgpu_gauge_destroy)

    def links(self, out=None):
        """A copy of the links, [sites.., 4, 3, 3]."""
        dtype = numpy.complex128 if self.precision == lib.MILCGPU_DOUBLE else numpy.complex64
        out = self.lattice.zeros(4, 3, 3, dtype=dtype) if out is None else out
        self._call(lib.milcgpu_gauge_save, self.pointer, fields(self.lattice, out, (4, 3, 3), "out", write=True))
        return out

    def copy(self):
        """A second handle with these links: flow and smearing change the links of their handle."""
        made = Gauge(self.context, self.precision)
        self._call(lib.milcgpu_gauge_copy, self.pointer, made.pointer)
        return made

    def _two(self, function):
        two = ffi.new("double[2]")
        self._call(function, self.pointer, two, two + 1)
        return two[0], two[1]

    def plaquettes(self):
        """Means of Re tr of the plaquettes in space, and with time; 3 on unit links."""
        return self._two(lib.milcgpu_gauge_plaquettes)

    def polyakov_loop(self):
        """The mean of the trace, a complex number."""
        return complex(*self._two(lib.milcgpu_gauge_polyakov_loop))

    def measure(self, signs=lib.MILCGPU_SIGNS_OUT):
        """Energy densities, plaquettes, charge: the members of milcgpu_observables."""
        made = struct("observables")
        self._call(lib.milcgpu_gauge_measure, self.pointer, signs, made)
        return unpack(made)

    def flow(self, each=None, progress=None, **members):
        """Gradient flow of these links. Returns the points (members of milcgpu_flow_point) and the report.

        each: called with each point; a result other than 0 or None ends the flow. members: of milcgpu_flow_spec.
        """
        members.setdefault("signs", lib.MILCGPU_SIGNS_OUT)
        spec = struct("flow_spec", **members)
        report = struct("flow_report")
        points = []
        with watched(progress, "flow", lambda point: point.time / spec.stop if spec.stop > 0 else 0) as show:

            def take(point):
                points.append(unpack(point))
                if show is not None:
                    show(points[-1])
                return each(points[-1]) if each is not None else 0

            taken = callback("milcgpu_flow_callback", take)
            result = lambda: (points, unpack(report))
            self._call(lib.milcgpu_gauge_flow, self.pointer, spec, taken, ffi.NULL, report, result=result)
        return result()

    def stout(self, rho, times, **members):
        """Stout smearing of these links. members: of milcgpu_stout_spec."""
        members.setdefault("signs", lib.MILCGPU_SIGNS_OUT)
        spec = struct("stout_spec", rho=rho, times=times, **members)
        self._call(lib.milcgpu_gauge_stout_smear, self.pointer, spec, ffi.NULL)


def _head(file):
    head = unpack(file)
    head.lattice = Lattice(head.extent)
    return head


def look(path):
    """What the head of a lattice file says: members of milcgpu_gauge_file, and `lattice`."""
    file = struct("gauge_file")
    call(lib.milcgpu_gauge_file_look, c_text(path), file)
    return _head(file)
