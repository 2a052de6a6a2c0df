"""numpy arrays as fields of the library, without copies."""

import numpy

from .library import ffi, lib

_precisions = {numpy.dtype(numpy.complex128): lib.MILCGPU_DOUBLE, numpy.dtype(numpy.complex64): lib.MILCGPU_SINGLE}


def fields(lattice, array, inner, what, count=None, write=False):
    """The array as `count` milcgpu_fields (None: one). The caller keeps the array until the call has returned.

    TypeError: no numpy array, a masked array, or a wrong dtype. ValueError: a wrong shape, not contiguous or not aligned, or read-only
    and written.
    """
    if not isinstance(array, numpy.ndarray) or isinstance(array, numpy.ma.MaskedArray):
        raise TypeError(f"{what}: must be a numpy array, not {type(array).__name__}")
    if array.dtype not in _precisions:
        raise TypeError(f"{what}: dtype {array.dtype}: must be complex128 or complex64, in this machine's byte order")
    shape = (() if count is None else (count,)) + lattice.shape + inner
    if array.shape != shape:
        raise ValueError(f"{what}: shape {array.shape}: must be {shape}, for {lattice}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{what}: must be contiguous and aligned: pass a copy, numpy.require(.., requirements='CA')")
    if write and not array.flags.writeable:
        raise ValueError(f"{what}: the array is read-only, and the library writes it")
    made = ffi.new("milcgpu_field[]", 1 if count is None else count)
    for k, field in enumerate(made):
        field.data = ffi.cast("char *", array.ctypes.data) + k * (array.nbytes // len(made))
        field.precision = _precisions[array.dtype]
    return made


def several(lattice, array):
    """The number of colour fields in [n, sites.., 3]; None for one field, [sites.., 3]."""
    return array.shape[0] if getattr(array, "ndim", 0) == len(lattice.shape) + 2 else None
