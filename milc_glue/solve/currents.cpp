#include "milc_glue/solve/currents.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/algebra/dense.h"
#include "milc_glue/api/arguments.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/vectors.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/measure/meson_links_handle.h"
#include "milc_glue/solve/eigen_handle.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

namespace {

using Number = Complex<double>;
constexpr const char *owner = "a current";
constexpr int directions = 4, together = 16; // eigenvectors that are projected out at once
constexpr int origin[4] = {0, 0, 0, 0};

FullVectors all_of(const milcgpu_vectors &vectors) { return {vectors.parity[0], vectors.parity[1]}; }

// J of fields, summed over time slices and the ranks.
class Currents {
  public:
    Currents(milcgpu_meson_links &links, int fields) : links_(links) {
        Device &device = links.device();
        Momentum zero{};
        for (MomentumParity &parity : zero.parity)
            parity = static_cast<MomentumParity>(MILCGPU_EVEN_AND_ODD);
        device.collective("memory for currents", [&] {
            numbers_ = {device, static_cast<size_t>(links.geometry().volume()), owner};
            sums_ = std::make_unique<SliceSums>(device, links.geometry(), std::vector<Momentum>{zero}, origin,
                                                fields * directions);
        });
        for (int mu = 0; mu < directions; ++mu) {
            SpinTaste op;
            op.kind = SpinTaste::Kind::forward, op.direction = mu;
            what_[mu] = neighbours_of(links, op, origin, nullptr);
            what_[mu].sign = phases_of(mu, origin);
        }
    }
    // a^dag U b of all vectors together: field k.
    void add(int field, const FullVectors &a, const FullVectors &b) {
        const AroundVectors around(links_.device(), links_.halo(), links_.box, b, {{1, 1, 1, 1}, false});
        for (int mu = 0; mu < directions; ++mu) {
            dot_neighbours(links_.device(), links_.box, what_[mu], around.vectors(), a, {true, false, 1},
                           numbers_.data());
            sums_->sum(field * directions + mu, numbers_.data());
        }
    }
    // Adds to `to` the sums over sites of each parity, times on(parity) of each field. `to` has T numbers for each
    // field and direction.
    template <class On> void take(int fields, const On &on, std::vector<double> &to) const {
        const Geometry &geometry = links_.geometry();
        const int n_t = geometry.lattice().extent[3], begin = geometry.origin()[3], all_t = links_.extent(3);
        std::vector<Number> found;
        links_.device().collective("sums of currents", [&] { found = sums_->to_host(); });
        for (int field = 0; field < fields * directions; ++field)
            for (unsigned k = 0; k < SliceSums::classes; ++k)
                for (int t = 0; t < n_t; ++t) {
                    const int parity = (k ^ k >> 1 ^ k >> 2 ^ static_cast<unsigned>(begin + t)) & 1;
                    to[size_t(field) * all_t + begin + t] +=
                        on(parity) * found[(size_t(field) * SliceSums::classes + k) * n_t + t].im;
                }
    }

  private:
    milcgpu_meson_links &links_;
    DeviceArray<Number> numbers_;
    std::unique_ptr<SliceSums> sums_;
    Neighbours what_[directions];
};

void hand_over(milcgpu_meson_links &links, std::vector<double> &found, double *sums) {
    links.look_at_used();
    links.device().add_over_ranks(found.data(), static_cast<int>(found.size()));
    for (const double number : found)
        if (!std::isfinite(number))
            throw Error(Status::nan_or_inf, "a current is NaN or infinite: check sources and links");
    std::copy(found.begin(), found.end(), sums);
}

// x -= v_j <v_j, x> for all j, the last first. normalize: with v_j / |v_j|.
void project_each(Device &device, const SpinorBlock &v, bool normalize, const SpinorBlock &x) {
    const int n = v.sources;
    const std::vector<Number> g = gram_over_ranks(device, v, v);
    for (int first = 0; first < x.sources; first += most_dense) {
        const SpinorBlock some = x.from(first).first(std::min(most_dense, x.sources - first));
        const int m = some.sources;
        std::vector<Number> c = gram_over_ranks(device, v, some);
        for (int j = n - 1; j >= 0; --j)
            for (int s = 0; s < m; ++s) {
                Number &own = c[j * m + s]; // <v_j, x> here; becomes the factor of v_j
                for (int k = j + 1; k < n; ++k)
                    own = own + g[j * n + k] * c[k * m + s];
                const double size = normalize ? g[j * n + j].re : 1;
                own = (size > 0 ? -1 / size : 0.0) * own;
            }
        DeviceArray<Number> there;
        device.collective("memory for a projection", [&] { there = {device, c.size(), owner}; });
        device.copy_to_device(there.data(), c.data(), there.bytes());
        block_axpy(device, v, there.data(), some, some);
    }
}

} // namespace

milcgpu_status milcgpu::thinned_sources(milcgpu_vectors *to, int n, const milcgpu_field *random, int step) {
    constexpr const char *function = "thinned sources";
    return guarded(to != nullptr ? to->context : nullptr, function, [&] {
        require(to, function, "vectors");
        milcgpu_context &context = *to->context;
        const Precision precision = to->parity[0].precision();
        const int each = n > 0 ? to->count() / n : 0;
        SpinorField field[2];
        for (const int parity : {0, 1})
            begin_filling(*to, 0, to->count(), parity);
        context.device->collective("memory for thinned sources", [&] {
            if (n < 1 || each * n != to->count())
                refuse(format("%d vectors for %d random fields, which are thinned to %d vectors each", to->count(), n,
                              each));
            for (const int parity : {0, 1})
                field[parity] = {*context.device, precision, context.geometry, parity, owner};
        });
        for (int k = 0; k < n; ++k)
            context.device->collective("the loading of a random field", [&] {
                const HostField host = host_field(&random[k], 6, "a random field");
                for (const int parity : {0, 1})
                    context.reorder->to_device(host, parity, field[parity]);
                thin_sources(*context.device, context.geometry, {field[0], field[1]}, step,
                             all_of(*to).from(k * each).first(each));
            });
        for (const int parity : {0, 1})
            now_filled(*to, 0, to->count(), parity, true);
        return Status::ok;
    });
}

milcgpu_status milcgpu::zero_vectors(milcgpu_vectors *x, int parity) {
    return guarded(x != nullptr ? x->context : nullptr, "zero vectors", [&] {
        require(x, "zero vectors", "vectors");
        const int on = parity_index(parity);
        begin_filling(*x, 0, x->count(), on);
        x->context->device->fill_zero(x->parity[on].data(), x->parity[on].bytes());
        now_filled(*x, 0, x->count(), on, true);
        return Status::ok;
    });
}

milcgpu_status milcgpu::project_out(milcgpu_eigenvectors *vectors, milcgpu_links *links, const milcgpu_field *fields,
                                    milcgpu_vectors *x) {
    constexpr const char *function = "the projection of sources";
    return with_links(links, function, [&](milcgpu_context &context) {
        require(vectors, function, "eigenvectors"), require(x, function, "vectors");
        Device &device = *context.device;
        const int count = milcgpu_eigenvectors_count(vectors);
        Operator A;
        SpinorField v, other, scratch[2];
        device.collective(function, [&] {
            if (count == 0)
                refuse(empty_eigenvectors);
            for (const int parity : {0, 1})
                need_filled(*x, 0, x->count(), parity);
            A = full_operator(*links, vectors->set->parity());
            v = A->vectors(device, owner, together), other = A->between(device, owner, together);
            if (x->parity[0].precision() != Precision::double_)
                for (const int parity : {0, 1})
                    scratch[parity] = {device, Precision::double_, context.geometry, parity, owner, x->count()};
        });
        const int own = A->parity();
        const auto converted = [&](bool back) {
            for (const int parity : {0, 1})
                for (int k = 0; k < x->count(); ++k)
                    convert_spinor(device, back ? scratch[parity][k] : x->parity[parity][k],
                                   back ? x->parity[parity][k] : scratch[parity][k], 1, nullptr);
        };
        const bool in_double = scratch[0].bytes() == 0;
        const SpinorBlock of[2] = {in_double ? x->parity[0].block() : scratch[0].block(),
                                   in_double ? x->parity[1].block() : scratch[1].block()};
        for (const int parity : {0, 1})
            begin_filling(*x, 0, x->count(), parity);
        if (!in_double)
            converted(false);
        for (int first = (count - 1) / together * together; first >= 0; first -= together) {
            const int n = std::min(together, count - first);
            for (int k = 0; k < n; ++k)
                convert_spinor(device, (*vectors->set)[first + k], v[k], 1, nullptr);
            project_each(device, v.block().first(n), false, of[own]);
            if (fields != nullptr) {
                device.collective("the loading of eigenvectors", [&] {
                    for (int k = 0; k < n; ++k)
                        context.reorder->to_device(host_field(&fields[first + k], 6, "an eigenvector"), 1 - own,
                                                   other[k]);
                });
            } else {
                HalfCall call;
                call.in = v.block().first(n), call.out = other.block().first(n);
                A->apply_half(device, call, Epilogue::plain);
            }
            project_each(device, other.block().first(n), fields == nullptr, of[1 - own]);
        }
        if (fields == nullptr) {
            const std::function<void()> empty = emptying(*links);
            Verification(context, empty).holds(A->checked_regions());
        }
        if (!in_double)
            converted(true);
        device.collective(function, [&] {
            for (const int parity : {0, 1})
                for (int k = 0; k < x->count(); ++k)
                    require_finite(device, x->parity[parity][k], x->context->geometry, parity, "a projected source");
            for (const int parity : {0, 1})
                now_filled(*x, 0, x->count(), parity, true);
        });
        return Status::ok;
    });
}

milcgpu_status milcgpu::current_sums(milcgpu_meson_links *links, milcgpu_links *fermion, int parity, int groups,
                                     milcgpu_vectors *sources, milcgpu_vectors *solutions, double *sums) {
    constexpr const char *function = "sums of currents";
    const int n = sources->count(), other = MILCGPU_EVEN + MILCGPU_ODD - parity;
    for (int k = 0; k < n; ++k)
        if (const milcgpu_status status = milcgpu_vectors_dslash(solutions, k, fermion, other))
            return status;
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        const int on = parity_index(parity), each = n / groups;
        l.device().collective(function, [&] {
            need_links(l);
            need_filled(*sources, 0, n, on, "sources");
            need_filled(*solutions, 0, n, 1 - on, "solutions");
        });
        Currents currents(l, groups);
        for (int k = 0; k < groups; ++k)
            currents.add(k, all_of(*sources).from(k * each).first(each), all_of(*solutions).from(k * each).first(each));
        std::vector<double> found(size_t(groups) * directions * l.extent(3));
        currents.take(
            groups, [&](int of) { return of == on ? 1.0 : 0.0; }, found);
        hand_over(l, found, sums);
        return [n] { return format("currents of %d sources", n); };
    });
}

milcgpu_status milcgpu::low_mode_currents(milcgpu_meson_links *links, milcgpu_links *fermion,
                                          milcgpu_eigenvectors *vectors, int N, int n_weights, const double *weights,
                                          double *sums) {
    constexpr const char *function = "currents of eigenvectors";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        Device &device = l.device();
        require(vectors, function, "eigenvectors"), require(fermion, function, "the links");
        SpinorField v[2], in_double[2];
        Operator A;
        device.collective(function, [&] {
            need_links(l);
            if (milcgpu_eigenvectors_count(vectors) < N || vectors->set->parity() != 0)
                refuse(format("%d eigenvectors of even sites: there are %d, on %s sites", N,
                              milcgpu_eigenvectors_count(vectors), vectors->set->parity() == 0 ? "even" : "odd"));
            A = full_operator(*fermion, 0);
            in_double[0] = A->vectors(device, owner), in_double[1] = A->between(device, owner);
            if (l.precision != Precision::double_)
                for (const int parity : {0, 1})
                    v[parity] = {device, l.precision, l.geometry(), parity, owner};
        });
        Currents currents(l, 1);
        const size_t numbers = size_t(directions) * l.extent(3);
        std::vector<double> found(n_weights * numbers), one(numbers);
        for (int k = 0; k < N; ++k) {
            convert_spinor(device, (*vectors->set)[k], in_double[0], 1, nullptr);
            HalfCall call;
            call.in = in_double[0], call.out = in_double[1];
            A->apply_half(device, call, Epilogue::plain);
            FullVectors both{in_double[0], in_double[1]};
            if (l.precision != Precision::double_) {
                for (const int parity : {0, 1})
                    convert_spinor(device, in_double[parity], v[parity], 1, nullptr);
                both = {v[0], v[1]};
            }
            currents.add(0, both, both);
            std::fill(one.begin(), one.end(), 0.0);
            currents.take(
                1, [](int parity) { return parity == 0 ? -1.0 : 1.0; }, one);
            for (int w = 0; w < n_weights; ++w)
                for (size_t i = 0; i < numbers; ++i)
                    found[w * numbers + i] += weights[size_t(w) * N + k] * one[i];
        }
        hand_over(l, found, sums);
        return [N] { return format("currents of %d eigenvectors", N); };
    });
}
