// The C interface to the gauge Laplace operator: links of a measurement, packed as an operator asks for them, and the
// solvers that are kept with them. On many ranks what one of them may refuse alone is inside agreed() or agree().
#include "gpu_kernels/operators/laplace.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/mesons.h"
#include "milc_glue/milcgpu_laplace.h"
#include "milc_glue/verify.h"
#include <cmath>

using namespace milcgpu;

namespace {

using Links = ResidentField::Held;
constexpr int hops = 1; // of a link

struct HoldingOperator : LaplaceOperator {
    Links held;
    HoldingOperator(const Geometry &geometry, Halo *halo, const OperatorSpec &spec, const Links &links, int directions,
                    double kappa)
        : LaplaceOperator(geometry, 0, spec, *links, directions, kappa, halo), held(links) {}
};

struct Solver {
    int directions;
    double kappa;
    OperatorSpec precise, sloppy;
    std::shared_ptr<const HoldingOperator> full;
    CgOperators operators;
    std::unique_ptr<CgSolver> one;
    std::unique_ptr<BlockCgSolver> several; // what it leaves goes through `one`; made when first needed
};
constexpr size_t kept_solvers = 2;

} // namespace

// What is kept with the links of a measurement until others are loaded.
struct milcgpu::LaplaceKept {
    ResidentField links;       // on the box
    std::list<Solver> solvers; // the last used first
    explicit LaplaceKept(const milcgpu_meson_links &of)
        : links(of.device(), of.geometry(), "gauge links", of.context->warn(), hops, of.halo()) {}
};

namespace {

// As loaded. Where the lattice is cut: on the box, with the ghosts that backward terms read.
Links links_as_loaded(milcgpu_meson_links &links) {
    if (links.halo() == nullptr)
        return Links(Links(), &links.u);
    std::shared_ptr<LinkField> made;
    links.device().agree("memory for gauge links", [&] {
        made = std::make_shared<LinkField>(links.device(), links.precision, 18, links.geometry(), "gauge links");
        made->clear(); // padding counts in checksums
    });
    links.halo()->crop(links.u, links.box, *made);
    links.halo()->exchange_backward(*made, hops);
    links.device().agree("a checksum of gauge links", [&] { made->checksum = made->sum_of_content(); });
    return made;
}

// All calls on one handle; it stays to the end of a call, which stands on all links that others are packed from.
std::shared_ptr<LaplaceKept> kept_with(milcgpu_meson_links &links) {
    links.uses(links.u);
    if (!links.laplace) {
        const auto made = std::make_shared<LaplaceKept>(links);
        made->links.hold(links_as_loaded(links), links.statistics);
        links.laplace = made;
    }
    links.uses(links.laplace->links.as_given());
    return links.laplace;
}

// In the precision and reals of spec; spec.reals becomes what was granted.
Links links_for(milcgpu_meson_links &links, LaplaceKept &kept, OperatorSpec &spec) {
    const Links held = kept.links.version(spec.link, spec.reals);
    spec.reals = held->reals();
    links.uses(*held);
    return held;
}

std::shared_ptr<const HoldingOperator> operator_with(milcgpu_meson_links &links, LaplaceKept &kept, OperatorSpec &spec,
                                                     int directions, double kappa) {
    const Links held = links_for(links, kept, spec);
    return std::make_shared<HoldingOperator>(links.geometry(), links.halo(), spec, held, directions, kappa);
}

// ---- arguments

OperatorSpec laplace_spec(const milcgpu_operator &given, int directions, const char *what) {
    OperatorSpec spec;
    spec.spinor = precision_of(given.precision, format("%s.precision", what).c_str());
    spec.link = spec.spinor;
    if (given.link_precision != 0 && given.link_precision != given.precision)
        throw Error(
            Status::not_built,
            format("%s.link_precision is %d, %s.precision %d: Laplace kernels are built for vectors and links of "
                   "one precision (0 means the same)",
                   what, given.link_precision, what, given.precision));
    spec.reals = given.reconstruct == 0 ? 18 : given.reconstruct;
    find_laplace(spec.spinor, spec.reals, directions, Epilogue::residual);
    return spec;
}

using Places = std::vector<VectorPlace>;

Places places_of(milcgpu_meson_links &links, const milcgpu_quarks *quarks, int n, const char *what) {
    require(quarks, what, "the vectors");
    if ((quarks->host == nullptr) == (quarks->device == nullptr))
        refuse(format("%s: one of host and device must be given, the other is NULL", what));
    Places places;
    for (int k = 0; k < n; ++k) {
        const std::string one = format("%s[%d]", what, k);
        if (quarks->host != nullptr)
            places.emplace_back(host_field(&quarks->host[k], 6, one.c_str()));
        else
            places.emplace_back(links.context, milcgpu_vector{quarks->device, quarks->first + k}, one.c_str());
    }
    return places;
}

void check_count(int n) {
    if (n < 1 || n > 1000)
        refuse(format("n is %d: 1 to 1000 vectors", n));
}

// ---- application

// Of vectors that are applied to at once: links are loaded once for four of them.
constexpr int most_at_once = 12;

// All results are there before the first is written.
void apply(milcgpu_meson_links &links, const LinkField &field, int directions, double kappa, bool matrix,
           const std::vector<int> &parities, const Places &from, const Places &to) {
    Device &device = links.device();
    const int n = static_cast<int>(from.size()), room = std::min(n, most_at_once);
    const auto fields = [&](int parity, int count) {
        return SpinorField(device, field.precision(), links.geometry(), parity, "Laplace vectors", count);
    };
    SpinorField in[2], out[2];
    device.agree("memory for Laplace vectors", [&] {
        for (const int on : parities)
            out[on] = fields(on, n);
        for (const int on : {0, 1})
            if (matrix || out[1 - on])
                in[on] = fields(on, room);
    });
    for (int first = 0; first < n; first += room) {
        const int count = std::min(room, n - first);
        device.agree("the loading of vectors", [&] {
            for (const int on : {0, 1})
                for (int k = 0; k < count && in[on]; ++k)
                    from[first + k].read(*links.context, on, in[on][k]);
        });
        for (const int on : parities) {
            LaplaceCall call{};
            call.lattice = links.geometry().lattice();
            call.halo = links.halo();
            call.parity = on;
            call.directions = directions;
            call.links = &field;
            call.kappa = kappa;
            call.in = in[1 - on].block().first(count), call.out = out[on].block().from(first).first(count);
            call.x = in[on].block().first(count);
            call.a = 1;
            call.links_at_rest = true; // the vectors came after them
            laplace(device, call, matrix ? Epilogue::normal : Epilogue::plain);
        }
    }
    for (const int on : parities)
        for (int k = 0; k < n; ++k)
            require_finite(device, out[on][k], on, "the result");
    links.look_at_used();
    device.agree("the copy of results", [&] {
        for (const int on : parities)
            for (int k = 0; k < n; ++k)
                to[k].write(*links.context, on, out[on][k]);
    });
}

std::vector<int> parities_of(int parity) {
    if (parity == MILCGPU_EVEN + MILCGPU_ODD)
        return {0, 1};
    if (parity != MILCGPU_EVEN && parity != MILCGPU_ODD)
        refuse(format("parity is %d: must be MILCGPU_EVEN (2), MILCGPU_ODD (1) or their sum", parity));
    return {parity == MILCGPU_EVEN ? 0 : 1};
}

// ---- solves

struct Arguments {
    OperatorSpec precise, sloppy;
    Together together; // of several
    bool apart;        // one by one, whatever their number
};

Arguments checked(const milcgpu_meson_links &links, const milcgpu_laplace_solve_spec &spec, int n) {
    Arguments a{};
    check_laplace(spec.directions, spec.kappa);
    a.precise = laplace_spec(spec.precise, spec.directions, "spec.precise");
    a.sloppy = spec.sloppy.precision == 0 ? a.precise : laplace_spec(spec.sloppy, spec.directions, "spec.sloppy");
    check_pair(a.precise, a.sloppy);
    if (!(spec.tolerance > 0 && spec.tolerance < INFINITY))
        refuse(format("tolerance is %g: must be positive and finite", spec.tolerance));
    check_limits(spec.max_iterations, spec.max_restarts, spec.reliable_delta, spec.jump_limit);
    if (spec.together < MILCGPU_TOGETHER_AUTO || spec.together > MILCGPU_ONE_BY_ONE)
        refuse(format("together is %d: must be one of milcgpu_together (0 to %d)", spec.together, MILCGPU_ONE_BY_ONE));
    a.together = spec.together == MILCGPU_LOCK_STEP ? Together::lock_step : Together::block;
    const double sites = 0.5 * links.geometry().global_volume() / links.context->ranks->size();
    a.apart = n == 1 || spec.together == MILCGPU_ONE_BY_ONE ||
              (spec.together == MILCGPU_TOGETHER_AUTO &&
               !ladder::together_pays(n, sites, a.sloppy.spinor == Precision::half, links.device().on_gpu()));
    return a;
}

// What all ranks must have alike.
Numbers numbers_of(const milcgpu_laplace_solve_spec &spec, const Arguments &a, int n) {
    return {{"spec.directions", double(spec.directions)},
            {"spec.kappa", spec.kappa},
            {"spec.tolerance", spec.tolerance},
            {"spec.max_iterations", double(spec.max_iterations)},
            {"spec.max_restarts", double(spec.max_restarts)},
            {"spec.precise", code_of(a.precise)},
            {"spec.sloppy", code_of(a.sloppy)},
            {"spec.reliable_delta", spec.reliable_delta},
            {"spec.jump_limit", spec.jump_limit},
            {"spec.together", double(spec.together)},
            {"n", double(n)}};
}

// One that was kept, or a new one. a becomes what was granted.
Solver &solver_for(milcgpu_meson_links &links, const std::shared_ptr<LaplaceKept> &kept,
                   const milcgpu_laplace_solve_spec &spec, Arguments &a) {
    const int directions = spec.directions;
    const double kappa = spec.kappa;
    Solver fresh{directions, kappa, {}, {}, nullptr, {}, nullptr, nullptr};
    OperatorSpec full{Precision::double_, Precision::double_, 18};
    fresh.full = operator_with(links, *kept, full, directions, kappa);
    fresh.operators.full = fresh.full;
    fresh.operators.precise = operator_with(links, *kept, a.precise, directions, kappa);
    fresh.operators.sloppy = operator_with(links, *kept, a.sloppy, directions, kappa);
    fresh.precise = a.precise, fresh.sloppy = a.sloppy;
    // What is kept ends with the links, and the solver with what is kept.
    if (a.sloppy.spinor == Precision::half && a.precise.spinor != Precision::half)
        fresh.operators.finer = [&links, own = kept.get(), directions, kappa, reals = a.sloppy.reals] {
            OperatorSpec spec{Precision::single, Precision::single, reals};
            return operator_with(links, *own, spec, directions, kappa);
        };
    auto &solvers = kept->solvers;
    for (auto entry = solvers.begin(); entry != solvers.end(); ++entry)
        if (entry->directions == directions && entry->kappa == kappa && entry->precise == a.precise &&
            entry->sloppy == a.sloppy) {
            solvers.splice(solvers.begin(), solvers, entry);
            return solvers.front();
        }
    if (solvers.size() >= kept_solvers)
        solvers.pop_back();
    links.device().agree("memory for a solver",
                         [&] { fresh.one = std::make_unique<CgSolver>(links.device(), fresh.operators); });
    solvers.push_front(std::move(fresh));
    return solvers.front();
}

// With room for `most` sources, or fewer where memory is short.
BlockCgSolver &block_solver(milcgpu_meson_links &links, LaplaceKept &kept, Solver &solver, int most) {
    OperatorSpec spec = ladder::of_several(solver.sloppy);
    if (solver.several && solver.several->sources() >= most)
        return *solver.several;
    solver.several.reset(); // its memory first
    const Operator A = operator_with(links, kept, spec, solver.directions, solver.kappa);
    make_for_most(most, [&](int room) {
        links.device().agree("memory for several sources", [&] {
            solver.several =
                std::make_unique<BlockCgSolver>(links.device(), solver.operators.full, A, room, *solver.one);
        });
    });
    return *solver.several;
}

// The fall of the sloppy residual between two evaluations, where the caller names none. Solves take some 20 steps, a
// factor of 3 each, so evaluations at a tenth would cost as much as the steps. Measured at 8^3 x 16, m^2 from 0.001 to
// 1, links near unity and far from it: no step more than at a tenth, and 3 and 4 evaluations for 8. With a tenth of
// these residuals jump by a tenth of themselves, and half precision takes 10 % more steps.
double reliable_delta(const milcgpu_laplace_solve_spec &spec, Precision sloppy) {
    return spec.reliable_delta > 0 ? spec.reliable_delta : sloppy == Precision::half ? 1e-2 : 1e-3;
}

// A group of sources on its way through the even-odd system, in double.
class Group {
  public:
    Group(milcgpu_meson_links &links, const LaplaceOperator &full, int count)
        : links_(links), full_(full), count_(count), norm_(count), bad_(count) {
        device().agree("memory for Laplace sources", [&] {
            sums_ = {device(), 2, "sums of the Laplace operator"};
            for (const int on : {0, 1})
                b_[on] = SpinorField(device(), Precision::double_, links.geometry(), on, "Laplace sources", count);
            x_odd_ = SpinorField(device(), Precision::double_, links.geometry(), 1, "Laplace solutions", count);
            r_ = SpinorField(device(), Precision::double_, links.geometry(), 0, "Laplace residual");
        });
    }
    // b and the source of the even-odd system to `source`, the guess to `guess`. A source that cannot be solved for
    // counts as zero meanwhile.
    void load(Verification &verification, const Places &sources, const Places &solutions, int first,
              const SpinorBlock &source, const SpinorBlock &guess) {
        bad_.assign(count_, "");
        device().agree("the loading of sources", [&] {
            for (int k = 0; k < count_; ++k) {
                solutions[first + k].read(*links_.context, 0, guess[k]);
                for (const int on : {0, 1})
                    sources[first + k].read(*links_.context, on, b_[on][k]);
            }
        });
        for (int k = 0; k < count_; ++k)
            look_for_nan(first + k, k, guess);
        for (const SpinorField &b : b_)
            verification.loaded(b.block());
        for (int k = 0; k < count_; ++k) {
            for (const int on : {0, 1})
                norm_squared(device(), b_[on][k], sums_.data() + on);
            const std::vector<double> norms = sums_.to_host();
            norm_[k] = std::sqrt(norms[0] + norms[1]);
        }
        full_.add_neighbours(device(), 0, b_[0], b_[1], source);
        verification.loaded(source);
    }
    // The tolerance for source k of the even-odd system: its residual is that of all sites.
    double tolerance(int k, double of_all, const SpinorBlock &source) const {
        norm_squared(device(), source[k], sums_.data());
        const double even = std::sqrt(sums_.to_host()[0]);
        return even > 0 ? 0.999 * of_all * norm_[k] / even : of_all; // less: rounding of odd sites
    }
    // The odd sites of the solutions x, and what there is to say about them.
    void finish(const SpinorBlock &x, double tolerance, Precision precise, std::vector<milcgpu_solve_report> &reports,
                int first) {
        full_.add_neighbours(device(), 1, b_[1], x, x_odd_);
        for (int k = 0; k < count_; ++k) {
            milcgpu_solve_report &report = reports[first + k];
            full_.residual_on(device(), 0, b_[0][k], x[k], x_odd_[k], r_, sums_.data());
            full_.residual_on(device(), 1, b_[1][k], x_odd_[k], x[k], r_, sums_.data() + 1);
            const std::vector<double> rr = sums_.to_host();
            const double even_norm = report.source_norm; // of the even-odd system
            report.source_norm = norm_[k];
            report.true_residual = norm_[k] > 0 ? std::sqrt(rr[0] + rr[1]) / norm_[k] : 0;
            report.recursion_residual *= norm_[k] > 0 ? even_norm / norm_[k] : 0;
            if (!bad_[k].empty()) {
                report.status = MILCGPU_NAN_OR_INF;
                std::snprintf(report.message, sizeof report.message, "%s", bad_[k].c_str());
            } else {
                say_why(report, k, tolerance, precise);
            }
        }
    }
    void deliver(const Places &solutions, const SpinorBlock &x, const std::vector<milcgpu_solve_report> &reports,
                 int first) const {
        device().agree("the copy of solutions", [&] {
            for (int k = 0; k < count_; ++k)
                if (is_answer(static_cast<Status>(reports[first + k].status))) {
                    solutions[first + k].write(*links_.context, 0, x[k]);
                    solutions[first + k].write(*links_.context, 1, x_odd_[k]);
                }
        });
    }

  private:
    Device &device() const { return links_.device(); }
    // The message of a solve names the residual and the tolerance of the even-odd system.
    void say_why(milcgpu_solve_report &report, int k, double tolerance, Precision precise) const {
        const bool floor = report.status == MILCGPU_OK && norm_[k] > 0 && !(report.true_residual < tolerance);
        if (floor)
            report.status = MILCGPU_PRECISION_FLOOR;
        CgReport of;
        of.status = static_cast<Status>(report.status);
        if (of.status == Status::ok || !is_answer(of.status))
            return;
        of.iterations = report.iterations, of.restarts = report.restarts;
        of.true_residual = report.true_residual;
        std::snprintf(report.message, sizeof report.message, "%s",
                      why_it_ended_early(of, tolerance, 0, floor ? Precision::double_ : precise).c_str());
    }
    void look_for_nan(int number, int k, const SpinorBlock &guess) {
        try {
            for (const int on : {0, 1})
                require_finite(device(), b_[on][k], on, format("sources[%d]", number).c_str());
            require_finite(device(), guess[k], 0, format("the guess solutions[%d]", number).c_str());
        } catch (const Error &error) {
            if (error.status() != Status::nan_or_inf)
                throw;
            bad_[k] = error.what();
            for (const SpinorBlock &field : {b_[0][k], b_[1][k], guess[k]})
                device().fill_zero(field.data, field.bytes());
        }
    }
    milcgpu_meson_links &links_;
    const LaplaceOperator &full_;
    int count_;
    SpinorField b_[2], x_odd_, r_; // r_: room for a residual of either parity
    DeviceArray<double> sums_;
    std::vector<double> norm_;     // |b|
    std::vector<std::string> bad_; // of a source with NaN or infinity, in it or in its guess: what there is
};

void fill(const CgReport &r, const Arguments &a, milcgpu_solve_report &report) {
    SolveArguments as_solve{};
    as_solve.precise = a.precise, as_solve.sloppy = a.sloppy;
    fill_report(r, as_solve, report);
}

// Sources first to first + count: at once, or one.
void solve_group(milcgpu_meson_links &links, LaplaceKept &kept, Solver &solver, const milcgpu_laplace_solve_spec &spec,
                 const Arguments &a, const Places &sources, const Places &solutions, int first, int count,
                 std::vector<milcgpu_solve_report> &reports) {
    const CallMeter meter(links.device());
    const CgProgress progress = progress_of(*links.context, spec);
    Group group(links, *solver.full, count);
    BlockCgSolver *const several = a.apart ? nullptr : &block_solver(links, kept, solver, count);
    const SpinorBlock source = a.apart ? solver.one->source().block() : several->all_sources().first(count);
    const SpinorBlock x = a.apart ? solver.one->solution().block() : several->all_solutions().first(count);
    const auto solve_one = [&] {
        CgLimits limits{};
        limits.shift = LaplaceOperator::shift;
        limits.tolerance = group.tolerance(0, spec.tolerance, source);
        limits.max_iterations = spec.max_iterations, limits.max_restarts = spec.max_restarts;
        limits.reliable_delta = reliable_delta(spec, a.sloppy.spinor), limits.jump_limit = spec.jump_limit;
        fill(solver.one->solve(limits, progress), a, reports[first]);
    };
    const auto solve_several = [&] {
        SourcesLimits limits{};
        limits.shift = LaplaceOperator::shift;
        limits.together = a.together;
        for (int k = 0; k < count; ++k)
            limits.tolerances.push_back(group.tolerance(k, spec.tolerance, source));
        limits.max_iterations.assign(count, spec.max_iterations), limits.max_restarts = spec.max_restarts;
        limits.reliable_delta = reliable_delta(spec, several->spec().spinor), limits.jump_limit = spec.jump_limit;
        const SourcesReport r = several->solve(limits, progress);
        for (int k = 0; k < count; ++k) {
            fill(r.sources[k], a, reports[first + k]);
            reports[first + k].solver_seconds = r.seconds / count;
            reports[first + k].gflops = r.flops / r.seconds * 1e-9;
            reports[first + k].gbytes_per_second = r.bytes / r.seconds * 1e-9;
        }
    };
    const auto solve = [&](Verification &verification) {
        group.load(verification, sources, solutions, first, source, x);
        several == nullptr ? solve_one() : solve_several();
        group.finish(x, spec.tolerance, several == nullptr ? a.precise.spinor : Precision::double_, reports, first);
        return 0;
    };
    verified(
        *links.context, [&links] { links.clear(); }, solve,
        [&](int) {
            return links.with_used(several == nullptr ? solver.one->stands_on(false) : several->stands_on(false));
        });
    group.deliver(solutions, x, reports, first);
    for (int k = first; k < first + count; ++k) {
        meter.fill(reports[k]);
        reports[k].seconds /= count;
        reports[k].bytes_to_device /= count, reports[k].bytes_to_host /= count;
    }
}

Status solve(milcgpu_meson_links &links, const milcgpu_laplace_solve_spec &spec, Arguments a, const Places &sources,
             const Places &solutions, std::vector<milcgpu_solve_report> &reports) {
    const int n = static_cast<int>(sources.size());
    const std::shared_ptr<LaplaceKept> kept = kept_with(links);
    Solver &solver = solver_for(links, kept, spec, a);
    const int groups = a.apart ? n : (n + most_block - 1) / most_block, most = (n + groups - 1) / groups;
    Status worst = Status::ok;
    for (int first = 0; first < n;) {
        const int room = a.apart ? 1 : block_solver(links, *kept, solver, std::min(most, n - first)).sources(),
                  count = std::min({room, most, n - first});
        solve_group(links, *kept, solver, spec, a, sources, solutions, first, count, reports);
        for (int k = first; k < first + count; ++k) {
            const Status own = static_cast<Status>(reports[k].status);
            if (!is_graver(own, worst))
                continue;
            worst = own;
            set_last_error("milcgpu_laplace_solve", format("source %d: %s", k, reports[k].message).c_str());
        }
        first += count;
    }
    return worst;
}

} // namespace

extern "C" milcgpu_status milcgpu_laplace(milcgpu_meson_links *links, const milcgpu_laplace_spec *spec, int matrix,
                                          int parity, int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
    constexpr const char *function = "milcgpu_laplace";
    return with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        const bool whole = matrix == MILCGPU_LAPLACE_M;
        double kappa = 1;
        OperatorSpec what{};
        std::vector<int> parities;
        Places read, made;
        const auto look = [&] {
            need_links(l);
            require(spec, function, "spec");
            require_size(spec->struct_size, sizeof *spec, "milcgpu_laplace_spec");
            if (!whole && matrix != MILCGPU_LAPLACE_D)
                refuse(format("matrix is %d: must be MILCGPU_LAPLACE_D (0) or MILCGPU_LAPLACE_M (1)", matrix));
            check_directions(spec->directions);
            if (whole) {
                kappa = spec->kappa;
                check_laplace(spec->directions, kappa);
            }
            what = laplace_spec(spec->what, spec->directions, "spec.what");
            parities = parities_of(parity);
            check_count(n);
            read = places_of(l, from, n, "from"), made = places_of(l, to, n, "to");
        };
        agreed(*l.context, function, look, [&] {
            return Numbers{{"matrix", double(matrix)}, {"spec.directions", double(spec->directions)},
                           {"spec.kappa", kappa},      {"spec.what", code_of(what)},
                           {"parity", double(parity)}, {"n", double(n)}};
        });
        const std::shared_ptr<LaplaceKept> kept = kept_with(l);
        const Links held = links_for(l, *kept, what);
        apply(l, *held, spec->directions, kappa, whole, parities, read, made);
        return [n, whole] { return format("Laplace %s of %d fields", whole ? "matrix" : "sum", n); };
    });
}

extern "C" milcgpu_status milcgpu_laplace_solve(milcgpu_meson_links *links, const milcgpu_laplace_solve_spec *spec,
                                                int n, const milcgpu_quarks *sources, const milcgpu_quarks *solutions,
                                                milcgpu_solve_report *reports) {
    constexpr const char *function = "milcgpu_laplace_solve";
    Status outcome = Status::ok;
    const milcgpu_status status = with_meson_links(links, function, [&](milcgpu_meson_links &l) {
        Arguments a{};
        Places from, to;
        std::vector<milcgpu_solve_report> filled;
        const auto look = [&] {
            need_links(l);
            require(spec, function, "spec");
            require_size(spec->struct_size, sizeof *spec, "milcgpu_laplace_solve_spec");
            check_count(n);
            a = checked(l, *spec, n);
            from = places_of(l, sources, n, "sources"), to = places_of(l, solutions, n, "solutions");
            for (int k = 0; k < n; ++k)
                for (int j = 0; j < n; ++j)
                    if (to[k].is(from[j]))
                        refuse(format("solutions[%d]: that vector is a source, too", k));
            filled.resize(n);
            for (int k = 0; k < n; ++k) {
                if (reports != nullptr)
                    require_size(reports[k].struct_size, sizeof *reports, "milcgpu_solve_report");
                filled[k].struct_size = sizeof *reports;
            }
        };
        agreed(*l.context, function, look, [&] { return numbers_of(*spec, a, n); });
        outcome = solve(l, *spec, a, from, to, filled);
        for (int k = 0; k < n && reports != nullptr; ++k)
            reports[k] = filled[k];
        return [n] { return format("Laplace solve of %d sources", n); };
    });
    return status == MILCGPU_OK ? static_cast<milcgpu_status>(outcome) : status;
}
