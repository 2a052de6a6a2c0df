// Each thread has one site of all shifts. Bytes a site for cg_kept_steps iterations: as many spinors r, and for each
// shift p and x (double), both read and written.
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

struct Advance {
    const CgState *base;
    ShiftState *shifts;
    MILCGPU_HD void operator()(int s) const {
        if (s < shifts->count)
            shifts->shift[s].advance(*base);
    }
};

template <class S> struct Update {
    SourceAddresses<cg_kept_steps> r;
    SourceAddresses<max_shifts> p, x;
    size_t stride;
    const ShiftState *shifts;
    int count;
    double scale;
    MILCGPU_HD void operator()(int i) const {
        using Real = typename S::Real;
        Vector<Real> residual[cg_kept_steps] = {};
        bool loaded = false;
        for (int s = 0; s < count; ++s) {
            const Shift &shift = shifts->shift[s];
            if (shift.pending == 0)
                continue;
            if (!loaded) // every shift with pending iterations has the same number of them
                MILCGPU_UNROLL
            for (int k = 0; k < cg_kept_steps; ++k)
                if (k < shift.pending)
                    residual[k] = load_spinor<S>(r[k], stride, i);
            loaded = true;
            Vector<Real> direction = load_spinor<S, Reuse::written>(p[s], stride, i), step = {};
            MILCGPU_UNROLL
            for (int k = 0; k < cg_kept_steps; ++k)
                if (k < shift.pending) {
                    step = step + static_cast<Real>(shift.alpha[k]) * direction;
                    direction = static_cast<Real>(shift.residual[k]) * residual[k] +
                                static_cast<Real>(shift.beta[k]) * direction;
                }
            store_spinor<S>(p[s], stride, i, direction);
            store_spinor<SpinorDouble>(x[s], stride, i,
                                       load_spinor<SpinorDouble, Reuse::written>(x[s], stride, i) +
                                           scale * convert<double>(step));
        }
    }
};

struct ShiftedResiduals {
    static constexpr int together = 1;
    SpinorBlock b, x, r;
    Offsets offset;
    MILCGPU_HD bool open(int) const { return true; }
    ActiveSources active() const { return {}; }
    MILCGPU_HD Sums<1> operator()(int i, int k) const {
        const auto load = [i](const SpinorBlock &v, int source) {
            return load_spinor<SpinorDouble, Reuse::written>(v.data + source * v.source_bytes, v.stride, i);
        };
        const Vector<double> made = load(b, 0) - (offset.of[k] * load(x, k) + load(r, k));
        store_spinor<SpinorDouble>(r.data + k * r.source_bytes, r.stride, i, made);
        return {{norm(made)}};
    }
};

// The same on the host, for a tile of sites. A step does the same with all reals of a vector, and on the host they are
// consecutive, so a loop over them is a loop over SIMD registers. Site by site it takes four times as long.
template <class S> struct UpdateTile {
    using Real = typename S::Real;
    static constexpr int sites = 8, reals = 6, most = reals * sites;
    Update<S> of;
    int all; // sites
    void operator()(int tile) const {
        const int first = reals * sites * tile, n = std::min(most, reals * all - first);
        for (int s = 0; s < of.count; ++s) {
            const Shift &shift = of.shifts->shift[s];
            if (shift.pending == 0)
                continue;
            Real *const p = reinterpret_cast<Real *>(of.p[s]) + first;
            Real direction[most], step[most] = {};
            memcpy(direction, p, n * sizeof(Real));
            for (int k = 0; k < shift.pending; ++k) {
                const Real *const r = reinterpret_cast<const Real *>(of.r[k]) + first;
                const Real alpha = static_cast<Real>(shift.alpha[k]), residual = static_cast<Real>(shift.residual[k]),
                           beta = static_cast<Real>(shift.beta[k]);
                for (int e = 0; e < n; ++e) {
                    step[e] += alpha * direction[e];
                    direction[e] = residual * r[e] + beta * direction[e];
                }
            }
            double *const x = reinterpret_cast<double *>(of.x[s]) + first;
            for (int e = 0; e < n; ++e)
                p[e] = direction[e], x[e] += of.scale * static_cast<double>(step[e]);
        }
    }
};

} // namespace

void shifted_residuals(Device &device, const SpinorBlock &b, const SpinorBlock &x, const Offsets &offset,
                       const SpinorBlock &r, double *sums) {
    launch_sum_sources<1, 1>(device, x.sites, x.sources, ShiftedResiduals{b, x, r, offset}, StoreSumOfSource{sums},
                             "residuals of shifts");
}

void advance_shifts(Device &device, const CgState *base, ShiftState *shifts) {
    launch(device, max_shifts, Advance{base, shifts}, "advance shifts", 64);
}

void update_shifts(Device &device, const ShiftVectors &vectors, const ShiftState *shifts, double scale) {
    for_precision(vectors.r.precision, [&](auto s) {
        const Update<decltype(s)> body{vectors.r, vectors.p,         vectors.x, vectors.r.stride,
                                       shifts,    vectors.p.sources, scale};
#if !MILCGPU_STRIPES
        if constexpr (decltype(s)::precision != Precision::half)
            if (!queue_of(device).on_gpu()) {
                using Tile = UpdateTile<decltype(s)>;
                queue_of(device).about_to("update shifts");
                return run_on_host((vectors.r.sites - 1) / Tile::sites + 1, vectors.r.sites,
                                   Tile{body, vectors.r.sites});
            }
#endif
        launch(device, vectors.r.sites, body, "update shifts");
    });
}

} // namespace milcgpu
