// The C interface to vectors that stay on the device.
#include "milc_glue/vectors.h"
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/dslash/dslash.h"

using namespace milcgpu;

void milcgpu::need_vectors(const milcgpu_vectors &vectors, int first, int count) {
    if (first < 0 || count < 0 || first > vectors.count() - count)
        refuse(format("vectors %d to %d: there are %d", first, first + count - 1, vectors.count()));
}

void milcgpu::need_filled(const milcgpu_vectors &vectors, int first, int count, int parity) {
    need_vectors(vectors, first, count);
    for (int k = first; k < first + count; ++k)
        if (!vectors.filled[parity][k])
            refuse(format("vector %d is empty on %s sites", k, parity == 0 ? "even" : "odd"));
}

namespace {

template <class Body> milcgpu_status with_vectors(milcgpu_vectors *vectors, const char *function, const Body &body) {
    return guarded(vectors != nullptr ? vectors->context : nullptr, function, [&] {
        require(vectors, function, "vectors");
        body(*vectors);
        return Status::ok;
    });
}

} // namespace

extern "C" {

milcgpu_status milcgpu_vectors_create(milcgpu_context *context, int precision, int count, milcgpu_vectors **vectors) {
    if (vectors != nullptr)
        *vectors = nullptr;
    return guarded(context, "milcgpu_vectors_create", [&] {
        require(context, "milcgpu_vectors_create", "context");
        require(vectors, "milcgpu_vectors_create", "vectors");
        const Precision real = precision_of(precision, "precision");
        if (real == Precision::half || count < 1 || count > 1000)
            refuse(
                format("precision %s, count %d: vectors are double or single, 1 to 1000 of them", name(real), count));
        *vectors = new milcgpu_vectors(context, real, count);
        return Status::ok;
    });
}

void milcgpu_vectors_destroy(milcgpu_vectors *vectors) {
    if (vectors == nullptr)
        return;
    make_current_if_possible(*vectors->context);
    delete vectors;
}

milcgpu_status milcgpu_vectors_load(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *from) {
    return with_vectors(vectors, "milcgpu_vectors_load", [&](milcgpu_vectors &v) {
        const int on = parity_index(parity);
        need_vectors(v, index, 1);
        const HostField host = host_field(from, 6, "from");
        v.filled[on][index] = false;
        v.context->reorder->to_device(host, on, v.parity[on][index]);
        v.filled[on][index] = true;
    });
}

milcgpu_status milcgpu_vectors_save(milcgpu_vectors *vectors, int index, int parity, const milcgpu_field *to) {
    return with_vectors(vectors, "milcgpu_vectors_save", [&](milcgpu_vectors &v) {
        const int on = parity_index(parity);
        need_filled(v, index, 1, on);
        v.context->reorder->to_host(v.parity[on][index], on, host_field(to, 6, "to"));
    });
}

milcgpu_status milcgpu_vectors_dslash(milcgpu_vectors *vectors, int index, milcgpu_links *links, int parity) {
    return with_vectors(vectors, "milcgpu_vectors_dslash", [&](milcgpu_vectors &v) {
        int on = 0;
        v.context->device->agree("milcgpu_vectors_dslash", [&] {
            on = parity_index(parity);
            need_filled(v, index, 1, 1 - on);
            resident(v.context, links);
        });
        check_alike(*v.context, {{"index", double(index)}, {"parity", double(parity)}});
        const Precision real = v.parity[on].precision();
        const HeldLinks held = links->links->held_version(real, 18);
        v.filled[on][index] = false;
        apply_dslash(*v.context, held.pair, on, v.parity[1 - on][index], v.parity[on][index]);
        v.context->device->synchronize(); // an error is this call's
        v.filled[on][index] = true;
    });
}

milcgpu_status milcgpu_vectors_sum(milcgpu_vectors *vectors, int first, int count, const double *weights, int parity,
                                   const milcgpu_field *to) {
    return with_vectors(vectors, "milcgpu_vectors_sum", [&](milcgpu_vectors &v) {
        const int on = parity_index(parity);
        if (count < 1)
            refuse(format("count %d: there is nothing to add", count));
        need_filled(v, first, count, on);
        require(weights, "milcgpu_vectors_sum", "weights");
        const HostField host = host_field(to, 6, "to");
        Device &device = *v.context->device;
        const SpinorField sum(device, v.parity[on].precision(), v.context->geometry, on, "sum of vectors");
        SpinorBlock terms = v.parity[on].block().from(first);
        terms.sources = count;
        const DeviceArray<double> on_device(device, count, "weights");
        device.copy_to_device(on_device.data(), weights, on_device.bytes());
        weighted_sum(device, terms, on_device.data(), sum);
        require_finite(device, sum, on, "sum of vectors");
        v.context->reorder->to_host(sum, on, host);
    });
}

} // extern "C"
