# A free quark by Python and cffi: unit links, and a source whose solution is known.
#     python3 propagator.py $HOME/milcgpu-inst
import math, re, sys
from cffi import FFI

prefix = sys.argv[1]
header = open(prefix + "/include/milcgpu/milcgpu.h").read()
header = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.S)
ffi = FFI()
ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.M))
lib = ffi.dlopen(prefix + "/lib/libmilcgpu.so")

def ok(status):
    if status != lib.MILCGPU_OK:
        sys.exit(ffi.string(lib.milcgpu_last_error()).decode())

def field(numbers):
    return ffi.new("milcgpu_field *", {"data": numbers, "precision": lib.MILCGPU_DOUBLE})

n, nt, mass = 4, 8, 0.1
sites = n**3 * nt
layout = ffi.new("milcgpu_layout *", {"struct_size": ffi.sizeof("milcgpu_layout"), "extent": [n, n, n, nt]})
context = ffi.new("milcgpu_context **")
ok(lib.milcgpu_context_create(layout, ffi.NULL, context))

one = [1.0 if k % 8 == 0 else 0.0 for k in range(18)]  # a 3 x 3 unit matrix: re, im of each element
gauge = ffi.new("double[]", one * (4 * sites))
hisq = ffi.new("milcgpu_fatlink_spec *")
lib.milcgpu_hisq_defaults(hisq, ffi.sizeof("milcgpu_fatlink_spec"))
hisq.signs = lib.MILCGPU_SIGNS_OUT  # the library multiplies phases and boundary sign in
links = ffi.new("milcgpu_links **")
ok(lib.milcgpu_links_make(context[0], hisq, field(gauge), [{"links": links}], 1, ffi.NULL, ffi.NULL))

# The wave e^(i p t), p = pi / nt, on even sites: 4 m^2 - D D gives 4 m^2 + 4 s^2 times it.
p = math.pi / nt
s = 9 / 8 * math.sin(p) - 1 / 24 * math.sin(3 * p)
source, solution = ffi.new("double[]", 6 * sites), ffi.new("double[]", 6 * sites)
for k in range(sites // 2):
    t = k // (n**3 // 2)
    source[6 * k], source[6 * k + 1] = math.cos(p * t), math.sin(p * t)
spec = ffi.new("milcgpu_solve_spec *")
lib.milcgpu_solve_defaults(spec, ffi.sizeof("milcgpu_solve_spec"))
spec.mass, spec.tolerance = mass, 1e-12
report = ffi.new("milcgpu_solve_report *", {"struct_size": ffi.sizeof("milcgpu_solve_report")})
ok(lib.milcgpu_staggered_solve(links[0], spec, field(source), field(solution), report))
error = max(abs(solution[k] * 4 * (mass**2 + s**2) - source[k]) for k in range(3 * sites))
print(f"{report.iterations} iterations, true residual {report.true_residual:.1e}, error {error:.1e}")
lib.milcgpu_links_destroy(links[0])
lib.milcgpu_context_destroy(context[0])
sys.exit(error > 1e-10)
