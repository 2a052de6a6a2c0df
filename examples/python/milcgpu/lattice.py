"""Lattices, and arrays in the orders of milcgpu, of PyQUDA, and x fastest."""

import functools
import operator

import numpy


class Lattice:
    """A lattice and the order of the sites in its arrays, with PyQUDA's names.

    size: X, Y, Z, T. order, with the axes of the sites in arrays (`shape`):
        "evenodd"        (2, T, Z, Y, X/2), the library's and PyQUDA's order: element [(x+y+z+t) % 2, t, z, y, x // 2]
        "lexicographic"  (T, Z, Y, X): element [t, z, y, x]
        a site map       (V,): entry k is the index of the library's k-th site (milcgpu_layout in milcgpu.h)
    The library reads and writes all three in place. A colour field is `shape` + (3,), links are `shape` + (4, 3, 3).
    """

    def __init__(self, size, order="evenodd"):
        self.size = [operator.index(extent) for extent in size]
        if len(self.size) != 4 or any(extent < 2 or extent % 2 for extent in self.size):
            raise ValueError(f"size {list(size)}: must be four even extents X, Y, Z, T of at least 2")
        self.Lx, self.Ly, self.Lz, self.Lt = self.size
        self.volume = self.Lx * self.Ly * self.Lz * self.Lt
        self.order = order if isinstance(order, str) else "site map"
        if self.order == "evenodd":
            self.site_map = None
            self.shape = 2, self.Lt, self.Lz, self.Ly, self.Lx // 2
        elif self.order == "lexicographic":
            self.shape = tuple(self.size[::-1])
            self.site_map = evenodd(numpy.arange(self.volume).reshape(self.shape), [0, 1, 2, 3]).ravel()
        elif self.order == "site map":
            site_map = numpy.ravel(order)
            if not numpy.array_equal(numpy.sort(site_map), numpy.arange(self.volume)):
                raise ValueError(f"order: a site map must have each number from 0 to {self.volume - 1} once")
            self.site_map = site_map.astype(numpy.int32)
            self.shape = (self.volume,)
        else:
            raise ValueError(f'order {order!r}: must be "evenodd", "lexicographic" or a site map')

    def _coordinate(self, mu):
        """Of each site, in arrays of `shape`."""
        by_axes = numpy.broadcast_to(numpy.indices(self.size[::-1], sparse=True)[3 - mu], self.size[::-1])
        if self.order == "lexicographic":
            return by_axes
        in_order = evenodd(by_axes, [0, 1, 2, 3])  # the library's
        if self.order == "evenodd":
            return in_order
        own = numpy.empty(self.volume, dtype=int)
        own[self.site_map] = in_order.ravel()
        return own

    x = functools.cached_property(lambda self: self._coordinate(0))
    y = functools.cached_property(lambda self: self._coordinate(1))
    z = functools.cached_property(lambda self: self._coordinate(2))
    t = functools.cached_property(lambda self: self._coordinate(3))

    def __repr__(self):
        return f"Lattice({self.size}, order={self.order!r})"

    def zeros(self, *inner, count=None, dtype=complex):
        """An array for a field with `inner` per site, for example zeros(3): a colour vector. count: so many fields."""
        return numpy.zeros(((count,) if count is not None else ()) + self.shape + inner, dtype=dtype)

    def site(self, x, y, z, t):
        """The index of a site in arrays: field[lattice.site(0, 0, 0, 0)] is a colour vector."""
        x, y, z, t = (n % extent for n, extent in zip((x, y, z, t), self.size))
        if self.order == "lexicographic":
            return t, z, y, x
        index = (x + y + z + t) % 2, t, z, y, x // 2
        if self.order == "evenodd":
            return index
        return (self.site_map[numpy.ravel_multi_index(index, (2, self.Lt, self.Lz, self.Ly, self.Lx // 2))],)

    def point_sources(self, x, y, z, t, dtype=complex):
        """Three colour fields: field c is 1 at this site in colour c."""
        sources = self.zeros(3, count=3, dtype=dtype)
        for colour in range(3):
            sources[(colour,) + self.site(x, y, z, t) + (colour,)] = 1
        return sources

    def time_slices(self, density):
        """Sums over the time slices of an array with one number per site."""
        if density.shape != self.shape:
            raise ValueError(f"density has shape {density.shape}: must be {self.shape}, one number per site")
        return numpy.array([density[self.t == t].sum() for t in range(self.Lt)])

    def pion(self, propagator):
        """The Goldstone pion at momentum 0 by time slice: sum over x, colours and components of |G|^2. propagator: one
        field for each colour of the source, [3, sites.., 3] (Links.propagator)."""
        if propagator.shape != (3,) + self.shape + (3,):
            raise ValueError(f"propagator has shape {propagator.shape}: must be {(3,) + self.shape + (3,)}")
        return self.time_slices((abs(propagator) ** 2).sum(axis=(0, -1)))


def _rows(lattice_rows):
    """Whether the row of x at (t, z, y) begins with an odd site."""
    return numpy.indices(lattice_rows).sum(axis=0) % 2 == 1


def evenodd(data, axes):
    """From [.., T, Z, Y, X, ..] to [.., 2, T, Z, Y, X/2, ..]. axes: the places of T, Z, Y, X. A copy."""
    at = axes[0]
    shape = data.shape
    if list(axes) != list(range(at, at + 4)) or shape[at + 3] % 2:
        raise ValueError(f"axes {axes} of shape {shape}: must be those of T, Z, Y, X in a row, and X must be even")
    pairs = numpy.moveaxis(data.reshape(shape[: at + 3] + (shape[at + 3] // 2, 2) + shape[at + 4 :]), at + 4, at)
    odd = _rows(shape[at : at + 3])
    result = numpy.array(pairs, order="C")
    before = (slice(None),) * at
    result[before + (0, odd)], result[before + (1, odd)] = pairs[before + (1, odd)], pairs[before + (0, odd)]
    return result


def lexico(data, axes):
    """From [.., 2, T, Z, Y, X/2, ..] to [.., T, Z, Y, X, ..]. axes: the places of 2, T, Z, Y, X/2. A copy."""
    at = axes[0]
    shape = data.shape
    if list(axes) != list(range(at, at + 5)) or shape[at] != 2:
        raise ValueError(f"axes {axes} of shape {shape}: must be those of 2, T, Z, Y, X/2 in a row")
    odd = _rows(shape[at + 1 : at + 4])
    pairs = numpy.array(data)
    before = (slice(None),) * at
    pairs[before + (0, odd)], pairs[before + (1, odd)] = data[before + (1, odd)], data[before + (0, odd)]
    pairs = numpy.moveaxis(pairs, at, at + 4)
    return pairs.reshape(shape[:at] + shape[at + 1 : at + 4] + (2 * shape[at + 4],) + shape[at + 5 :])


def directions_last(gauge):
    """Links as the library has them, [sites.., 4, 3, 3], from PyQUDA's [4, sites.., 3, 3]. A copy."""
    return numpy.ascontiguousarray(numpy.moveaxis(gauge, 0, -3))


def directions_first(links):
    """Links as PyQUDA has them, [4, sites.., 3, 3], from the library's [sites.., 4, 3, 3]. A copy."""
    return numpy.ascontiguousarray(numpy.moveaxis(links, -3, 0))


def layout(lattice):
    """milcgpu_layout members of a lattice."""
    return {"extent": lattice.size, "site_map": None if lattice.site_map is None else lattice.site_map.tolist()}
