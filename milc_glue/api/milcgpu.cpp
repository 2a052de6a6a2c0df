// The C interface: checks arguments, keeps the context, turns exceptions into status codes. See milcgpu.h.
#include "gpu_kernels/dslash/dslash.h"
#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/wilson/wilson.h"
#include "milc_glue/api/members.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/api/test_hooks.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/vectors.h"
#include "milc_glue/solve/memory_plan.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/verify.h"
#include <cmath>

using namespace milcgpu;

namespace {
thread_local std::string error_text;
thread_local const char *error_shown = "";
} // namespace

void milcgpu::set_last_error(const char *function, const char *what) noexcept {
    try {
        error_text = format("%s: %s", function, what);
        error_shown = error_text.c_str();
    } catch (const std::bad_alloc &) {
        error_shown = "host memory is exhausted: there was none for the message of what failed";
    }
}

int milcgpu::parity_index(int parity) {
    if (parity != MILCGPU_EVEN && parity != MILCGPU_ODD)
        refuse(format("parity is %d: must be MILCGPU_EVEN (2) or MILCGPU_ODD (1); for both, call once each", parity));
    return parity == MILCGPU_EVEN ? 0 : 1;
}

OperatorSpec milcgpu::operator_of(const milcgpu_storage &given, const char *what) {
    OperatorSpec spec;
    spec.spinor = precision_of(given.precision, format("%s.precision", what).c_str());
    spec.link = given.link_precision == 0
                    ? spec.spinor
                    : precision_of(given.link_precision, format("%s.link_precision", what).c_str());
    spec.reals = given.reconstruct == 0 ? 18 : given.reconstruct;
    find_dslash(spec.spinor, spec.link, spec.reals, Epilogue::residual); // throws not_built
    return spec;
}

void milcgpu::check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy) {
    if (sloppy.spinor < precise.spinor)
        throw Error(
            Status::not_built,
            format("spec.sloppy is %s, finer than spec.precise, %s; built (precise/sloppy vectors): double/double "
                   "double/single double/half single/single single/half half/half, each with every link precision "
                   "and reconstruction that milcgpu_kernels_list names",
                   name(sloppy.spinor), name(precise.spinor)));
}

void milcgpu::check_version(uint64_t asked, const ResidentLinks &links) {
    if (asked != 0 && asked != links.generation())
        refuse(format("stale links: the solve asks for version %llu, the handle holds version %llu; update the links",
                      static_cast<unsigned long long>(asked), static_cast<unsigned long long>(links.generation())));
}

namespace {

void update_links(milcgpu_links &handle, const milcgpu_field *fat, const milcgpu_field *lng, int *changed) {
    HostField fat_field{}, lng_field{};
    same_on_all_ranks(*handle.context, "an update of links", [&](CallArguments &call) {
        fat_field = host_field(fat, 72, "fat links"), lng_field = host_field(lng, 72, "long links");
        if (fat_field.real != lng_field.real)
            refuse("fat and long links must have the same precision");
        call("the precision of links", int(fat_field.real));
    });
    const bool differ = renewed(handle, fat_field.real).update(fat_field, lng_field);
    forget_solvers(handle);
    if (changed != nullptr)
        *changed = differ;
}

} // namespace

double milcgpu::shift_of_mass(double mass, const char *what) {
    const double shift = 4 * mass * mass;
    if (!std::isfinite(shift))
        refuse(format("%s is %g: 4 m^2 must be finite (zero is legal)", what, mass));
    return shift;
}

void milcgpu::check_iterations(int max_iterations, int max_restarts) {
    if (max_restarts > 0 && max_iterations > 2000000000 / max_restarts)
        refuse(format("max_iterations %d and max_restarts %d: their product must be below 2e9", max_iterations,
                      max_restarts));
}

SolveArguments milcgpu::checked_solve(const milcgpu_solve_spec &spec) {
    checked_copy("spec", spec);
    SolveArguments a{};
    a.parity = parity_index(spec.parity);
    a.precise = operator_of(spec.precise, "spec.precise");
    a.sloppy = spec.sloppy.precision == 0 ? a.precise : operator_of(spec.sloppy, "spec.sloppy");
    check_pair(a.precise, a.sloppy);
    a.limits.shift = shift_of_mass(spec.mass, "spec.mass");
    if (!(spec.tolerance > 0 || spec.relative_tolerance > 0))
        refuse("spec.tolerance and spec.relative_tolerance are 0: one must be above 0");
    check_iterations(spec.max_iterations, spec.max_restarts);
    a.limits.tolerance = spec.tolerance;
    a.limits.relative_tolerance = spec.relative_tolerance;
    a.limits.max_iterations = spec.max_iterations;
    a.limits.max_restarts = spec.max_restarts;
    a.limits.reliable_delta = spec.reliable_delta;
    a.limits.jump_limit = spec.jump_limit;
    return a;
}

void milcgpu::fill_report(const CgReport &r, const SolveArguments &a, milcgpu_solve_report &report) {
    report.status = static_cast<int>(r.status);
    report.iterations = r.iterations;
    report.steps = r.steps;
    report.restarts = r.restarts;
    report.reliable_updates = r.reliable_updates;
    report.source_norm = r.source_norm;
    report.true_residual = r.true_residual;
    report.relative_residual = r.relative_residual;
    report.recursion_residual = r.recursion_residual;
    report.largest_jump = r.largest_jump;
    report.steps_in_half = r.steps_in_half;
    fill_rates(r.seconds, r.flops, r.bytes, report);
    report.reconstruct = a.precise.reals;
    report.sloppy_reconstruct = a.sloppy.reals;
    report.deflations = r.deflations, report.deflation_off = r.deflation_off;
    const std::string off = r.deflation_off
                                ? "a deflation raised the residual or did not help, so the solve went on without: "
                                  "these are not eigenvectors of these links. "
                                : "";
    std::snprintf(report.message, sizeof report.message, "%s%s", off.c_str(), r.message.c_str());
}

MemoryPlan milcgpu::plan_of(const milcgpu_context &context, int host_precision, const milcgpu_solve_spec &spec) {
    const SolveArguments a = checked_solve(spec);
    return solve_plan(context.geometry, host_precision_of(host_precision, "host_precision"), {}, a.precise, a.sloppy);
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

milcgpu_status milcgpu_links_create(milcgpu_context *context, const milcgpu_field *fat, const milcgpu_field *lng,
                                    milcgpu_links **links) {
    if (links != nullptr)
        *links = nullptr;
    return guarded(context, "milcgpu_links_create", [&] {
        require(context, "milcgpu_links_create", "context");
        require(links, "milcgpu_links_create", "links");
        auto fresh = std::make_unique<milcgpu_links>(context);
        update_links(*fresh, fat, lng, nullptr);
        *links = fresh.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu_links_update(milcgpu_links *links, const milcgpu_field *fat, const milcgpu_field *lng,
                                    int *changed) {
    return with_links(links, "milcgpu_links_update", [&](milcgpu_context &) {
        update_links(*links, fat, lng, changed);
        return Status::ok;
    });
}

uint64_t milcgpu_links_version(const milcgpu_links *links) {
    return links != nullptr && links->links ? links->links->generation() : 0;
}

void milcgpu_links_destroy(milcgpu_links *links) {
    if (links == nullptr || !may_end(*links->context, "milcgpu_links_destroy"))
        return;
    links->context->forget(links);
    delete links;
}

milcgpu_status milcgpu_staggered_dslash(milcgpu_links *links, const milcgpu_storage *what, int parity,
                                        const milcgpu_field *source, const milcgpu_field *destination) {
    return with_links(links, "milcgpu_staggered_dslash", [&](milcgpu_context &context) {
        Device &device = *context.device;
        OperatorSpec spec{};
        int to = 0;
        HostField from_field{}, to_field{};
        same_on_all_ranks(context, "milcgpu_staggered_dslash", [&](CallArguments &call) {
            spec = operator_of(call.copy_of("what", what), "what");
            resident(*links);
            to = parity_index(call("parity", parity));
            from_field = host_field(source, 6, "source"), to_field = host_field(destination, 6, "destination");
        });
        const HeldLinks held = links->links->held_version(spec.link, spec.reals);
        SpinorField in, out;
        device.collective("the source of D", [&] {
            in = SpinorField(device, spec.spinor, context.geometry, 1 - to, "dslash vectors");
            out = SpinorField(device, spec.spinor, context.geometry, to, "dslash vectors");
            context.reorder->to_device(from_field, 1 - to, in);
        });
        apply_dslash(context, held.pair, to, in, out);
        device.collective("the result of D", [&] { context.reorder->to_host(out, to, to_field); });
        return Status::ok;
    });
}

} // extern "C"

milcgpu_status milcgpu::true_residuals(milcgpu_links *links, int parity, double mass, const milcgpu_field *source,
                                       const milcgpu_field *solution, double *result, double *relative) {
    return with_links(links, "milcgpu_staggered_residual", [&](milcgpu_context &context) {
        Device &device = *context.device;
        Operator A;
        SpinorField b, x, r, between;
        DeviceArray<double> sums;
        double shift = 0;
        same_on_all_ranks(context, "milcgpu_staggered_residual", [&](CallArguments &call) {
            call.given("residual", result);
            shift = shift_of_mass(call("mass", mass), "mass");
            resident(*links);
            const int on = parity_index(call("parity", parity));
            A = full_operator(*links, on);
            const HostField source_field = host_field(source, 6, "source"),
                            x_field = host_field(solution, 6, "solution");
            constexpr const char *owner = "vectors of a residual";
            b = A->vectors(device, owner), x = A->vectors(device, owner), r = A->vectors(device, owner);
            between = A->between(device, owner);
            sums = DeviceArray<double>(device, 2, "sums of a residual");
            context.reorder->to_device(source_field, on, b);
            context.reorder->to_device(x_field, on, x);
        });
        double rr_bb[2];
        norm_squared(device, b, sums.data() + 1);
        device.copy_to_host(&rr_bb[1], sums.data() + 1, sizeof rr_bb[1]);
        if (rr_bb[1] < INFINITY)
            is_there(device, rr_bb[1], b, A->parity(), 0, r, sums.data());
        residual(device, *A, shift, b, x, between, r, sums.data());
        device.copy_to_host(&rr_bb[0], sums.data(), sizeof rr_bb[0]);
        Verification(context, emptying(*links)).holds(A->checked_regions());
        if (!(rr_bb[0] < INFINITY && rr_bb[1] < INFINITY)) {
            require_finite(device, b, A->parity(), "source");
            require_finite(device, x, A->parity(), "solution");
            throw Error(Status::nan_or_inf, "the residual overflows: use smaller units");
        }
        if (relative != nullptr) {
            const double volume = context.geometry.global_volume();
            double sum = 0;
            relative_residual(device, r, x, sums.data(), nullptr, volume);
            device.copy_to_host(&sum, sums.data(), sizeof sum);
            *relative = std::sqrt(2 * sum / volume);
        }
        *result = rr_bb[0] == 0 ? 0 : std::sqrt(rr_bb[0] / rr_bb[1]);
        return Status::ok;
    });
}

extern "C" {

milcgpu_status milcgpu_staggered_residual(milcgpu_links *links, int parity, double mass, const milcgpu_field *source,
                                          const milcgpu_field *solution, double *result) {
    return true_residuals(links, parity, mass, source, solution, result, nullptr);
}

milcgpu_status milcgpu_memory_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                   char *text, size_t text_size, size_t *bytes) {
    return guarded(context, "milcgpu_memory_plan", [&] {
        require(context, "milcgpu_memory_plan", "context");
        require(spec, "milcgpu_memory_plan", "spec");
        fill_plan(*context, plan_of(*context, host_precision, full_copy(spec)), text, text_size, bytes);
        return Status::ok;
    });
}

void milcgpu_kernels_list(void (*line)(void *user, const char *text), void *user) {
    guarded(nullptr, "milcgpu_kernels_list", [&] {
        if (line == nullptr)
            refuse("line is NULL");
        line(user, format("%-8s %-8s %5s  %-9s %7s %9s %7s %7s %6s %9s %14s  %s", "spinor", "link", "reals", "epilogue",
                          "sources", "checksums", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const DslashKernel &row : dslash_table())
            line(user,
                 format("%-8s %-8s %5d  %-9s %7d %9s %7zu %7zu %6d %9d %14d  %s", name(row.spinor), name(row.link),
                        row.reals, name(row.epilogue), row.most_sources, row.checks ? "of links" : "-",
                        dslash_bytes(row.spinor, row.link, row.reals, row.epilogue, 1), dslash_flops(row.epilogue, 1),
                        row.shape.block, row.shape.min_blocks, row.shape.sources, row.file)
                     .c_str());
        line(user, format("%-8s %-8s %5s  %-16s %7s %7s %7s %6s %9s %14s  %s", "Wilson", "link", "reals",
                          "form, epilogue", "sources", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const WilsonKernel &row : wilson_table())
            for (const WilsonEnd &end : wilson_ends)
                for (const bool several : {false, true}) {
                    if (several && end.dot)
                        continue;
                    const LaunchShape &shape = several ? row.several : row.one;
                    line(user,
                         format("%-8s %-8s %5d  %-6s %-9s %7s %7zu %7zu %6d %9d %14d  %s", name(row.precision),
                                name(row.precision), row.reals, name(end.form), end.dot ? "dot" : name(end.epilogue),
                                several ? "many" : "1",
                                wilson_bytes(row.precision, row.precision, row.reals, end, false, 1),
                                wilson_flops(end, false, 1), shape.block, shape.min_blocks, shape.sources, row.file)
                             .c_str());
                }
        line(user, format("%-17s %5s  %-9s %7s %10s %7s %7s %6s %9s %14s  %s", "Laplace", "reals", "epilogue",
                          "sources", "directions", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const LaplaceKernel &row : laplace_table())
            line(user, format("%-17s %5d  %-9s %7d %10d %7zu %7zu %6d %9d %14d  %s", name(row.precision), row.reals,
                              name(row.epilogue), row.most_sources, row.directions,
                              laplace_bytes(row.precision, row.reals, row.directions, row.epilogue, 1),
                              laplace_flops(row.directions, row.epilogue, 1), row.shape.block, row.shape.min_blocks,
                              row.shape.sources, row.file)
                           .c_str());
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
