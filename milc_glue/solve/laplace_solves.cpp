// The C interface to the gauge Laplace operator of links of a measurement. What one rank may refuse alone is inside
// same_on_all_ranks() or Device::collective().
#include "gpu_kernels/laplace/laplace_operator.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/api/members.h"
#include "milc_glue/measure/meson_links_handle.h"
#include "milc_glue/solve/dry_run.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/solve_driver.h"
#include <cmath>
#include <optional>

using namespace milcgpu;

namespace {

class LaplaceFamily : public OperatorFamily {
  public:
    LaplaceFamily(milcgpu_meson_links &links, int directions, double kappa)
        : OperatorFamily(*links.context), links_(links), tag_(links.on_box().tag()), directions_(directions),
          kappa_(kappa) {}
    SolverKey key() const override { return {&links_, tag_, &links_, 0, {double(directions_), kappa_}, {}, {}}; }
    size_t most_kept() const override { return 2; }
    void grant(OperatorSpec &spec) override { links_.version(spec); }
    OperatorMaker maker() override {
        return [&links = links_, directions = directions_, kappa = kappa_](OperatorSpec &spec) {
            const ResidentField::Held u = links.version(spec); // stays as long as the operator does
            return Operator(new LaplaceOperator(links.geometry(), 0, spec, *u, directions, kappa, links.halo()),
                            [u](const LaplaceOperator *A) { delete A; });
        };
    }
    void empty() override { links_.clear(); }

  private:
    milcgpu_meson_links &links_;
    uint64_t tag_;
    int directions_;
    double kappa_;
};

// ---- arguments

void find_laplace_of(const OperatorSpec &spec, int directions) { // throws not_built
    find_laplace(spec.spinor, spec.reals, directions, Epilogue::residual);
}

using Places = std::vector<VectorPlace>;

// ---- application

// How many vectors D takes at once; links are loaded once for four of them.
constexpr int most_at_once = 12;

// All results are computed before the first is written.
void apply(milcgpu_meson_links &links, const LinkField &field, int directions, double kappa, bool matrix,
           const std::vector<int> &parities, const Places &from, const Places &to) {
    Device &device = links.device();
    const int n = static_cast<int>(from.size()), scratch = std::min(n, most_at_once);
    const auto fields = [&](int parity, int count) {
        return SpinorField(device, field.precision(), links.geometry(), parity, "Laplace vectors", count);
    };
    SpinorField in[2], out[2];
    device.collective("memory for Laplace vectors", [&] {
        for (const int on : parities)
            out[on] = fields(on, n);
        for (const int on : {0, 1})
            if (matrix || out[1 - on])
                in[on] = fields(on, scratch);
    });
    for (int first = 0; first < n; first += scratch) {
        const int count = std::min(scratch, n - first);
        device.collective("the loading of vectors", [&] {
            for (const int on : {0, 1})
                for (int k = 0; k < count && in[on]; ++k)
                    from[first + k].read(*links.context, on, in[on][k]);
        });
        for (const int on : parities) {
            auto call = call_on<LaplaceCall>({}, links.geometry().lattice(), on);
            call.halo = links.halo();
            call.directions = directions, call.links = &field, call.kappa = kappa;
            call.in = in[1 - on].block().first(count), call.out = out[on].block().from(first).first(count);
            call.x = in[on].block().first(count);
            call.a = 1;
            call.links_at_rest = true; // the vectors came after them
            laplace(device, call, matrix ? Epilogue::normal : Epilogue::plain);
        }
    }
    for (const int on : parities)
        for (int k = 0; k < n; ++k)
            require_finite(device, out[on][k], links.geometry(), on, "the result");
    links.look_at_used();
    device.collective("the copy of results", [&] {
        for (const int on : parities)
            for (int k = 0; k < n; ++k)
                to[k].write(*links.context, on, out[on][k]);
    });
}

// ---- solves

SolveTask checked(const milcgpu_laplace_solve_spec &spec, int n) {
    SolveTask task{{"milcgpu_laplace_solve", n, spec.together, true}, {}, {}, {}};
    check_laplace(spec.directions, spec.kappa);
    task.a = arguments_of(spec, [&](const OperatorSpec &of) { find_laplace_of(of, spec.directions); });
    task.a.limits.shift = LaplaceOperator::shift;
    check_together(spec.together, n);
    task.each.tolerances.assign(n, spec.tolerance), task.each.max_iterations.assign(n, spec.max_iterations);
    task.each.loose = ladder::is_loose(spec.tolerance) ? n : 0;
    return task;
}

// Sources of a call, solved by the even-odd system in double.
class LaplaceSources : public SourcesOfCall {
  public:
    LaplaceSources(milcgpu_meson_links &links, const milcgpu_laplace_solve_spec &spec, Places sources, Places solutions)
        : links_(links), spec_(spec), sources_(std::move(sources)), solutions_(std::move(solutions)) {
        device().collective("memory for Laplace sources", [&] {
            sums_ = {device(), 2, "sums of the Laplace operator"};
            r_ = SpinorField(device(), Precision::double_, links.geometry(), 0, "Laplace residual");
        });
    }
    // With groups of `sources`: b_ on both parities, and x_odd_.
    static size_t bytes(const Geometry &geometry, int sources) {
        const auto field = [&](int count) { return SpinorField::allocated_bytes(Precision::double_, geometry, count); };
        return Device::allocated_bytes(2 * sizeof(double)) + field(1) + 3 * field(sources);
    }
    // The residual of the even-odd system is the residual on all sites; the system's tolerance follows from that.
    void load(Group &group, Verification &verification) override {
        const int count = group.count;
        if (b_[0].sources() != count)
            device().collective("memory for Laplace sources", [&] {
                for (const int on : {0, 1})
                    b_[on] = SpinorField(device(), Precision::double_, links_.geometry(), on, "Laplace sources", count);
                x_odd_ = SpinorField(device(), Precision::double_, links_.geometry(), 1, "Laplace solutions", count);
            });
        norm_.assign(count, 0);
        device().collective("the loading of sources", [&] {
            for (int k = 0; k < count; ++k) {
                solutions_[group.first + k].read(*links_.context, 0, group.x[k]);
                for (const int on : {0, 1})
                    sources_[group.first + k].read(*links_.context, on, b_[on][k]);
            }
        });
        for (int k = 0; k < count; ++k)
            leave_out_if(group, k, [&] {
                const int number = group.first + k;
                for (const int on : {0, 1})
                    require_finite(device(), b_[on][k], links_.geometry(), on, format("sources[%d]", number).c_str());
                require_finite(device(), group.x[k], links_.geometry(), 0,
                               format("the guess solutions[%d]", number).c_str());
                norm_[k] = norm_of({b_[0][k], b_[1][k]});
                if (!(norm_[k] < INFINITY))
                    throw Error(Status::nan_or_inf,
                                "source: its norm is too large for double precision to square. Multiply source, guess "
                                "and solution by a power of two");
            });
        for (const SpinorField &b : b_)
            verification.loaded(b.block());
        full(group).add_neighbours(device(), 0, 0, {b_[0], b_[0], b_[1], group.b});
        verification.loaded(group.b);
        for (int k = 0; k < count; ++k) {
            const double even = norm_of({group.b[k]});
            if (even > 0)
                group.of[k].tolerance = 0.999 * group.of[k].wanted * norm_[k] / even; // less: rounding of odd sites
        }
    }
    void complete(Group &group) override {
        const LaplaceOperator &M = full(group);
        M.add_neighbours(device(), 1, 0, {b_[1], b_[1], group.x, x_odd_});
        for (int k = 0; k < group.count; ++k) {
            SourceOnTheWay &source = group.of[k];
            if (source.ended)
                continue;
            source.ended = true;
            CgReport &report = source.report;
            M.add_neighbours(device(), 0, 1, {b_[0][k], group.x[k], x_odd_[k], r_}, sums_.data());
            M.add_neighbours(device(), 1, 1, {b_[1][k], x_odd_[k], group.x[k], r_}, sums_.data() + 1);
            const std::vector<double> rr = sums_.to_host();
            const double even_norm = report.source_norm; // of the even-odd system
            report.source_norm = norm_[k];
            report.true_residual = norm_[k] > 0 ? std::sqrt(rr[0] + rr[1]) / norm_[k] : 0;
            report.recursion_residual *= norm_[k] > 0 ? even_norm / norm_[k] : 0;
            const bool floor = report.status == Status::ok && norm_[k] > 0 && !(report.true_residual < source.wanted);
            if (floor)
                report.status = Status::precision_floor;
            // The solver's message names residual and tolerance of the even-odd system.
            if (report.status != Status::ok && is_answer(report.status))
                report.message =
                    why_it_ended_early(report, source.wanted, 0, floor ? Precision::double_ : group.precise);
        }
    }
    void write(const Group &group, int k) override {
        solutions_[group.first + k].write(*links_.context, 0, group.x[k]);
        solutions_[group.first + k].write(*links_.context, 1, x_odd_[k]);
    }
    void add_checked_regions(std::vector<Region> &regions) const override { regions = links_.with_used(regions); }
    // If the caller gives none. Solves take some 20 steps, each a factor of 3, so at a factor of 10 true residuals
    // would cost as much as the steps. Measured at 8^3 x 16, m^2 from 0.001 to 1, links near unity and far from it: as
    // many steps as at a factor of 10, with 3 and 4 true residuals instead of 8. At a factor of 10 residuals also jump
    // by a tenth of themselves, and half precision takes 10 % more steps.
    double reliable_delta(double asked, Precision sloppy) const override {
        return asked > 0 ? asked : sloppy == Precision::half ? 1e-2 : 1e-3;
    }
    std::string name() const override { return "Laplace solve"; }
    std::string parameters() const override {
        return format("kappa %g in %d directions", spec_.kappa, spec_.directions);
    }

  private:
    Device &device() const { return links_.device(); }
    static const LaplaceOperator &full(const Group &group) {
        return static_cast<const LaplaceOperator &>(*group.solver.operators.full);
    }
    double norm_of(const std::vector<SpinorBlock> &fields) const { // at most two
        for (size_t k = 0; k < fields.size(); ++k)
            norm_squared(device(), fields[k], sums_.data() + k);
        const std::vector<double> sums = sums_.to_host();
        return std::sqrt(fields.size() > 1 ? sums[0] + sums[1] : sums[0]);
    }
    // Runs look(). If it throws, source k has ended and is left out.
    template <class Look> void leave_out_if(Group &group, int k, const Look &look) {
        group.look(k, look);
        if (group.of[k].ended)
            for (const SpinorBlock &field : {b_[0][k], b_[1][k], group.x[k]})
                device().fill_zero(field.data, field.bytes());
    }
    milcgpu_meson_links &links_;
    const milcgpu_laplace_solve_spec &spec_;
    Places sources_, solutions_;
    SpinorField b_[2], x_odd_, r_; // r_: room for a residual of either parity
    DeviceArray<double> sums_;
    std::vector<double> norm_; // |b|
};

} // namespace

extern "C" milcgpu_status milcgpu_laplace_apply(milcgpu_meson_links *links, const milcgpu_laplace_spec *spec,
                                                int matrix, int parity, int n, const milcgpu_quarks *from,
                                                const milcgpu_quarks *to) {
    constexpr const char *function = "milcgpu_laplace_apply";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        const bool whole = matrix == MILCGPU_LAPLACE_M;
        milcgpu_laplace_spec full{};
        OperatorSpec what{};
        std::vector<int> parities;
        Places read, made;
        same_on_all_ranks(*l.context, function, [&](CallArguments &call) {
            need_links(l);
            call("matrix", matrix, from_to(0, 1, "MILCGPU_LAPLACE_D (0) or MILCGPU_LAPLACE_M (1)"));
            full = call.copy_of("spec", spec, [whole](milcgpu_laplace_spec &given) {
                given.kappa = whole ? given.kappa : 1; // the caller's is not read
            });
            if (whole)
                check_laplace(full.directions, full.kappa);
            what = operator_of(full.what, "spec.what",
                               [&](const OperatorSpec &of) { find_laplace_of(of, full.directions); });
            parities = parities_of(call("parity", parity));
            call("n", n, from_to(1, 1000));
            read = places_of(call, l, from, n, "from"), made = places_of(call, l, to, n, "to");
            require_apart(occupied(*l.context, "to", true, made, parities.size() > 1 ? Parity() : Parity(parities[0])));
        });
        l.on_box();
        const ResidentField::Held held = l.version(what);
        apply(l, *held, full.directions, full.kappa, whole, parities, read, made);
        return [n, whole] { return format("Laplace %s of %d fields", whole ? "matrix" : "sum", n); };
    });
}

extern "C" milcgpu_status milcgpu_laplace_solve(milcgpu_meson_links *links, const milcgpu_laplace_solve_spec *spec,
                                                int n, const milcgpu_quarks *sources, const milcgpu_quarks *solutions,
                                                milcgpu_solve_report *reports) {
    constexpr const char *function = "milcgpu_laplace_solve";
    Status outcome = Status::ok;
    const milcgpu_status status = with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        std::optional<SolveTask> task;
        Places from, to;
        std::vector<milcgpu_solve_report> filled;
        milcgpu_laplace_solve_spec full{};
        same_on_all_ranks(*l.context, function, [&](CallArguments &call) {
            need_links(l);
            call("n", n, from_to(1, 1000));
            full = call.copy_of("spec", spec);
            task = checked(full, n);
            task->progress = progress_of(*l.context, full);
            from = places_of(call, l, sources, n, "sources"), to = places_of(call, l, solutions, n, "solutions");
            require_apart(occupied(*l.context, "sources", false, from), occupied(*l.context, "solutions", true, to));
            filled = empty_reports(n);
            require_sizes(reports, n);
        });
        LaplaceFamily family(l, full.directions, full.kappa);
        LaplaceSources fields(l, full, from, to);
        outcome = solve_in_groups(family, fields, *task, filled);
        copy_to_caller(filled, reports);
        return [n] { return format("Laplace solve of %d sources", n); };
    });
    return status == MILCGPU_OK ? static_cast<milcgpu_status>(outcome) : status;
}

extern "C" milcgpu_status milcgpu_laplace_plan(milcgpu_meson_links *links, const milcgpu_laplace_solve_spec *spec,
                                               int n, char *text, size_t text_size, size_t *bytes) {
    constexpr const char *function = "milcgpu_laplace_plan";
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        require(spec, function, "spec");
        CallArguments()("n", n, from_to(1, 1000));
        const milcgpu_laplace_solve_spec full = checked_copy("spec", *spec);
        const SolveTask task = checked(full, n);
        const SolveArguments &a = task.a;
        const Geometry &geometry = links->geometry();
        const int sources = sources_at_once(n, full.together, task.each.loose > 0);
        const LinkField none;
        const OperatorMaker make = [&](OperatorSpec &of) {
            return std::make_shared<const LaplaceOperator>(geometry, 0, of, none, full.directions, full.kappa);
        };
        DryRun run;
        run.make_solver(make, in_double, a.precise, a.sloppy, sources);
        const MemoryPlan plan = run.plan([&] {
            MemoryPlan now{};
            now.links = links->bytes_on_box();
            now.packed = ResidentField::bytes_of(run.versions, links->precision, geometry);
            now.vectors = run.device.used_bytes() + LaplaceSources::bytes(geometry, sources);
            return now;
        });
        fill_plan(*links->context, plan, text, text_size, bytes);
        return Status::ok;
    });
}
