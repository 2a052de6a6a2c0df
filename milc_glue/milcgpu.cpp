// The C interface: checks arguments, keeps the context, turns exceptions into status codes. See milcgpu.h.
#include "milc_glue/context.h"
#include <cmath>
#include <cstdlib>
#include <set>

using namespace milcgpu;

std::string &milcgpu::last_error() {
    thread_local std::string text;
    return text;
}

ResidentLinks &milcgpu::renewed(milcgpu_links &handle, Precision real) {
    milcgpu_context &context = *handle.context;
    if (!handle.links || handle.links->host_real() != real) {
        context.forget(&handle, 0);
        handle.links = std::make_unique<ResidentLinks>(*context.device, context.map, context.even_sites(),
                                                       context.odd_sites(), real);
    }
    return *handle.links;
}

void milcgpu::forget_solvers(milcgpu_links &handle) { handle.context->forget(&handle, handle.links->generation()); }

int milcgpu::parity_index(int parity) {
    if (parity != MILCGPU_EVEN && parity != MILCGPU_ODD)
        refuse(format("parity is %d: must be MILCGPU_EVEN (2) or MILCGPU_ODD (1); for both, call once each", parity));
    return parity == MILCGPU_EVEN ? 0 : 1;
}

OperatorSpec milcgpu::operator_of(const milcgpu_operator &given, const char *what) {
    OperatorSpec spec;
    spec.spinor = precision_of(given.precision, format("%s.precision", what).c_str());
    spec.link = given.link_precision == 0
                    ? spec.spinor
                    : precision_of(given.link_precision, format("%s.link_precision", what).c_str());
    spec.reals = given.reconstruct == 0 ? 18 : given.reconstruct;
    find_dslash(spec.spinor, spec.link, spec.reals, Epilogue::residual); // throws not_built
    return spec;
}

LinkPair milcgpu::level_links(milcgpu_links &links, OperatorSpec &spec) {
    const LinkPair pair = links.links->version(spec.link, spec.reals);
    spec.reals = pair.lng->reals(); // granted
    return pair;
}

ResidentLinks &milcgpu::resident(milcgpu_context *context, milcgpu_links *links) {
    require(links, "links", "the handle");
    if (links->context != context)
        refuse("the links belong to another context");
    if (!links->links || links->links->empty())
        refuse("the links are empty: the last update failed");
    return *links->links;
}

constexpr size_t cached_solvers = 4;

milcgpu_context::CachedSolver &milcgpu::cached_solver(milcgpu_context &context, milcgpu_links &links, int parity,
                                                      OperatorSpec &precise, OperatorSpec &sloppy) {
    const LinkPair precise_links = level_links(links, precise), sloppy_links = level_links(links, sloppy);
    const std::string warnings = links.links->take_warnings();
    if (!warnings.empty())
        context.say(1, warnings.substr(0, warnings.size() - 1));
    const uint64_t version = links.links->generation();
    auto &solvers = context.solvers;
    for (auto entry = solvers.begin(); entry != solvers.end(); ++entry)
        if (entry->parity == parity && entry->precise == precise && entry->sloppy == sloppy && entry->links == &links &&
            entry->version == version) {
            solvers.splice(solvers.begin(), solvers, entry);
            return solvers.front();
        }
    if (solvers.size() >= cached_solvers)
        solvers.pop_back();
    const LinkPair full = links.links->full();
    std::function<FinerLevel()>
        finer; // single precision with the same reals, where half is asked for beside something finer
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
        finer = [&links, reals = sloppy.reals] {
            OperatorSpec spec{Precision::single, Precision::single, reals};
            const LinkPair packed = level_links(links, spec);
            return FinerLevel{spec, packed};
        };
    solvers.push_front({parity,
                        precise,
                        sloppy,
                        &links,
                        version,
                        std::make_unique<CgSolver>(*context.device, context.lattice, parity, precise, precise_links,
                                                   sloppy, sloppy_links, full, finer),
                        nullptr,
                        {}});
    return solvers.front();
}

void milcgpu::check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy) {
    if (sloppy.spinor < precise.spinor)
        throw Error(
            Status::not_built,
            format("spec.sloppy is %s, finer than spec.precise, %s; built (precise/sloppy vectors): double/double "
                   "double/single double/half single/single single/half half/half, each with every link precision "
                   "and reconstruction that milcgpu_list_kernels names",
                   name(sloppy.spinor), name(precise.spinor)));
}

void milcgpu::check_version(uint64_t asked, const ResidentLinks &links) {
    if (asked != 0 && asked != links.generation())
        refuse(format("stale links: the solve asks for version %llu, the handle holds version %llu; update the links",
                      static_cast<unsigned long long>(asked), static_cast<unsigned long long>(links.generation())));
}

namespace {

Backend choose_backend(int asked) {
    std::string choice = asked == MILCGPU_CUDA ? "cuda" : asked == MILCGPU_HOST ? "host" : "auto";
    if (asked != MILCGPU_AUTO && asked != MILCGPU_CUDA && asked != MILCGPU_HOST)
        refuse(format("options.backend is %d: must be MILCGPU_AUTO, MILCGPU_CUDA or MILCGPU_HOST", asked));
    const char *environment = std::getenv("MILCGPU_BACKEND");
    if (asked == MILCGPU_AUTO && environment != nullptr)
        choice = environment;
    if (choice == "cuda")
        return Backend::cuda;
    if (choice == "host")
        return Backend::host;
    if (choice == "auto")
        return Device::gpu_count() > 0 ? Backend::cuda : Backend::host;
    refuse(format("MILCGPU_BACKEND=%s: must be auto, cuda or host", choice.c_str()));
}

int choose_verbosity(int asked) {
    const char *environment = std::getenv("MILCGPU_VERBOSE");
    return asked >= 0 ? asked : environment != nullptr ? std::atoi(environment) : 1;
}

Lattice checked_lattice(const milcgpu_layout &layout) {
    std::array<int, 4> extent;
    double volume = 1;
    for (int mu = 0; mu < 4; ++mu) {
        extent[mu] = layout.extent[mu];
        volume *= extent[mu];
        if (extent[mu] < 2 || extent[mu] % 2 != 0)
            refuse(format("layout.extent[%c] is %d: extents must be even and at least 2", "XYZT"[mu], extent[mu]));
    }
    if (volume > 5e8)
        refuse(format("%.0f sites on one device: at most 500000000 can be indexed", volume));
    return Lattice(extent, 0);
}

void create_context(const milcgpu_layout &layout, const milcgpu_options &options, milcgpu_context &context) {
    context.lattice = checked_lattice(layout);
    context.verbosity = choose_verbosity(options.verbosity);
    context.message = options.message;
    context.user = options.user;
    context.device = std::make_unique<Device>(choose_backend(options.backend), options.device);
    context.device->set_block(options.block_size);
    const int sites = context.lattice.volume();
    context.map = SiteMap(*context.device, layout.site_map, sites);
    context.reorder = std::make_unique<SpinorReorder>(*context.device, context.map, sites, context.even_sites());
    // The largest sums are over the links of one parity, and over the shifts of a multi-mass solve.
    reserve_sums(*context.device, 2 * sites);
    reserve_sums(*context.device, context.even_sites(), max_shifts);
    context.say(1, format("version %s, lattice %d x %d x %d x %d, %s backend: %s", MILCGPU_VERSION, layout.extent[0],
                          layout.extent[1], layout.extent[2], layout.extent[3], name(context.device->backend()),
                          context.device->description().c_str()));
}

void update_links(milcgpu_links &handle, const milcgpu_field *fat, const milcgpu_field *lng, int *changed) {
    const HostField fat_field = host_field(fat, 72, "fat links"), lng_field = host_field(lng, 72, "long links");
    if (fat_field.real != lng_field.real)
        refuse("fat and long links must have the same precision");
    const bool differ = renewed(handle, fat_field.real).update(fat_field, lng_field);
    forget_solvers(handle);
    if (changed != nullptr)
        *changed = differ;
}

struct SolveArguments {
    int parity;
    OperatorSpec precise, sloppy;
    CgLimits limits;
};

SolveArguments checked_solve(const milcgpu_solve_spec &spec) {
    require_size(spec.struct_size, sizeof spec, "milcgpu_solve_spec");
    SolveArguments a{};
    a.parity = parity_index(spec.parity);
    a.precise = operator_of(spec.precise, "spec.precise");
    a.sloppy = spec.sloppy.precision == 0 ? a.precise : operator_of(spec.sloppy, "spec.sloppy");
    check_pair(a.precise, a.sloppy);
    if (!std::isfinite(spec.mass))
        refuse(format("spec.mass is %g: must be finite (zero is legal)", spec.mass));
    const auto tolerance_ok = [](double t) { return t >= 0 && t < INFINITY; };
    if (!tolerance_ok(spec.tolerance) || !tolerance_ok(spec.relative_tolerance) ||
        !(spec.tolerance > 0 || spec.relative_tolerance > 0))
        refuse(format(
            "tolerance %g and relative_tolerance %g: each must be zero (not tested) or positive and finite, and one "
            "must be positive",
            spec.tolerance, spec.relative_tolerance));
    if (spec.max_iterations <= 0 || spec.max_restarts <= 0 || spec.max_iterations > 2000000000 / spec.max_restarts)
        refuse(format("max_iterations %d and max_restarts %d: both must be positive, their product below 2e9",
                      spec.max_iterations, spec.max_restarts));
    if (!(spec.reliable_delta >= 0 && spec.reliable_delta < 1))
        refuse(format("reliable_delta is %g: must be in (0, 1), or 0 for the default", spec.reliable_delta));
    if (!(spec.jump_limit >= 0))
        refuse(format("jump_limit is %g: must be positive, or 0 for the default", spec.jump_limit));
    a.limits.mass = spec.mass;
    a.limits.tolerance = spec.tolerance;
    a.limits.relative_tolerance = spec.relative_tolerance;
    a.limits.max_iterations = spec.max_iterations;
    a.limits.max_restarts = spec.max_restarts;
    a.limits.reliable_delta = spec.reliable_delta;
    if (spec.jump_limit > 0)
        a.limits.jump_limit = spec.jump_limit;
    return a;
}

void fill_report(const CgReport &r, const SolveArguments &a, milcgpu_solve_report &report) {
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
    report.solver_seconds = r.seconds;
    if (r.seconds > 0) {
        report.gflops = r.flops / r.seconds * 1e-9;
        report.gbytes_per_second = r.bytes / r.seconds * 1e-9;
    }
    report.reconstruct = a.precise.reals;
    report.sloppy_reconstruct = a.sloppy.reals;
    std::snprintf(report.message, sizeof report.message, "%s", r.message.c_str());
}

Status solve(milcgpu_context &context, milcgpu_links &links, const milcgpu_solve_spec &spec, const HostField &source,
             const HostField &solution, milcgpu_solve_report &report) {
    const double start = wall_seconds();
    const TransferCounters before = context.device->transfers();
    SolveArguments a = checked_solve(spec);
    report.links_version = resident(&context, &links).generation();
    check_version(spec.links_version, *links.links);
    CgSolver &solver = *cached_solver(context, links, a.parity, a.precise, a.sloppy).solver;
    context.reorder->to_device(source, a.parity, solver.source());
    context.reorder->to_device(solution, a.parity, solver.solution());
    CgProgress progress;
    if (spec.progress != nullptr)
        progress = [&spec](int step, double residual) { spec.progress(spec.user, step, residual); };
    const CgReport r = solver.solve(a.limits, progress);
    fill_report(r, a, report);
    if (r.status == Status::ok || r.status == Status::not_converged || r.status == Status::precision_floor)
        context.reorder->to_host(solver.solution(), a.parity, solution);
    report.bytes_to_device = context.device->transfers().to_device_bytes - before.to_device_bytes;
    report.bytes_to_host = context.device->transfers().to_host_bytes - before.to_host_bytes;
    report.seconds = wall_seconds() - start;
    context.say(2, format("solve %s/%s m %g: %s, %d iterations, true residual %.2e, %.4f s, %.1f GFLOPS",
                          name(a.precise.spinor), name(a.sloppy.spinor), spec.mass, milcgpu_status_name(report.status),
                          report.iterations, report.true_residual, report.seconds, report.gflops));
    if (r.status != Status::ok)
        last_error() = format("milcgpu_solve: %s", r.message.c_str());
    return r.status;
}

} // namespace

void milcgpu::print_plan(milcgpu_context &context, Precision host, const std::vector<OperatorSpec> &levels,
                         size_t vectors, char *text, size_t text_size, size_t *bytes) {
    std::set<std::pair<Precision, int>> packed; // 0 reals: fat links
    for (const OperatorSpec &level : levels) {
        if (level.link != host)
            packed.insert({level.link, 0});
        if (level.link != host || level.reals != 18)
            packed.insert({level.link, level.reals});
    }
    const size_t links = 8 * padded_stride(context.even_sites());
    size_t packed_bytes = 0;
    for (const auto &[precision, reals] : packed)
        packed_bytes += links * link_bytes(precision, reals == 0 ? 18 : reals);
    const size_t plain = 2 * links * link_bytes(host, 18), staging = context.lattice.volume() * 72 * real_bytes(host);
    const size_t used = context.device->used_bytes(), total = used + plain + staging + packed_bytes + vectors;
    const auto mib = [](size_t n) { return static_cast<double>(n) / 1048576.0; };
    const std::string table = format(
        "%10.1f MiB  in use\n%10.1f MiB  links as handed over\n%10.1f MiB  raw copy of host links (while loading)\n"
        "%10.1f MiB  packed links\n%10.1f MiB  vectors\n%10.1f MiB  in all, %.1f MiB free\n",
        mib(used), mib(plain), mib(staging), mib(packed_bytes), mib(vectors), mib(total),
        mib(context.device->free_bytes()));
    if (text != nullptr && text_size > 0)
        std::snprintf(text, text_size, "%s", table.c_str());
    if (bytes != nullptr)
        *bytes = total;
}

extern "C" {

const char *milcgpu_version(void) { return MILCGPU_VERSION; }

const char *milcgpu_last_error(void) { return last_error().c_str(); }

const char *milcgpu_status_name(int status) {
    static const char *const names[] = {"OK",           "NOT_CONVERGED", "PRECISION_FLOOR", "NAN_OR_INF",
                                        "NOT_POSITIVE", "BAD_ARGUMENT",  "NO_MEMORY",       "DEVICE_LOST",
                                        "COMM",         "NOT_BUILT",     "CORRUPTED",       "TIMED_OUT"};
    static_assert(static_cast<int>(Status::timed_out) == MILCGPU_TIMED_OUT &&
                      std::size(names) == MILCGPU_TIMED_OUT + 1,
                  "status codes of engine and interface agree");
    return status >= 0 && status < static_cast<int>(std::size(names)) ? names[status] : "UNKNOWN";
}

milcgpu_status milcgpu_init(const milcgpu_layout *layout, const milcgpu_options *options, milcgpu_context **context) {
    if (context != nullptr)
        *context = nullptr;
    return guarded(nullptr, "milcgpu_init", [&] {
        require(layout, "milcgpu_init", "layout");
        require(context, "milcgpu_init", "context");
        require_size(layout->struct_size, sizeof *layout, "milcgpu_layout");
        milcgpu_options defaults{};
        defaults.struct_size = sizeof defaults;
        defaults.verbosity = -1;
        const milcgpu_options &chosen = options != nullptr ? *options : defaults;
        require_size(chosen.struct_size, sizeof chosen, "milcgpu_options");
        auto fresh = std::make_unique<milcgpu_context>();
        create_context(*layout, chosen, *fresh);
        *context = fresh.release();
        return Status::ok;
    });
}

void milcgpu_finalize(milcgpu_context *context) { delete context; }

const char *milcgpu_device_name(const milcgpu_context *context) {
    return context != nullptr ? context->device->description().c_str() : "no context";
}

milcgpu_status milcgpu_backend_of(const milcgpu_context *context, int *backend) {
    return guarded(nullptr, "milcgpu_backend_of", [&] {
        require(context, "milcgpu_backend_of", "context");
        require(backend, "milcgpu_backend_of", "backend");
        *backend = context->device->on_gpu() ? MILCGPU_CUDA : MILCGPU_HOST;
        return Status::ok;
    });
}

milcgpu_status milcgpu_pin(milcgpu_context *context, void *address, size_t bytes) {
    return guarded(context, "milcgpu_pin", [&] {
        require(context, "milcgpu_pin", "context");
        require(address, "milcgpu_pin", "address");
        context->device->pin(address, bytes);
        return Status::ok;
    });
}

milcgpu_status milcgpu_unpin(milcgpu_context *context, void *address) {
    return guarded(context, "milcgpu_unpin", [&] {
        require(context, "milcgpu_unpin", "context");
        require(address, "milcgpu_unpin", "address");
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
        auto fresh = std::make_unique<milcgpu_links>();
        fresh->context = context;
        update_links(*fresh, fat, lng, nullptr);
        *links = fresh.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu_links_update(milcgpu_links *links, const milcgpu_field *fat, const milcgpu_field *lng,
                                    int *changed) {
    return guarded(links != nullptr ? links->context : nullptr, "milcgpu_links_update", [&] {
        require(links, "milcgpu_links_update", "links");
        update_links(*links, fat, lng, changed);
        return Status::ok;
    });
}

uint64_t milcgpu_links_version(const milcgpu_links *links) {
    return links != nullptr && links->links ? links->links->generation() : 0;
}

void milcgpu_links_destroy(milcgpu_links *links) {
    if (links == nullptr)
        return;
    links->context->forget(links, 0);
    delete links;
}

milcgpu_status milcgpu_dslash(milcgpu_context *context, milcgpu_links *links, const milcgpu_operator *what, int parity,
                              const milcgpu_field *source, const milcgpu_field *destination) {
    return guarded(context, "milcgpu_dslash", [&] {
        require(context, "milcgpu_dslash", "context");
        require(what, "milcgpu_dslash", "what");
        resident(context, links);
        OperatorSpec spec = operator_of(*what, "what");
        const int to = parity_index(parity);
        const HostField from_field = host_field(source, 6, "source"),
                        to_field = host_field(destination, 6, "destination");
        const LinkPair level = level_links(*links, spec);
        Device &device = *context->device;
        const SpinorField in(device, spec.spinor, context->lattice.sites(1 - to), "dslash vectors");
        const SpinorField out(device, spec.spinor, context->lattice.sites(to), "dslash vectors");
        context->reorder->to_device(from_field, 1 - to, in);
        DslashCall call{};
        call.lattice = context->lattice;
        call.parity = to;
        call.fat = level.fat, call.lng = level.lng;
        call.in = &in, call.out = &out;
        dslash(device, call, Epilogue::plain);
        context->reorder->to_host(out, to, to_field);
        return Status::ok;
    });
}

milcgpu_status milcgpu_residual(milcgpu_context *context, milcgpu_links *links, int parity, double mass,
                                const milcgpu_field *source, const milcgpu_field *solution, double *result) {
    return guarded(context, "milcgpu_residual", [&] {
        require(context, "milcgpu_residual", "context");
        require(result, "milcgpu_residual", "residual");
        const LinkPair full = resident(context, links).full();
        const int on = parity_index(parity);
        const HostField source_field = host_field(source, 6, "source"), x_field = host_field(solution, 6, "solution");
        Device &device = *context->device;
        const auto field = [&](int p) {
            return SpinorField(device, Precision::double_, context->lattice.sites(p), "vectors of a residual");
        };
        const SpinorField b = field(on), x = field(on), r = field(on), between = field(1 - on);
        const DeviceArray<double> sums(device, 2, "sums of a residual");
        context->reorder->to_device(source_field, on, b);
        context->reorder->to_device(x_field, on, x);
        residual(device, context->lattice, on, full, 4 * mass * mass, b, x, between, r, sums.data());
        norm_squared(device, b, sums.data() + 1);
        double rr_bb[2];
        device.copy_to_host(rr_bb, sums.data(), sizeof rr_bb);
        *result = rr_bb[0] == 0 ? 0 : std::sqrt(rr_bb[0] / rr_bb[1]);
        return Status::ok;
    });
}

milcgpu_status milcgpu_solve(milcgpu_context *context, milcgpu_links *links, const milcgpu_solve_spec *spec,
                             const milcgpu_field *source, const milcgpu_field *solution, milcgpu_solve_report *report) {
    milcgpu_solve_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = guarded(context, "milcgpu_solve", [&] {
        require(context, "milcgpu_solve", "context");
        require(spec, "milcgpu_solve", "spec");
        if (report != nullptr)
            require_size(report->struct_size, sizeof *report, "milcgpu_solve_report");
        resident(context, links);
        return solve(*context, *links, *spec, host_field(source, 6, "source"), host_field(solution, 6, "solution"),
                     filled);
    });
    if (report != nullptr && report->struct_size == sizeof filled) {
        filled.status = status;
        if (status != MILCGPU_OK)
            std::snprintf(filled.message, sizeof filled.message, "%s", last_error().c_str());
        *report = filled;
    }
    return status;
}

milcgpu_status milcgpu_memory_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                   char *text, size_t text_size, size_t *bytes) {
    return guarded(context, "milcgpu_memory_plan", [&] {
        require(context, "milcgpu_memory_plan", "context");
        require(spec, "milcgpu_memory_plan", "spec");
        const SolveArguments a = checked_solve(*spec);
        print_plan(*context, precision_of(host_precision, "host_precision"), {a.precise, a.sloppy},
                   CgSolver::workspace_bytes(context->even_sites(), a.precise, a.sloppy), text, text_size, bytes);
        return Status::ok;
    });
}

void milcgpu_list_kernels(void (*line)(void *user, const char *text), void *user) {
    line(user,
         format("%-8s %-8s %5s  %-9s %7s %7s  %s", "spinor", "link", "reals", "epilogue", "bytes", "flops", "file")
             .c_str());
    for (const DslashKernel &row : dslash_table())
        line(user, format("%-8s %-8s %5d  %-9s %7zu %7zu  %s", name(row.spinor), name(row.link), row.reals,
                          name(row.epilogue), dslash_bytes(row.spinor, row.link, row.reals, row.epilogue, 1),
                          dslash_flops(row.epilogue, 1), row.file)
                       .c_str());
    for (const DslashBatchKernel &row : dslash_batch_table())
        line(user, format("%-8s %-8s %5d  %-9s %7s %7s  %s", name(row.spinor), name(row.link), row.reals, "several", "",
                          "", row.file)
                       .c_str());
}

milcgpu_status milcgpu_inject_fault(milcgpu_context *context, int fault) {
    return guarded(context, "milcgpu_inject_fault", [&] {
        require(context, "milcgpu_inject_fault", "context");
        if (fault < MILCGPU_FAULT_NONE || fault > MILCGPU_FAULT_DEVICE_LOST)
            refuse(format("fault %d is unknown", fault));
        context->device->inject(static_cast<Fault>(fault));
        return Status::ok;
    });
}

} // extern "C"
