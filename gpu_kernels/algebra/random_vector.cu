// Vectors of +-1 +-i: start vectors of eigensolvers, and noise for traces. A pass writes one spinor for each source.
#include "gpu_kernels/algebra/random_vector.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

// The last step of splitmix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
MILCGPU_HD uint64_t hash(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

template <class S> struct RandomVectors {
    SpinorView<S> x; // the first source
    size_t source_bytes;
    Lattice lattice;
    int parity, count, origin[4], extent[4]; // extent: of the whole lattice
    uint64_t seed;
    MILCGPU_HD void operator()(int i) const {
        using Real = typename S::Real;
        const Site s = lattice.site(parity, i);
        uint64_t site = 0;
        for (int mu = 3; mu >= 0; --mu)
            site = site * extent[mu] + (s.x[mu] + origin[mu]) % extent[mu];
        SpinorView<S> to = x;
        for (int k = 0; k < count; ++k, to.data += source_bytes) {
            const uint64_t bits = hash(hash(seed + k) ^ site);
            Vector<Real> v;
            for (int c = 0; c < 3; ++c)
                v.c[c] = {bits >> (2 * c) & 1 ? Real(1) : Real(-1), bits >> (2 * c + 1) & 1 ? Real(1) : Real(-1)};
            to.store(i, v);
        }
    }
};

} // namespace

void random_vectors(Device &device, const Geometry &geometry, int parity, uint64_t seed, int first,
                    const SpinorBlock &x) {
    for_precision(x.precision, [&](auto s) {
        RandomVectors<decltype(s)> body{
            SpinorView<decltype(s)>(x),         x.source_bytes, geometry.lattice(), parity, x.sources, {}, {},
            seed + static_cast<uint64_t>(first)};
        for (int mu = 0; mu < 4; ++mu)
            body.origin[mu] = geometry.origin()[mu], body.extent[mu] = geometry.global_extents()[mu];
        launch(device, x.sites, body, "random vectors");
    });
}

} // namespace milcgpu
