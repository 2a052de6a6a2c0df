// The C interface to vectors that stay on the device.
#include "milc_glue/links/vectors.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/links_handle.h"
#include <cmath>

using namespace milcgpu;

void milcgpu::need_vectors(const milcgpu_vectors &vectors, int first, int count, const char *what) {
    if (first < 0 || count < 0 || first > vectors.count() - count)
        refuse(format("%s: %s: this set has vectors 0 to %d", what,
                      count == 1 ? format("there is no vector %d", first).c_str()
                                 : format("vectors %d to %lld", first, first + (long long)count - 1).c_str(),
                      vectors.count() - 1));
}

namespace {

uint64_t checksum_of(const milcgpu_vectors &vectors, int index, int parity) {
    const SpinorBlock vector = vectors.parity[parity][index];
    return checksum(vectors.scratch, vector.data, vector.bytes());
}

const char *sites_of(int parity) { return parity == 0 ? "even" : "odd"; }

[[noreturn]] void refuse_changed(const milcgpu_vectors &vectors, int k, int parity) {
    vectors.filled[parity][k] = false;
    throw Error(Status::corrupted, format("vector %d on %s sites is no longer what was put there: a bit flipped, or "
                                          "other code wrote there. It is empty now: fill it again",
                                          k, sites_of(parity)));
}

} // namespace

void milcgpu::need_content(const milcgpu_vectors &vectors, int first, int count, int parity, const char *what) {
    need_vectors(vectors, first, count, what);
    for (int k = first; k < first + count; ++k)
        if (!vectors.filled[parity][k])
            refuse(format("%s: vector %d is empty on %s sites: load it, or solve into it first", what, k,
                          sites_of(parity)));
}

void milcgpu::need_filled(const milcgpu_vectors &vectors, int first, int count, int parity, const char *what) {
    need_content(vectors, first, count, parity, what);
    for (int k = first; k < first + count; ++k) {
        const std::optional<uint64_t> &sum = vectors.sums[parity][k];
        if (sum && *sum != checksum_of(vectors, k, parity))
            refuse_changed(vectors, k, parity);
    }
}

void milcgpu::need_filled(Device &device, const std::set<std::pair<milcgpu_vectors *, int>> &vectors,
                          const char *what) {
    std::vector<Region> regions;
    for (const auto &[of, k] : vectors)
        for (const int parity : {0, 1}) {
            need_content(*of, k, 1, parity, what);
            if (of->sums[parity][k])
                regions.push_back({of->parity[parity][k].data, of->parity[parity][k].bytes(), 0, ""});
        }
    if (regions.empty())
        return;
    const DeviceArray<uint64_t> on_device(device, regions.size(), "checksums");
    device.fill_zero(on_device.data(), on_device.bytes());
    take_checksums(device, regions.data(), static_cast<int>(regions.size()), on_device.data());
    const std::vector<uint64_t> found = on_device.to_host();
    auto sum = found.begin();
    for (const auto &[of, k] : vectors)
        for (const int parity : {0, 1})
            if (of->sums[parity][k] && *of->sums[parity][k] != *sum++)
                refuse_changed(*of, k, parity);
}

void milcgpu::begin_filling(milcgpu_vectors &vectors, int first, int count, int parity) {
    for (int k = first; k < first + count; ++k) {
        vectors.filled[parity][k] = false;
        vectors.sums[parity][k].reset();
        vectors.behind[parity][k] = false, vectors.behind[1 - parity][k] = true;
        vectors.ahead.drop(k, 1 - parity);
    }
}

void milcgpu::now_filled(milcgpu_vectors &vectors, int first, int count, int parity, bool with_sums) {
    vectors.context->device->synchronize(); // an error belongs to this call
    for (int k = first; k < first + count; ++k) {
        if (with_sums && vectors.context->verify)
            vectors.sums[parity][k] = checksum_of(vectors, k, parity);
        vectors.filled[parity][k] = true;
    }
}

void milcgpu::with_new_ghosts(const milcgpu_vectors &vectors, int count, const std::function<void()> &work) {
    if (!vectors.context->geometry.is_cut())
        return work();
    std::vector<std::pair<int, int>> with_sums; // parity and index
    for (const int parity : {0, 1})
        for (int k = 0; k < count; ++k)
            if (vectors.sums[parity][k]) {
                with_sums.push_back({parity, k});
                vectors.sums[parity][k].reset();
            }
    work();
    for (const auto &[parity, k] : with_sums)
        vectors.sums[parity][k] = checksum_of(vectors, k, parity);
}

VectorPlace::VectorPlace(const milcgpu_context *context, const milcgpu_vector &vector, const char *what)
    : vectors_(vector.of), index_(vector.index) {
    require(vectors_, what, "the vectors");
    if (vectors_->context != context)
        refuse(format("%s: the vectors belong to another context than the call", what));
    need_vectors(*vectors_, index_, 1, what);
}

void VectorPlace::read(milcgpu_context &context, int parity, const SpinorBlock &to) const {
    if (vectors_ == nullptr)
        return context.reorder->to_device(host_, parity, to);
    need_filled(*vectors_, index_, 1, parity);
    convert_spinor(*context.device, vectors_->parity[parity][index_], to, 1, nullptr);
}

bool VectorPlace::read_guess(milcgpu_context &context, int parity, const SpinorBlock &to) const {
    const bool zero = vectors_ == nullptr && context.reorder->is_zero(host_, parity);
    if (zero)
        context.device->fill_zero(to.data, to.bytes());
    else
        read(context, parity, to);
    return zero;
}

void VectorPlace::write(milcgpu_context &context, int parity, const SpinorBlock &from) const {
    if (vectors_ == nullptr)
        return context.reorder->to_host(from, parity, host_);
    begin_filling(*vectors_, index_, 1, parity);
    convert_spinor(*context.device, from, vectors_->parity[parity][index_], 1, nullptr);
    now_filled(*vectors_, index_, 1, parity, true);
}

Occupied VectorPlace::occupied(const milcgpu_context &context, const Name &name, bool written, Parity parity) const {
    if (vectors_ == nullptr)
        return milcgpu::occupied(context, name, written, host_, parity);
    return {name, written, reinterpret_cast<uintptr_t>(vectors_->parity[0][index_].data), 1, 1, 1};
}

namespace {

template <class Body> milcgpu_status with_vectors(milcgpu_vectors *vectors, const char *function, const Body &body) {
    return guarded(vectors != nullptr ? vectors->context : nullptr, function, [&] {
        require(vectors, function, "vectors");
        body(*vectors);
        return Status::ok;
    });
}

// out = D of as many vectors from `index` on, on the sites of `parity`. On a lattice that is cut this fills the
// vectors' ghosts, which are part of the checksum of the first one. The host takes the vectors one by one: that is no
// slower.
void apply_with_ghosts(milcgpu_vectors &of, const HeldLinks &links, int index, int parity, const SpinorBlock &out) {
    const SpinorBlock in = of.parity[1 - parity].block().from(index).first(out.sources);
    const int at_once = of.context->device->on_gpu() ? out.sources : 1;
    for (int k = 0; k < out.sources; k += at_once)
        apply_dslash(*of.context, links.pair, parity, in.from(k).first(at_once), out.from(k).first(at_once));
    if (of.context->geometry.is_cut() && of.sums[1 - parity][index])
        of.sums[1 - parity][index] = checksum_of(of, index, 1 - parity);
}

constexpr int dslash_together = 4; // vectors for which a launch of D in double loads links once

// How many successive vectors from `index` on are solutions of which D was not computed, if there is memory for D of
// them.
int solutions_from(const milcgpu_vectors &of, int index, int parity) {
    int count = 1;
    for (int k = index + 1; k < std::min(of.count(), index + dslash_together); ++k, ++count)
        if (!of.filled[1 - parity][k] || of.sums[1 - parity][k] || !of.behind[parity][k])
            break;
    return of.context->device->free_bytes() > 2 * count * of.parity[parity][index].bytes() ? count : 1;
}

// Vector `index` on `parity` = D of its other part. Solutions that follow it get theirs now, too (Ahead).
void apply_ahead(milcgpu_vectors &of, const HeldLinks &links, uint64_t tag, int index, int parity) {
    milcgpu_vectors::Ahead &ahead = of.ahead;
    const SpinorBlock out = of.parity[parity][index];
    begin_filling(of, index, 1, parity);
    // What a rank loads, or has lost, may be empty on this rank alone.
    const bool is_there = ahead.links == tag && ahead.has(index, parity);
    const std::vector<int> counts = of.context->ranks->gathered("the number of vectors that D is applied to",
                                                                is_there ? 0 : solutions_from(of, index, parity));
    if (const int most = *std::max_element(counts.begin(), counts.end()); most > 0) {
        ahead = {};
        const int count = std::count(counts.begin(), counts.end(), most) == int(counts.size()) ? most : 1;
        if (count == 1)
            return apply_with_ghosts(of, links, index, parity, out);
        milcgpu_vectors::Ahead made;
        of.context->device->collective("memory for D of vectors", [&] {
            made.results = {*of.context->device, out.precision, of.context->geometry, parity, "D of vectors", count};
            made.there.assign(count, true);
        });
        made.first = index, made.parity = parity, made.links = tag;
        apply_with_ghosts(of, links, index, parity, made.results);
        ahead = std::move(made);
    }
    of.context->device->copy_on_device(out.data, ahead.results[index - ahead.first].data, out.bytes());
    ahead.drop(index, parity);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_vectors_create(milcgpu_context *context, int precision, int count, milcgpu_vectors **vectors) {
    if (vectors != nullptr)
        *vectors = nullptr;
    return guarded(context, "milcgpu_vectors_create", [&] {
        require(context, "milcgpu_vectors_create", "context");
        require(vectors, "milcgpu_vectors_create", "vectors");
        const Precision real = double_or_single(precision, "precision", " for vectors");
        CallArguments()("count", count, from_to(1, 1000));
        *vectors = new milcgpu_vectors(context, real, count);
        return Status::ok;
    });
}

void milcgpu_vectors_destroy(milcgpu_vectors *vectors) {
    if (vectors != nullptr && may_end(*vectors->context, "milcgpu_vectors_destroy"))
        delete vectors;
}

milcgpu_status milcgpu_vectors_load(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *from) {
    return with_vectors(vectors, "milcgpu_vectors_load", [&](milcgpu_vectors &v) {
        const int on = parity_index(parity);
        need_vectors(v, index, 1, "index");
        const HostField host = host_field(from, 6, "from");
        begin_filling(v, index, 1, on);
        v.context->reorder->to_device(host, on, v.parity[on][index]);
        now_filled(v, index, 1, on, true);
    });
}

milcgpu_status milcgpu_vectors_save(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *to) {
    return with_vectors(vectors, "milcgpu_vectors_save", [&](milcgpu_vectors &v) {
        const bool both = parity == MILCGPU_EVEN + MILCGPU_ODD;
        const int first = both ? 0 : parity_index(parity), last = both ? 1 : first;
        for (int on = first; on <= last; ++on)
            need_filled(v, index, 1, on, "index");
        const HostField host = host_field(to, 6, "to");
        for (int on = first; on <= last; ++on)
            v.context->reorder->to_host(v.parity[on][index], on, host);
    });
}

milcgpu_status milcgpu_vectors_dslash(milcgpu_vectors *vectors, int index, milcgpu_links *links, int parity) {
    return with_vectors(vectors, "milcgpu_vectors_dslash", [&](milcgpu_vectors &v) {
        int on = 0;
        same_on_all_ranks(*v.context, "milcgpu_vectors_dslash", [&](CallArguments &call) {
            on = parity_index(call("parity", parity));
            call("index", index);
            need_filled(v, index, 1, 1 - on, "index");
            resident(v.context, links);
        });
        const Precision real = v.parity[on].precision();
        apply_ahead(v, links->links->held_version(real, 18), links->links->tag(), index, on);
        require_finite_dslash(*v.context, on, v.parity[1 - on][index], v.parity[on][index]);
        now_filled(v, index, 1, on, false);
    });
}

milcgpu_status milcgpu_vectors_minus_dslash(milcgpu_links *links, int parity, double scale, double a, milcgpu_vector x,
                                            milcgpu_vector y, milcgpu_vector to) {
    return with_vectors(to.of, "milcgpu_vectors_minus_dslash", [&](milcgpu_vectors &made) {
        milcgpu_context &context = *made.context;
        int on = 0;
        same_on_all_ranks(context, "milcgpu_vectors_minus_dslash", [&](CallArguments &call) {
            on = parity_index(call("parity", parity));
            for (const auto &[vector, name] : {std::pair(&x, "x"), std::pair(&y, "y"), std::pair(&to, "to")}) {
                call.copy_of(name, vector);
                VectorPlace(&context, *vector, name);
                if (vector->of->parity[0].precision() != made.parity[0].precision())
                    refuse(format("%s: all vectors of the call must have the precision of to", name));
            }
            if (x.of == to.of && x.index == to.index)
                refuse("to: it is x, too, and would be overwritten before x is read: use another vector");
            call("scale", scale, any_finite), call("a", a, any_finite);
            need_filled(*x.of, x.index, 1, on, "x");
            need_filled(*y.of, y.index, 1, 1 - on, "y");
            resident(&context, links);
        });
        const SpinorBlock into = made.parity[on][to.index];
        const HeldLinks held = links->links->held_version(into.precision, 18);
        begin_filling(made, to.index, 1, on);
        apply_with_ghosts(*y.of, held, y.index, on, into);
        require_finite_dslash(context, on, y.of->parity[1 - on][y.index], into);
        scaled_difference(*context.device, scale, a, x.of->parity[on][x.index], into);
        require_finite(*context.device, into, context.geometry, on, "the result");
        context.device->collective("D of a vector", [&] { now_filled(made, to.index, 1, on, true); });
    });
}

milcgpu_status milcgpu_vectors_sum(milcgpu_vectors *vectors, int first, int count, const double *weights, int parity,
                                   const milcgpu_field *to) {
    return with_vectors(vectors, "milcgpu_vectors_sum", [&](milcgpu_vectors &v) {
        int on = 0;
        HostField host{};
        same_on_all_ranks(*v.context, "milcgpu_vectors_sum", [&](CallArguments &call) {
            on = parity_index(call("parity", parity));
            call("first", first), call("count", count, one_or_more), call.given("weights", weights);
            need_filled(v, first, count, on, "first, count");
            for (int k = 0; k < count; ++k) {
                if (!std::isfinite(weights[k]))
                    throw Error(Status::nan_or_inf,
                                format("weights[%d] is %g: must be a finite number", k, weights[k]));
                Name name("weights");
                name.index[0] = k;
                call.of_entries.push_back({name, weights[k]});
            }
            host = host_field(to, 6, "to");
        });
        Device &device = *v.context->device;
        SpinorField sum;
        DeviceArray<double> on_device;
        device.collective("memory for a sum of vectors", [&] {
            sum = {device, v.parity[on].precision(), v.context->geometry, on, "sum of vectors"};
            on_device = {device, static_cast<size_t>(count), "weights"};
        });
        SpinorBlock terms = v.parity[on].block().from(first);
        terms.sources = count;
        device.copy_to_device(on_device.data(), weights, on_device.bytes());
        weighted_sum(device, terms, on_device.data(), sum);
        require_finite(device, sum, v.context->geometry, on, "sum of vectors");
        v.context->reorder->to_host(sum, on, host);
    });
}

} // extern "C"
