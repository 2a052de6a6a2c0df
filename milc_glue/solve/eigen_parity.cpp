// Eigenvectors on the other parity: D v / |D v|.
#include "gpu_kernels/machine/backend/on_all_ranks.h"
#include "milc_glue/api/arguments.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/staggered_family.h"
#include <cmath>

using namespace milcgpu;

namespace {

constexpr const char *owner = "an eigenvector";

// Vectors of one parity in double.
struct Side {
    Operator of;
    int most; // vectors at once
    VectorLook v;
    Side(Device &device, milcgpu_links &links, int parity, int at_once)
        : of(full_operator(links, parity)), most(at_once), v(device, *of, at_once) {}
    // Copies the vectors from number `first` on, as many as there is room for. Returns how many.
    int take(Device &device, const Eigenvectors &set, int first, int count) const {
        const int n = std::min(most, count - first);
        for (int k = 0; k < n; ++k)
            convert_spinor(device, set[first + k], v[k], 1, nullptr);
        return n;
    }
    // to = D v, for as many vectors as `to` has
    void half(Device &device, const SpinorBlock &to) const {
        for (int k = 0, several = of->takes_several() ? to.sources : 1; k < to.sources; k += several) {
            HalfCall call;
            call.in = v.first(to.sources).from(k).first(several), call.out = to.from(k).first(several);
            of->apply_half(device, call, Epilogue::plain);
        }
    }
};

double size_of(Device &device, const SpinorBlock &of) {
    const auto sum =
        made_on_all_ranks(device, "memory for a norm", [&] { return DeviceArray<double>(device, 1, owner); });
    norm_squared(device, of, sum.data());
    return std::sqrt(sum.to_host()[0]);
}

// The number of vectors; throws if there are too few.
int need_vectors(const milcgpu_eigenvectors *vectors, int count, const char *function) {
    require(vectors, function, "eigenvectors");
    const int there = milcgpu_eigenvectors_count(vectors);
    if (there < count)
        refuse(format("%d eigenvectors are requested, but there are %d", count, there));
    return there;
}

// Throws Error(corrupted) if the links are no longer what was loaded.
void verify(const NormalOperator &A, milcgpu_links &links) {
    const std::function<void()> empty = emptying(links);
    Verification(*links.context, empty).holds(A.checked_regions());
}

} // namespace

milcgpu_status milcgpu::look_at_eigenvectors(milcgpu_eigenvectors *vectors, milcgpu_links *links,
                                             milcgpu_links *links_of_other, int parity, int count, const double *values,
                                             double *residuals, double *norms) {
    constexpr const char *function = "a check of eigenvectors";
    return with_links(links, function, [&](milcgpu_context &context) {
        need_vectors(vectors, count, function);
        if (parity_index(parity) != vectors->set->parity())
            require(links_of_other, function, "links of the other parity");
        Device &device = *context.device;
        const int own = vectors->set->parity(), wanted = parity_index(parity);
        std::unique_ptr<Side> from, at;
        device.collective("memory for an eigenvector", [&] {
            at = std::make_unique<Side>(device, *links, wanted, VectorLook::together);
            if (wanted != own)
                from = std::make_unique<Side>(device, *links_of_other, own, VectorLook::together);
        });
        for (int first = 0, n = 0; first < count; first += n) {
            n = (from != nullptr ? from : at)->take(device, *vectors->set, first, count);
            if (from != nullptr)
                from->half(device, at->v.first(n));
            const std::vector<VectorLook::Seen> seen = at->v.at(*at->of, n, values + first);
            for (int k = 0; k < n; ++k) {
                residuals[first + k] = seen[k].residual;
                norms[first + k] = from != nullptr ? 1 : seen[k].norm;
            }
        }
        return Status::ok;
    });
}

milcgpu_status milcgpu::other_parity_of(milcgpu_eigenvectors *vectors, milcgpu_links *links,
                                        milcgpu_eigenvectors **made) {
    constexpr const char *function = "eigenvectors of the other parity";
    return with_links(links, function, [&](milcgpu_context &context) {
        const int count = need_vectors(vectors, 1, function);
        Device &device = *context.device;
        std::unique_ptr<Side> from, to;
        std::unique_ptr<milcgpu_eigenvectors> other(new milcgpu_eigenvectors{&context, {}, {}, 0, {}, {}});
        device.collective("memory for eigenvectors", [&] {
            from = std::make_unique<Side>(device, *links, vectors->set->parity(), 1);
            to = std::make_unique<Side>(device, *links, 1 - vectors->set->parity(), 1);
            other->set = std::make_unique<Eigenvectors>(device, *to->of, vectors->set->precision(), count);
        });
        for (int k = 0; k < count; ++k) {
            convert_spinor(device, (*vectors->set)[k], from->v[0], 1, nullptr);
            from->half(device, to->v[0]);
            other->set->load(k, to->v[0], *to->of);
            other->set->take_checksum(k);
        }
        other->set->free_scratch();
        other->set->links = links->links->tag();
        other->none = vectors->none;
        other->loaded.assign(count, true);
        verify(*from->of, *links);
        *made = other.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu::other_parity_to_host(milcgpu_eigenvectors *vectors, milcgpu_links *links, int count,
                                             const milcgpu_field *fields) {
    constexpr const char *function = "eigenvectors of the other parity";
    return with_links(links, function, [&](milcgpu_context &context) {
        need_vectors(vectors, count, function);
        Device &device = *context.device;
        std::unique_ptr<Side> from, to;
        SpinorField scaled;
        device.collective("memory for eigenvectors", [&] {
            from = std::make_unique<Side>(device, *links, vectors->set->parity(), 1);
            to = std::make_unique<Side>(device, *links, 1 - vectors->set->parity(), 1);
            scaled = to->of->vectors(device, owner);
        });
        for (int k = 0; k < count; ++k) {
            convert_spinor(device, (*vectors->set)[k], from->v[0], 1, nullptr);
            from->half(device, to->v[0]);
            const double size = size_of(device, to->v[0]);
            device.collective("the copy of an eigenvector", [&] {
                if (!std::isfinite(size))
                    throw Error(Status::nan_or_inf, format("D of eigenvector %d has the norm %g", k, size));
                convert_spinor(device, to->v[0], scaled, size > 0 ? 1 / size : 0, nullptr); // 0: as MILC has it
                context.reorder->to_host(scaled, 1 - vectors->set->parity(), host_field(&fields[k], 6, "a field"));
            });
        }
        verify(*from->of, *links);
        return Status::ok;
    });
}
