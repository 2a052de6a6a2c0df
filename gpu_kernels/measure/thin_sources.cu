// Thinned sources of quark_operators.h: one thread a site and output vector. Bytes a site: one vector read and
// `vectors` written.
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/measure/quark_operators.h"

namespace milcgpu {

namespace {

template <class S> struct ThinSources {
    Lattice lattice;
    SitesAndParts work;
    const unsigned char *from[2];
    unsigned char *to[2];
    size_t from_stride, to_stride, source_bytes;
    int origin[4], step;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = lattice.site(item.parity, item.i);
        int place = 0;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            place = place * step + (x.x[mu] + origin[mu]) % step;
        Vector<typename S::Real> v = {};
        if (place >> 1 == item.part)
            v = load_spinor<S>(from[item.parity], from_stride, item.i);
        store_spinor<S>(to[item.parity] + item.part * source_bytes, to_stride, item.i, v);
    }
};

} // namespace

void thin_sources(Device &device, const Geometry &box, const FullVectors &from, int step, const FullVectors &to) {
    const int vectors = step * step * step * step / 2;
    if (step < 2 || step % 2 != 0 || to.sources() != vectors || from.sources() != 1 ||
        from.even.precision != to.even.precision || from.even.precision == Precision::half)
        throw Error(Status::bad_argument,
                    format("thinned sources: the step %d must be even, with %d vectors made, of one precision that is "
                           "double or single",
                           step, vectors));
    const SitesAndParts work(box, vectors);
    const auto run = [&](auto spinor) {
        ThinSources<decltype(spinor)> body{box.lattice(),
                                           work,
                                           {from.even.data, from.odd.data},
                                           {to.even.data, to.odd.data},
                                           from.even.stride,
                                           to.even.stride,
                                           to.even.source_bytes,
                                           {},
                                           step};
        for (int mu = 0; mu < 4; ++mu)
            body.origin[mu] = box.origin()[mu];
        launch(device, work.threads(), body, "thinned sources");
    };
    from.even.precision == Precision::double_ ? run(SpinorDouble()) : run(SpinorSingle());
}

} // namespace milcgpu
