// The epilogue that follows D in a launch (algebra/epilogue.h), and the use of its sums.
#pragma once
#include "gpu_kernels/algebra/epilogue.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/reduce.h"
#include "gpu_kernels/machine/geometry/lattice.h"
#include <type_traits>

namespace milcgpu {

// True if the host has code for rows for this kind of lattice. In builds for GPUs the host uses the rows for cut
// lattices only.
#if defined(MILCGPU_WITH_CUDA)
template <class Where> constexpr bool host_takes = !std::is_same<Where, Lattice>::value;
#else
template <class Where> constexpr bool host_takes = true;
#endif

// The epilogues plain, normal and residual after D, or a step of conjugate gradient, which has one more sum. `made`
// becomes the new element, as stored.
template <class Spinor> struct Ending {
    using Vec = Vector<typename Spinor::Real>;
    using Real = typename Spinor::Real;
    static constexpr int sums = 1;

    Epilogue epilogue;
    const unsigned char *x, *z;
    unsigned char *out;
    double a, alpha;

    // At: the index of a site, or SitesAtOnce (fields/spinor_lanes.h).
    template <class At>
    MILCGPU_HD_ONCE typename SumsOf<Real>::template Sites<1> operator()(size_t stride, At i, Vec d,
                                                                        StoredSpinor<Spinor> &made) const {
        typename SumsOf<Real>::One sum = 0;
        if (epilogue != Epilogue::plain) {
            const Vec own = load_spinor<Spinor, Reuse::written>(x, stride, i);
            d = static_cast<Real>(a) * own - d;
            sum = real_dot(own, d);
            if (epilogue == Epilogue::residual)
                d = load_spinor<Spinor, Reuse::written>(z, stride, i) - static_cast<Real>(alpha) * d;
        }
        made = store_spinor<Spinor>(out, stride, i, d);
        return {{epilogue == Epilogue::normal ? sum : norm(d)}};
    }
    // As above for source k, whose fields start k times `bytes` later.
    MILCGPU_HD Ending of_source(int, size_t bytes) const {
        return {epilogue, x + bytes, z + bytes, out + bytes, a, alpha};
    }
};

// known: the scalars are finished already, so nothing waits for them.
template <class Spinor, class Where, bool known = false> struct StepEnding {
    static constexpr unsigned polls = std::is_same<Where, Lattice>::value ? most_polls : most_polls_with_ranks;
    using Vec = Vector<typename Spinor::Real>;
    using Real = typename Spinor::Real;
    static constexpr int sums = 2;

    const unsigned char *x, *r;
    unsigned char *r_new, *s;
    const CgState *cg;

    template <class At>
    MILCGPU_HD_ONCE typename SumsOf<Real>::template Sites<2> operator()(size_t stride, At i, const Vec &d,
                                                                        StoredSpinor<Spinor> &made) const {
        const Vec old = load_spinor<Spinor, Reuse::written>(r, stride, i);
        const Vec given = x == r ? old : load_spinor<Spinor, Reuse::written>(x, stride, i);
        Vec image = static_cast<Real>(cg->shift) * given - d;
        if (x == r)
            image = image + static_cast<Real>(get(cg->carry)) * load_spinor<Spinor, Reuse::written>(s, stride, i);
        store_spinor<Spinor>(s, stride, i, image);
        const Vec fresh = old - static_cast<Real>(get(cg->alpha)) * image;
        made = store_spinor<Spinor>(r_new, stride, i, fresh);
        return {{norm(fresh), real_dot(fresh, image)}};
    }
    MILCGPU_HD StepEnding of_source(int k, size_t bytes) const {
        return {x + bytes, r + bytes, r_new + bytes, s + bytes, cg + k};
    }

  private:
    MILCGPU_HD static double get(const double &scalar) {
        if constexpr (known)
            return scalar;
        else
            return await<polls>(scalar);
    }
};

struct SumFinish {
    double *sum;
    CgState *cg;
    bool along_p;
    MILCGPU_HD bool wanted() const { return sum != nullptr || cg != nullptr; }
    MILCGPU_HD void operator()(const Sums<1> &total) const {
        if (sum != nullptr)
            *sum = total.v[0];
        if (cg != nullptr && along_p)
            cg->set_step_along_p(total.v[0]);
        else if (cg != nullptr)
            cg->set_step_along_r(total.v[0]);
    }
};

struct StepFinish : Finish {
    CgState *cg;
    bool check_convergence;
    MILCGPU_HD void operator()(const Sums<2> &total) const {
        cg->rr_new = total.v[0];
        cg->cross = total.v[1];
        cg->record();
        if (check_convergence)
            cg->check_convergence();
    }
};

// Calls start(ending, finish, pending) for a launch over one source. Where: the type of the lattice. sites_before: the
// number of sites of the launch whose sum is pending.
template <class Spinor, class Where, class Start>
void with_ending(const Device &device, const HalfCall &call, Epilogue epilogue, int sites_before, const Start &start) {
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.check_convergence};
    const ReduceShape before(sites_before);
    if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg}, step,
              Pending<1, SumFinish>{{reinterpret_cast<Sums<1> *>(call.pending), before, queue_of(device).waits()},
                                    plain});
    else
        start(Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha}, plain,
              Pending<2, StepFinish>{{reinterpret_cast<Sums<2> *>(call.pending), before, queue_of(device).waits()},
                                     step});
}

} // namespace milcgpu
