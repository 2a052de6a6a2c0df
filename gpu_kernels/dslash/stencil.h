// The stencil of dslash.h, once. A translation unit a precision (double.cu, single.cu, half.cu) instantiates it for its
// spinor format, all link precisions and all reconstructions, with its own launch shape.
//
// One thread a site (four on small lattices, one a direction). Each link is read once in a launch (streaming loads);
// each spinor up to 16 times, through the caches: consecutive sites of a stripe keep all loads coalesced, and the
// t-planes that
// +-3 hops reach fit in L2.
#pragma once
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/dslash/dslash.h"
#include "gpu_kernels/su3/reconstruct.h"

namespace milcgpu {

template <class Spinor, Precision link, int reals, Reuse of_links = Reuse::stream> struct Stencil {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;

    Lattice lattice;
    int parity;
    Epilogue epilogue;
    size_t stride; // of the spinors
    size_t link_stride;
    const unsigned char *in, *x, *z;
    unsigned char *out;
    const unsigned char *fat, *lng; // block (parity 0, mu 0)
    Real fat_scale, long_scale;
    double a, alpha;
    const CgState *cg;

    static constexpr size_t fat_bytes = link_bytes(link, 18), long_bytes = link_bytes(link, reals);

    MILCGPU_HD auto fat_link(int p, int mu, int i) const {
        return LongLink<link, 18>(
            load_link<link, 18, of_links>(fat + (p * 4 + mu) * link_stride * fat_bytes, link_stride, i));
    }
    MILCGPU_HD auto long_link(int p, int mu, int i) const {
        return LongLink<link, reals>(
            load_link<link, reals, of_links>(lng + (p * 4 + mu) * link_stride * long_bytes, link_stride, i));
    }

    // Fat and long sums of a site, of all directions or of some.
    struct Part {
        Vec fat, lng;
        MILCGPU_HD Part operator+(const Part &o) const { return {fat + o.fat, lng + o.lng}; }
    };

    MILCGPU_HD void add_direction(Part &sum, const Site &site, int mu, int i) const {
        const int forward = lattice.forward(site, mu, 1), backward = lattice.backward(site, mu, 1);
        fat_link(parity, mu, i).add_forward(sum.fat, load_spinor<Spinor>(in, stride, forward));
        fat_link(1 - parity, mu, backward).subtract_backward(sum.fat, load_spinor<Spinor>(in, stride, backward));
        const int hops = lattice.third_hop[mu];
        const int forward3 = lattice.forward(site, mu, hops), backward3 = lattice.backward(site, mu, hops);
        long_link(parity, mu, i).add_forward(sum.lng, load_spinor<Spinor>(in, stride, forward3));
        long_link(1 - parity, mu, backward3).subtract_backward(sum.lng, load_spinor<Spinor>(in, stride, backward3));
    }

    MILCGPU_HD Part part(int i, int mu) const {
        Site site = lattice.site(parity, i);
        Part sum = {};
        add_direction(sum, site, mu, i);
        return sum;
    }

    MILCGPU_HD Sums<1> operator()(int i) const {
        const Site site = lattice.site(parity, i);
        Part sum = {};
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            add_direction(sum, site, mu, i);
        return complete(i, sum);
    }

    MILCGPU_HD Sums<1> complete(int i, const Part &part) const {
        Vec d = fat_scale * part.fat + long_scale * part.lng;
        double sum;
        if (epilogue == Epilogue::plain) {
            sum = norm(d);
        } else {
            const Real shift = static_cast<Real>(cg != nullptr ? cg->shift : a);
            const Vec own = load_spinor<Spinor>(x, stride, i);
            d = shift * own - d;
            if (epilogue == Epilogue::residual) {
                const Real step = static_cast<Real>(cg != nullptr ? cg->alpha : alpha);
                d = load_spinor<Spinor, Reuse::written>(z, stride, i) - step * d;
                sum = norm(d);
            } else {
                sum = real_dot(own, d);
            }
        }
        store_spinor<Spinor>(out, stride, i, d);
        return {{sum}};
    }
};

struct StencilFinish {
    Epilogue epilogue;
    double *sum;
    CgState *cg;
    MILCGPU_HD bool wanted() const { return sum != nullptr || cg != nullptr; }
    MILCGPU_HD void operator()(const Sums<1> &total) const {
        if (sum != nullptr)
            *sum = total.v[0];
        if (cg == nullptr)
            return;
        if (epilogue == Epilogue::residual) {
            cg->rr_new = total.v[0];
        } else { // out = D p, so <p, A p> = shift |p|^2 + |out|^2 because D is anti-hermitian
            cg->curvature = cg->shift * cg->pp + total.v[0];
            cg->alpha = cg->rr / cg->curvature;
        }
    }
};

template <class Body>
void fill_links(Body &body, const Lattice &lattice, int parity, const LinkField &fat, const LinkField &lng) {
    body.lattice = lattice;
    body.parity = parity;
    body.link_stride = fat.stride();
    body.fat = fat.block(0, 0);
    body.lng = lng.block(0, 0);
    body.fat_scale = static_cast<typename Body::Real>(fat.scale);
    body.long_scale = static_cast<typename Body::Real>(lng.scale);
}

// min_blocks, block: see launch_sum.
template <class Spinor, Precision link, int reals, int min_blocks, int block>
void launch_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    Stencil<Spinor, link, reals> body{};
    fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
    body.epilogue = epilogue;
    body.stride = call.in->stride();
    body.in = call.in->data();
    body.x = call.x != nullptr ? call.x->data() : nullptr;
    body.z = call.z != nullptr ? call.z->data() : nullptr;
    body.out = call.out->data();
    body.a = call.a;
    body.alpha = call.alpha;
    body.cg = call.cg;
    launch_sum_in_parts<1, min_blocks>(device, call.lattice.sites(call.parity), body,
                                       StencilFinish{epilogue, call.sum, call.cg},
                                       call.cg != nullptr ? &call.cg->active : nullptr, "launch dslash", block);
}

// Several fields at once, each in a conjugate gradient of its own.
template <class Spinor, Precision link, int reals> struct BatchStencil {
    Stencil<Spinor, link, reals, Reuse::keep> one; // links are read once a field, from L1 after the first
    const unsigned char *in[max_shifts], *x[max_shifts];
    unsigned char *out[max_shifts];
    const CgState *cg;
    MILCGPU_HD bool active(int field) const { return cg[field].active != 0; }
    MILCGPU_HD Sums<1> operator()(int i, int field) const {
        auto body = one;
        body.in = in[field], body.x = x[field], body.z = body.out = out[field];
        body.cg = cg + field;
        return body(i);
    }
};

struct BatchStencilFinish {
    Epilogue epilogue;
    CgState *cg;
    MILCGPU_HD void operator()(const Sums<1> &total, int field) const {
        StencilFinish{epilogue, nullptr, cg + field}(total);
    }
};

template <class Spinor, Precision link, int reals, int min_blocks>
void launch_batch_stencil(Device &device, const DslashBatchCall &call, Epilogue epilogue) {
    BatchStencil<Spinor, link, reals> body{};
    fill_links(body.one, call.lattice, call.parity, *call.fat, *call.lng);
    body.one.epilogue = epilogue;
    body.one.stride = call.in[0].stride();
    body.cg = call.cg;
    for (int k = 0; k < call.count; ++k) {
        body.in[k] = call.in[k].data(), body.out[k] = call.out[k].data();
        body.x[k] = call.x != nullptr ? call.x[k].data() : nullptr;
    }
    launch_sum_batch<1, min_blocks>(device, call.lattice.sites(call.parity), call.count, body,
                                    BatchStencilFinish{epilogue, call.cg}, "launch batch dslash");
}

template <class Spinor, Precision link, int min_blocks>
void add_batch_rows(std::vector<DslashBatchKernel> &table, const char *file) {
    constexpr Precision spinor = Spinor::precision;
    table.push_back({spinor, link, 18, launch_batch_stencil<Spinor, link, 18, min_blocks>, file});
    table.push_back({spinor, link, 13, launch_batch_stencil<Spinor, link, 13, min_blocks>, file});
    table.push_back({spinor, link, 12, launch_batch_stencil<Spinor, link, 12, min_blocks>, file});
    table.push_back({spinor, link, 9, launch_batch_stencil<Spinor, link, 9, min_blocks>, file});
    table.push_back({spinor, link, 8, launch_batch_stencil<Spinor, link, 8, min_blocks>, file});
}

// The rows of one spinor precision: 3 link precisions x 5 reconstructions x 3 epilogues.
template <class Spinor, Precision link, int min_blocks, int block>
void add_rows(std::vector<DslashKernel> &table, const char *file) {
    constexpr Precision spinor = Spinor::precision;
    for (const Epilogue epilogue : {Epilogue::plain, Epilogue::normal, Epilogue::residual}) {
        table.push_back({spinor, link, 18, epilogue, launch_stencil<Spinor, link, 18, min_blocks, block>, file});
        table.push_back({spinor, link, 13, epilogue, launch_stencil<Spinor, link, 13, min_blocks, block>, file});
        table.push_back({spinor, link, 12, epilogue, launch_stencil<Spinor, link, 12, min_blocks, block>, file});
        table.push_back({spinor, link, 9, epilogue, launch_stencil<Spinor, link, 9, min_blocks, block>, file});
        table.push_back({spinor, link, 8, epilogue, launch_stencil<Spinor, link, 8, min_blocks, block>, file});
    }
}

} // namespace milcgpu
