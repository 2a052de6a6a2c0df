// The C interface: errors, contexts, the caller's memory. See milcgpu.h.
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/api/arguments.h"
#include "milc_glue/api/forks.h"
#include "milc_glue/api/sized.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/api/test_hooks.h"
#include <omp.h>
#include <pthread.h>

using namespace milcgpu;

namespace {
bool forked_child = false;
thread_local std::string error_text;
thread_local const char *error_shown = "";
} // namespace

void milcgpu::watch_forks() {
    static const int unused = pthread_atfork(nullptr, nullptr, [] {
        forked_child = true;
        omp_set_num_threads(1); // for loops over MILC's fields: the child lacks OpenMP's other threads
    });
    static_cast<void>(unused);
}

bool milcgpu::is_forked_child() noexcept { return forked_child; }

void milcgpu::set_last_error(const char *function, const char *what) noexcept {
    try {
        error_text = format("%s: %s", function, printable(what).c_str());
        error_shown = error_text.c_str();
    } catch (const std::bad_alloc &) {
        error_shown = "host memory is exhausted, and the message of the failure did not fit either";
    }
}

int milcgpu::parity_index(int parity) {
    if (parity != MILCGPU_EVEN && parity != MILCGPU_ODD)
        refuse(format("parity is %d: must be MILCGPU_EVEN (2) or MILCGPU_ODD (1); for both, call once each", parity));
    return parity == MILCGPU_EVEN ? 0 : 1;
}

extern "C" {

const char *milcgpu_version(void) { return MILCGPU_VERSION; }

const char *milcgpu_last_error(void) { return error_shown; }

const char *milcgpu_status_name(int status) {
    static const char *const names[] = {"OK",           "NOT_CONVERGED", "PRECISION_FLOOR", "NAN_OR_INF",
                                        "NOT_POSITIVE", "BAD_ARGUMENT",  "NO_MEMORY",       "DEVICE_LOST",
                                        "COMM",         "NOT_BUILT",     "CORRUPTED",       "TIMED_OUT"};
    static_assert(static_cast<int>(Status::timed_out) == MILCGPU_TIMED_OUT && std::size(names) == MILCGPU_TIMED_OUT + 1,
                  "status codes of engine and interface agree");
    return status >= 0 && status < static_cast<int>(std::size(names)) ? names[status] : "UNKNOWN";
}

milcgpu_status milcgpu_context_create(const milcgpu_layout *layout, const milcgpu_options *options,
                                      milcgpu_context **context) {
    if (context != nullptr)
        *context = nullptr;
    return guarded(nullptr, "milcgpu_context_create", [&] {
        require(layout, "milcgpu_context_create", "layout");
        require(context, "milcgpu_context_create", "context");
        watch_forks();
        auto fresh = std::make_unique<milcgpu_context>();
        start_context(full_copy(layout), options, *fresh);
        *context = fresh.release();
        return Status::ok;
    });
}

void milcgpu_context_destroy(milcgpu_context *context) {
    if (context != nullptr && may_end(*context, "milcgpu_context_destroy"))
        delete context;
}

const char *milcgpu_context_device_name(const milcgpu_context *context) {
    return context != nullptr ? context->device->description().c_str() : "no context";
}

milcgpu_status milcgpu_context_backend(const milcgpu_context *context, int *backend) {
    return guarded(nullptr, "milcgpu_context_backend", [&] {
        require(context, "milcgpu_context_backend", "context");
        require(backend, "milcgpu_context_backend", "backend");
        *backend = context->device->on_gpu() ? MILCGPU_CUDA : MILCGPU_HOST;
        return Status::ok;
    });
}

milcgpu_status milcgpu_memory_pin(milcgpu_context *context, void *address, size_t bytes) {
    return guarded(context, "milcgpu_memory_pin", [&] {
        require(context, "milcgpu_memory_pin", "context");
        require(address, "milcgpu_memory_pin", "address");
        context->device->pin(address, bytes);
        return Status::ok;
    });
}

milcgpu_status milcgpu_memory_unpin(milcgpu_context *context, void *address) {
    return guarded(context, "milcgpu_memory_unpin", [&] {
        require(context, "milcgpu_memory_unpin", "context");
        require(address, "milcgpu_memory_unpin", "address");
        context->device->unpin(address);
        return Status::ok;
    });
}

milcgpu_status milcgpu_fault_inject(milcgpu_context *context, int fault) {
    return guarded(context, "milcgpu_fault_inject", [&] {
        require(context, "milcgpu_fault_inject", "context");
        if (fault < MILCGPU_FAULT_NONE || fault > MILCGPU_FAULT_FLIP_LINKS)
            refuse(format("fault %d is unknown", fault));
        context->flip_links = fault == MILCGPU_FAULT_FLIP_LINKS;
        if (!context->flip_links)
            context->device->inject(static_cast<Fault>(fault));
        return Status::ok;
    });
}

} // extern "C"
