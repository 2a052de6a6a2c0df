// The C interface to eigenvectors.
#include "milc_glue/solve/eigen_handle.h"
#include "gpu_kernels/solver/lanczos.h"
#include "milc_glue/api/apart.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include <algorithm>

using namespace milcgpu;

namespace {

constexpr double of_free_memory = 0.95;

// Each deflated call compares the checksums of this many vectors: an eighth of a pass over 256 vectors, while a solve
// makes ten passes and more.
constexpr int checked_in_turn = 32;

LanczosLimits limits_of(const milcgpu_eigen_spec &spec) {
    LanczosLimits limits;
    limits.count = spec.count;
    limits.tolerance = spec.tolerance;
    limits.stored = stored_as(spec.precision);
    if (spec.most_bytes > 0)
        limits.memory = static_cast<size_t>(std::fmin(spec.most_bytes, 1e18));
    return limits;
}

// Bytes that are free on all ranks. If these are fewer than `wanted`, idle solvers are freed first.
size_t free_for(milcgpu_context &context, size_t wanted) {
    for (;;) {
        double bytes = of_free_memory * static_cast<double>(context.device->free_bytes());
        for (const double there : context.ranks->gathered("memory for eigenvectors", bytes))
            bytes = std::fmin(bytes, there);
        if (bytes >= static_cast<double>(wanted) || !context.release_idle())
            return static_cast<size_t>(bytes);
    }
}

void require_index(CallArguments &call, const milcgpu_eigenvectors &of, int index) {
    if (of.set == nullptr)
        refuse(empty_eigenvectors);
    const int count = static_cast<int>(of.loaded.size());
    if (call("index", index) < 0 || index >= count)
        refuse(format("index is %d: the handle has vectors 0 to %d", index, count - 1));
}

} // namespace

Precision milcgpu::stored_as(int precision) {
    return precision_of(precision == 0 ? MILCGPU_HALF : precision, "precision", Precision::double_, Precision::half,
                        ", or 0 for half");
}

bool milcgpu::are_loaded(const milcgpu_eigenvectors &of) {
    return of.set != nullptr && std::find(of.loaded.begin(), of.loaded.end(), false) == of.loaded.end();
}

Operator milcgpu::for_lanczos(milcgpu_links &links, int parity, Precision stored) {
    const Precision of = precision_of_lanczos(stored);
    OperatorSpec spec{of, of, 18};
    return level_operator(links, parity, spec);
}

std::unique_ptr<milcgpu_eigenvectors> milcgpu::lowest_of(milcgpu_links &links, int parity, const LanczosLimits &limits,
                                                         const LanczosProgress &progress, LanczosReport &report) {
    milcgpu_context &context = *links.context;
    const Operator full = full_operator(links, parity), A = for_lanczos(links, parity, limits.stored);
    std::unique_ptr<milcgpu_eigenvectors> made(new milcgpu_eigenvectors{&context, {}, {}, 0, {}, {}});
    made->set = lowest_eigenvectors(*context.device, *full, *A, limits, progress, report);
    made->set->links = links.links->tag();
    made->loaded.assign(made->set->count(), true);
    std::vector<Region> links_read = full->checked_regions();
    join(links_read, A->checked_regions());
    const std::function<void()> empty = emptying(links);
    Verification(context, empty).holds(links_read);
    return made;
}

void milcgpu::stop_learning(milcgpu_context &context) {
    context.learns = Learns::never;
    for (milcgpu_links *const links : context.handles)
        links->learning[0].reset(), links->learning[1].reset();
}

void milcgpu::need_eigenvectors(const milcgpu_eigenvectors &of, const milcgpu_context &context, int parity,
                                const char *name, const char *what) {
    if (of.context != &context)
        refuse(format("%s: of another context than the call", name));
    if (!are_loaded(of))
        refuse(format("%s: %s", name, empty_eigenvectors));
    if (of.set->parity() != parity)
        refuse(format("%s are on %s sites, but %s the others: use eigenvectors of that parity", name,
                      of.set->parity() == 0 ? "even" : "odd", what));
}

void milcgpu::need_room_for(int count, const milcgpu_context &context) {
    const double most = 1.5 * context.geometry.global_volume(); // 3 for each site of the parity
    if (count > most)
        refuse(format("%d eigenvectors: a parity of this lattice has %.0f", count, most));
}

void milcgpu::look_at_loaded(milcgpu_eigenvectors &of, const std::string &name, const NormalOperator &A) {
    const std::string why = of.set->why_not_orthogonal();
    if (!why.empty())
        refuse(format("%s: %s", name.c_str(), why.c_str()));
    of.none = of.set->why_none(A.highest(0));
    of.tested = 0;
}

std::string milcgpu::why_not_of(milcgpu_eigenvectors &of, milcgpu_links &links) {
    const uint64_t tag = links.links->tag();
    if (tag == of.set->links)
        return of.none;
    if (tag != of.tested) {
        of.wrong = of.set->why_not_of(*full_operator(links, of.set->parity()));
        of.set->free_scratch();
        of.tested = tag;
    }
    return of.wrong;
}

bool milcgpu::are_whole(milcgpu_eigenvectors &of, int first, int count) {
    int whole = 1;
    of.context->device->collective("checksums of eigenvectors",
                                   [&] { whole = !of.context->verify || of.set->are_as_summed(first, count); });
    for (const int there : of.context->ranks->gathered("the check of eigenvectors", whole))
        whole = whole && there;
    if (!whole)
        of.set.reset();
    return whole;
}

bool milcgpu::are_whole_after(milcgpu_eigenvectors &of, bool did_harm) {
    if (did_harm)
        return are_whole(of, 0, of.set->count());
    const int first = of.next_checked < of.set->count() ? of.next_checked : 0;
    of.next_checked = std::min(first + checked_in_turn, of.set->count());
    return are_whole(of, first, of.next_checked - first);
}

extern "C" {

milcgpu_status milcgpu_eigenvectors_compute(milcgpu_links *links, const milcgpu_eigen_spec *given,
                                            milcgpu_eigenvectors **eigenvectors, milcgpu_eigen_report *report) {
    constexpr const char *function = "milcgpu_eigenvectors_compute";
    if (eigenvectors != nullptr)
        *eigenvectors = nullptr;
    milcgpu_eigen_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_links(links, function, [&](milcgpu_context &context) {
        const double begin = wall_seconds();
        milcgpu_eigen_spec spec{};
        LanczosLimits limits{};
        int parity = 0;
        same_on_all_ranks(context, function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            call.given("eigenvectors", eigenvectors);
            resident(*links);
            require_sizes(report, 1);
            parity = parity_index(spec.parity);
            limits = limits_of(spec);
        });
        stop_learning(context);
        if (spec.start != nullptr) // on all ranks
            same_on_all_ranks(context, function, [&](CallArguments &call) {
                need_eigenvectors(*spec.start, context, parity, "spec.start", "the new ones on");
                call("count of spec.start", spec.start->set->count());
                limits.start = spec.start->set.get();
            });
        const LanczosProgress progress = [&](int done, int of) {
            if (spec.progress == nullptr)
                return;
            context.callbacks.run("spec.progress", [&] { spec.progress(spec.user, done, of); });
            context.device->make_current();
        };
        for_lanczos(*links, parity, limits.stored); // packed, before memory is asked for
        if (spec.most_bytes == 0)
            limits.memory = free_for(context, lanczos_plan(*context.device, context.geometry, limits).bytes);
        LanczosReport of;
        std::unique_ptr<milcgpu_eigenvectors> made = lowest_of(*links, parity, limits, progress, of);
        filled.count = of.found, filled.left_out = of.left_out;
        filled.basis = of.basis, filled.degree = of.degree, filled.restarts = of.restarts;
        filled.applications = static_cast<double>(of.applications);
        filled.highest = of.highest, filled.edge = of.edge;
        filled.seconds = wall_seconds() - begin;
        filled.gflops = of.flops / of.seconds * 1e-9;
        filled.links_version = links->links->generation();
        std::snprintf(filled.message, sizeof filled.message, "%s", of.message.c_str());
        context.log(2, [&] {
            return format("%d eigenvectors up to l = %.3e: basis %d, degree %d, %.0f applications, %.2f s%s%s",
                          of.found, made->set->highest(), of.basis, of.degree, filled.applications, filled.seconds,
                          of.message.empty() ? "" : ". ", of.message.c_str());
        });
        *eigenvectors = made.release();
        return Status::ok;
    });
    return report_to_caller(status, filled, report);
}

milcgpu_status milcgpu_eigenvectors_plan(milcgpu_context *context, const milcgpu_eigen_spec *spec, size_t *bytes) {
    constexpr const char *function = "milcgpu_eigenvectors_plan";
    return guarded(context, function, [&] {
        require(context, function, "context");
        CallArguments().given("spec", spec);
        CallArguments().given("bytes", bytes);
        const LanczosLimits limits = limits_of(checked_copy("spec", *spec));
        *bytes = lanczos_plan(*context->device, context->geometry, limits).bytes +
                 ResidentLinks::packed_bytes({{precision_of_lanczos(limits.stored), 18}}, Precision::double_,
                                             context->geometry);
        return Status::ok;
    });
}

milcgpu_status milcgpu_eigenvectors_create(milcgpu_links *links, int parity, int precision, int count,
                                           milcgpu_eigenvectors **eigenvectors) {
    constexpr const char *function = "milcgpu_eigenvectors_create";
    if (eigenvectors != nullptr)
        *eigenvectors = nullptr;
    return with_links(links, function, [&](milcgpu_context &context) {
        Precision stored = Precision::half;
        int on = 0;
        same_on_all_ranks(context, function, [&](CallArguments &call) {
            call.given("eigenvectors", eigenvectors);
            resident(*links);
            on = parity_index(call("parity", parity));
            stored = stored_as(call("precision", precision));
            require_count(call("count", count), 1, "count");
            need_room_for(count, context);
        });
        stop_learning(context);
        std::unique_ptr<milcgpu_eigenvectors> made(new milcgpu_eigenvectors{&context, {}, {}, 0, {}, {}});
        const Operator full = full_operator(*links, on);
        context.device->collective("memory for eigenvectors", [&] {
            made->set = std::make_unique<Eigenvectors>(*context.device, *full, stored, count);
        });
        made->set->links = links->links->tag();
        made->loaded.assign(count, false);
        *eigenvectors = made.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu_eigenvectors_load(milcgpu_eigenvectors *eigenvectors, milcgpu_links *links, int index,
                                         const milcgpu_field *from) {
    constexpr const char *function = "milcgpu_eigenvectors_load";
    milcgpu_context *const context = eigenvectors != nullptr ? eigenvectors->context : nullptr;
    return guarded(context, function, [&] {
        require(eigenvectors, function, "eigenvectors");
        milcgpu_eigenvectors &of = *eigenvectors;
        HostField host{};
        same_on_all_ranks(*context, function, [&](CallArguments &call) {
            resident(context, links);
            require_index(call, of, index);
            if (links->links->tag() != of.set->links)
                refuse("these are not the links that the handle was made for: use those, or create the handle again");
            host = host_field(from, 6, "from");
        });
        const Operator full = full_operator(*links, of.set->parity());
        SpinorField vector;
        context->device->collective("memory for an eigenvector", [&] {
            vector = full->vectors(*context->device, "eigenvector");
            context->reorder->to_device(host, of.set->parity(), vector);
        });
        of.loaded[index] = false;
        of.set->load(index, vector, *full);
        of.set->free_scratch();
        of.loaded[index] = true;
        of.set->take_checksum(index);
        if (are_loaded(of)) {
            of.loaded[index] = false; // if they are refused
            look_at_loaded(of, "the loaded vectors", *full);
            of.loaded[index] = true;
        }
        return Status::ok;
    });
}

milcgpu_status milcgpu_eigenvectors_save(milcgpu_eigenvectors *eigenvectors, int index, const milcgpu_field *to) {
    constexpr const char *function = "milcgpu_eigenvectors_save";
    milcgpu_context *const context = eigenvectors != nullptr ? eigenvectors->context : nullptr;
    return guarded(context, function, [&] {
        require(eigenvectors, function, "eigenvectors");
        milcgpu_eigenvectors &of = *eigenvectors;
        HostField host{};
        same_on_all_ranks(*context, function, [&](CallArguments &call) {
            require_index(call, of, index);
            if (!of.loaded[index])
                refuse(format("vector %d is empty: load it", index));
            host = host_field(to, 6, "to");
        });
        const int parity = of.set->parity();
        Device &device = *context->device;
        SpinorField vector;
        DeviceArray<uint64_t> scratch; // made here: after the copy to the host nothing may lack memory
        const auto convert = [&] { convert_spinor(device, (*of.set)[index], vector, 1, nullptr); };
        const auto sum = [&] { return context->verify ? checksum(scratch, vector.block().data, vector.bytes()) : 0; };
        uint64_t before = 0;
        device.collective("memory for an eigenvector", [&] {
            vector = {device, Precision::double_, context->geometry, parity, "eigenvector"};
            scratch = {device, 1, "checksums"};
            convert();
            before = sum();
        });
        if (!are_whole(of, index, 1))
            throw Error(Status::corrupted, format("%s: compute or load them again", changed_eigenvectors));
        device.collective("the copy of an eigenvector", [&] {
            convert();
            context->reorder->to_host(vector, parity, host);
            if (sum() != before)
                throw Error(Status::corrupted, format("vector %d changed on its way to the host: a bit flipped, or "
                                                      "other code wrote there. Copy it again",
                                                      index));
        });
        return Status::ok;
    });
}

int milcgpu_eigenvectors_count(const milcgpu_eigenvectors *eigenvectors) {
    return eigenvectors != nullptr && eigenvectors->set != nullptr ? eigenvectors->set->count() : 0;
}

milcgpu_status milcgpu_eigenvectors_values(const milcgpu_eigenvectors *eigenvectors, double *values,
                                           double *residuals) {
    constexpr const char *function = "milcgpu_eigenvectors_values";
    return guarded(eigenvectors != nullptr ? eigenvectors->context : nullptr, function, [&] {
        require(eigenvectors, function, "eigenvectors");
        if (eigenvectors->set == nullptr)
            refuse(empty_eigenvectors);
        const Eigenvectors &set = *eigenvectors->set;
        const size_t bytes = set.values.size() * sizeof(double);
        require_apart(
            {{"values", true, reinterpret_cast<uintptr_t>(values), bytes, bytes, values != nullptr},
             {"residuals", true, reinterpret_cast<uintptr_t>(residuals), bytes, bytes, residuals != nullptr}});
        if (values != nullptr)
            std::copy(set.values.begin(), set.values.end(), values);
        if (residuals != nullptr)
            std::copy(set.residuals.begin(), set.residuals.end(), residuals);
        return Status::ok;
    });
}

void milcgpu_eigenvectors_destroy(milcgpu_eigenvectors *eigenvectors) {
    if (eigenvectors != nullptr && may_end(*eigenvectors->context, "milcgpu_eigenvectors_destroy"))
        delete eigenvectors;
}

} // extern "C"
