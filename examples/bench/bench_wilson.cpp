// Wilson and clover fermions: D by precision and reconstruction, the matrix at the end of a step of conjugate gradient,
// both for several sources, and solves. All results are compared with the CPU reference.
#include "examples/bench/bench_operators.h"
#include "gpu_kernels/solver/bicgstab.h"
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/wilson/wilson_operator.h"
#include "tests/reference/wilson.h"
#include <algorithm>

namespace examples {
using namespace milcgpu;
using reference::WilsonField;

namespace {

class Wilson : Operators {
  public:
    explicit Wilson(const Bench &bench)
        : Operators(bench), wilson_reorder_(device(), map_, geometry_, wilson_components),
          in_(reference::random_wilson_field(lattice_, 1)), x_(reference::random_wilson_field(lattice_, 2)),
          d_in_(reference::wilson_dslash(lattice_, gauge_, in_, 1)), term_(clover_fields(Precision::double_)) {}
    void run() {
        const reference::Clover r = reference::clover_term(lattice_, gauge_, cku0_);
        const WilsonField own = reference::on_parity(lattice_, x_, 0), d = reference::on_parity(lattice_, d_in_, 0);
        for (const bool clover : {false, true}) {
            const WilsonField hop = clover ? reference::inverse(r) * d : d,
                              image = (clover ? r * own : own) - reference::Complex(factor_) * d;
            for (const Precision p : precisions)
                for (const int reals : {18, 12, 8})
                    if (wants(reals)) {
                        for (const int sources : {1, 4, 12})
                            row(p, reals, clover, {WilsonForm::hop, Epilogue::plain, false}, sources, hop);
                        row(p, reals, clover, {WilsonForm::matrix, Epilogue::step, false}, 1, own - image);
                        for (const int sources : {4, 12})
                            row(p, reals, clover, {WilsonForm::matrix, Epilogue::normal, false}, sources, image);
                    }
            if (!bench_.settings.sweep_shapes) // a solve has more than one launch
                solves(clover);
        }
    }

  private:
    static constexpr double kappa_ = 0.12, factor_ = kappa_ * kappa_, cku0_ = 0.15, measured[] = {6e-16, 3e-7, 6e-5};

    struct Clover {
        CloverField term, inverse;
    };
    Clover clover_fields(Precision p) const {
        Clover to{CloverField(device(), p, geometry_, "bench"), CloverField(device(), p, geometry_, "bench")};
        if (p == Precision::double_) {
            make_clover(device(), geometry_, plain_, cku0_, to.term);
            for (const int parity : {0, 1})
                invert_clover(device(), to.term, parity, to.inverse);
        } else {
            convert_clover(device(), term_.term, to.term);
            convert_clover(device(), term_.inverse, to.inverse);
        }
        return to;
    }
    SpinorField wilson_up(const WilsonField &field, int parity, Precision p, int sources = 1) {
        SpinorField to(device(), p, geometry_, parity, "bench", sources, wilson_components);
        auto host = reference::field_to_milc<double>(lattice_, field, 1);
        for (int k = 0; k < sources; ++k)
            wilson_reorder_.to_device({host.data(), Precision::double_, 192}, parity, to[k]);
        return to;
    }
    WilsonField wilson_down(const SpinorBlock &from) {
        std::vector<double> host(24 * size_t(lattice_.volume()), 0.0);
        wilson_reorder_.to_host(from, 0, {host.data(), Precision::double_, 192});
        return reference::field_from_milc<reference::WilsonVector>(lattice_, host.data(), 1);
    }
    static double apart(const WilsonField &a, const WilsonField &b) {
        return std::sqrt(reference::norm2(a - b) / reference::norm2(b));
    }

    // The step: r_new = r - alpha (shift p + M p) with shift 0, alpha 1 and r = p. normal: shift x + M p.
    void row(Precision p, int reals, bool clover, const WilsonEnd &end, int sources, const WilsonField &wanted) {
        const LinkField u = links(p, reals);
        const Clover term = clover ? clover_fields(p) : Clover{};
        const auto of_x = [&] { return wilson_up(x_, 0, p, sources); };
        const SpinorField in = wilson_up(in_, 1, p, sources), own = of_x(), r = of_x(), out = of_x(), s = of_x();
        const DeviceArray<CgState> cg(device(), 1, "bench");
        const DeviceArray<double> sums(device(), 2 * slots_of_sum(geometry_.sites(0)), "bench");
        const bool step = end.epilogue == Epilogue::step, hop = end.form == WilsonForm::hop;
        WilsonCall call{};
        call.lattice = geometry_.lattice();
        call.parity = 0;
        call.links = &u;
        call.links_at_rest = true;
        call.form = end.form;
        call.in = in, call.out = out;
        if (clover)
            call.clover = hop ? &term.inverse : &term.term;
        call.factor = factor_;
        call.own = own, call.x = own, call.z = r, call.s = s;
        if (step) {
            CgState state{};
            state.start(1, 1);
            state.shift = 0, state.alpha = 1, state.carry = 0;
            device().copy_to_device(cg.data(), &state, sizeof state);
            call.cg = cg.data();
            call.defer = sums.data(); // the state does not change
        }
        const double t = seconds([&] { wilson(device(), call, end.epilogue); });
        const WilsonKernel &kernel = find_wilson(p, p, reals);
        const size_t sites = geometry_.sites(0);
        const char *kind = clover ? "clover" : "Wilson";
        bench_.table.row({kind, format("%d %s %s", reals, name(end.form), name(end.epilogue)), name(p), sources,
                          sources > 1 ? "" // blocks by their number
                                      : format("gpu_kernels/wilson/wilson_stencil.h: block %d", kernel.shape.block)},
                         {t, double(sources * wilson_flops(end, clover, sites)),
                          double(wilson_bytes(p, p, reals, end, clover, sites, sources))},
                         apart(wilson_down(out[sources - 1]), wanted), times_measured * measured[index(p)]);
        if (hop && !clover && sources == 1) {
            const size_t written = 4 * spinor_bytes(p) * sites;
            plain_row(format("as Wilson %d", reals), p, wilson_bytes(p, p, reals, end, clover, sites, 1) - written,
                      written);
        }
    }

    // The even-odd system, from fields on the device. Times a step, including evaluations of the residual. Solutions
    // are compared with the matrix in double with 18 reals, whose rows were compared with the reference.
    void solves(bool clover) {
        constexpr double tolerance = 1e-10;
        std::vector<std::unique_ptr<LinkField>> fields;
        std::vector<std::unique_ptr<Clover>> terms;
        const auto matrix = [&](Precision p, int reals) {
            fields.push_back(std::make_unique<LinkField>(links(p, reals)));
            terms.push_back(std::make_unique<Clover>(clover ? clover_fields(p) : Clover{}));
            const CloverPair pair{&terms.back()->term, &terms.back()->inverse};
            return std::make_shared<const WilsonMatrix>(device(), geometry_, 0, OperatorSpec{p, p, reals},
                                                        *fields.back(), kappa_, clover ? pair : CloverPair{});
        };
        const auto full = matrix(Precision::double_, 18);
        const SpinorField b = wilson_up(x_, 0, Precision::double_);
        for (const Precision p : precisions) {
            const auto sloppy = p == Precision::double_ ? full : matrix(p, 12);
            // run(solver) returns steps, seconds, flops, bytes and the error.
            const auto time = [&](const char *method, auto &solver, const auto &solve, const auto &image) {
                std::vector<Cost> costs;
                std::string message;
                for (int run = 0; run < (device().on_gpu() ? 5 : 1); ++run) {
                    device().copy_on_device(solver.source().data(), b.data(), b.bytes());
                    device().fill_zero(solver.solution().data(), solver.solution().bytes());
                    const auto report = solve();
                    message = report.status == Status::ok ? "" : report.message;
                    costs.push_back({report.seconds / report.steps, report.flops / report.steps,
                                     report.bytes / report.steps, report.steps});
                }
                const Operation what{clover ? "clover" : "Wilson", method, format("double/%s", name(p))};
                if (!message.empty())
                    bench_.table.wrong(what, message);
                std::sort(costs.begin(), costs.end(), [](auto &l, auto &m) { return l.seconds < m.seconds; });
                bench_.table.row(what, costs[costs.size() / 2],
                                 apart(wilson_down(image(solver.solution())), reference::on_parity(lattice_, x_, 0)),
                                 tolerance);
            };
            const SpinorField once = full->vectors(device(), "bench"), twice = full->vectors(device(), "bench");
            const auto M = [&](const SpinorBlock &f) {
                MatrixCall call;
                call.in = f, call.out = once;
                full->apply(device(), call);
                return once.block();
            };
            const auto normal = [&](const SpinorBlock &f) {
                MatrixCall call;
                call.in = M(f), call.out = twice;
                full->apply_dagger(device(), call);
                return twice.block();
            };
            CgSolver cg(device(),
                        {std::make_shared<const WilsonNormal>(full), std::make_shared<const WilsonNormal>(sloppy),
                         std::make_shared<const WilsonNormal>(full), nullptr});
            CgLimits limits{};
            limits.tolerance = tolerance;
            time(
                "CG", cg, [&] { return cg.solve(limits, {}); }, normal);
            BicgstabSolver bicgstab(device(), {full, sloppy});
            time(
                "BiCGstab", bicgstab, [&] { return bicgstab.solve(limits, {}); }, M);
        }
    }

    SpinorReorder wilson_reorder_;
    WilsonField in_, x_, d_in_;
    Clover term_; // in double
};

} // namespace

void bench_wilson(const Bench &bench) { Wilson(bench).run(); }

} // namespace examples
