"""milcgpu: staggered fermions on GPUs, with numpy arrays. See docs/python.md.

All constants of the headers are names of this module without their prefix (milcgpu.EVEN); all functions and structs of
the C interface are in milcgpu.lib and milcgpu.ffi, with `call`, `struct` and `unpack` for them.
"""

from .fields import fields
from .handles import Context, Eigenvectors, Gauge, Links, look
from .lattice import Lattice, directions_first, directions_last, evenodd, lexico
from .library import Error, call, constant, ffi, lib, struct, unpack
from .library import version as __version__


def __getattr__(name):
    return constant(name)
