// The gauge Laplace operator: its sum over neighbours by precision and reconstruction, the same sum at the end of a
// step of conjugate gradient, and a solve. All results are compared with the CPU reference.
#include "examples/bench/bench_operators.h"
#include "gpu_kernels/laplace/laplace_operator.h"
#include "gpu_kernels/solver/cg.h"
#include "tests/reference/laplace.h"
#include <algorithm>

namespace examples {
using namespace milcgpu;

namespace {

class Laplace : Operators {
  public:
    explicit Laplace(const Bench &bench)
        : Operators(bench), in_(reference::random_fermion(lattice_, 1)), x_(reference::random_fermion(lattice_, 2)) {}
    void run() {
        for (const int directions : {4, 3}) {
            const auto sum = reference::laplace_sum(lattice_, gauge_, directions, in_);
            for (const Precision p : precisions)
                for (const int reals : {18, 12, 8})
                    if (wants(reals)) {
                        for (const int sources : {1, 4, 12})
                            plain(p, reals, directions, sources, sum);
                        step(p, reals, directions, sum);
                    }
            if (!bench_.settings.sweep_shapes) // a solve has more than one launch
                solves(directions);
        }
    }

  private:
    static constexpr double kappa_ = 0.12, measured[] = {6e-16, 3e-7, 5e-5};

    static Operation operation(Precision p, int reals, int directions, Epilogue end, int sources = 1) {
        const LaplaceKernel &kernel = find_laplace(p, reals, directions, end, sources);
        return {"Laplace", format("%d directions %d %s", directions, reals, name(end)), name(p), sources,
                sources > 1 ? "" // blocks of 64 threads by their code
                            : format("gpu_kernels/laplace/laplace_stencil.h: block %d", kernel.shape.block)};
    }
    LaplaceCall call(const LinkField &links, int directions) const {
        LaplaceCall call{};
        call.lattice = geometry_.lattice();
        call.directions = directions;
        call.links = &links;
        call.kappa = kappa_;
        call.links_at_rest = true;
        return call;
    }
    static double bytes(Precision p, int reals, int directions, Epilogue end, size_t sites, int sources) {
        const double vectors = double(traits(end).spinors * spinor_bytes(p) * sites);
        return double(laplace_bytes(p, reals, directions, end, sites)) + (sources - 1) * vectors;
    }

    void plain(Precision p, int reals, int directions, int sources, const reference::Fermion &sum) {
        const LinkField u = links(p, reals);
        const SpinorField in = up(in_, 1, p, sources), out(device(), p, geometry_, 0, "bench", sources);
        LaplaceCall c = call(u, directions);
        c.in = in, c.out = out;
        const double t = seconds([&] { milcgpu::laplace(device(), c, Epilogue::plain); });
        reference::Fermion wanted = sum;
        for (auto &v : wanted)
            v = kappa_ * v;
        const size_t sites = geometry_.sites(0);
        row(operation(p, reals, directions, Epilogue::plain, sources),
            {t, double(sources * laplace_flops(directions, Epilogue::plain, sites)),
             bytes(p, reals, directions, Epilogue::plain, sites, sources)},
            down(out[0]), reference::vector_to_milc<double>(lattice_, wanted), times_measured * measured[index(p)]);
        if (sources == 1) {
            const size_t written = spinor_bytes(p) * sites;
            plain_row(format("as Laplace %d directions %d", directions, reals), p,
                      size_t(bytes(p, reals, directions, Epilogue::plain, sites, 1)) - written, written);
        }
    }
    // r - alpha (p - D in), with alpha 1: the update after the second D of an iteration.
    void step(Precision p, int reals, int directions, const reference::Fermion &sum) {
        const LinkField u = links(p, reals);
        const SpinorField in = up(in_, 1, p), along = up(in_, 0, p), r = up(x_, 0, p), r_new = up(x_, 0, p),
                          s = up(x_, 0, p);
        const DeviceArray<CgState> cg(device(), 1, "bench");
        const DeviceArray<double> sums(device(), 2 * slots_of_sum(geometry_.sites(0)), "bench");
        CgState state{};
        state.start(1, 1);
        state.shift = 1, state.sign = -1, state.alpha = 1, state.carry = 0;
        device().copy_to_device(cg.data(), &state, sizeof state);
        LaplaceCall c = call(u, directions);
        c.in = in, c.out = r_new, c.x = along, c.z = r, c.s = s;
        c.cg = cg.data();
        c.defer = sums.data(); // the state does not change
        const double t = seconds([&] { milcgpu::laplace(device(), c, Epilogue::step); });
        reference::Fermion wanted = sum;
        for (size_t site = 0; site < wanted.size(); ++site)
            wanted[site] = x_[site] - in_[site] + kappa_ * sum[site];
        const size_t sites = geometry_.sites(0);
        row(operation(p, reals, directions, Epilogue::step),
            {t, double(laplace_flops(directions, Epilogue::step, sites)),
             bytes(p, reals, directions, Epilogue::step, sites, 1)},
            down(r_new), reference::vector_to_milc<double>(lattice_, wanted), times_measured * measured[index(p)]);
    }
    // The even-odd system with m^2 = 0.01, from fields on the device. Times a step, including evaluations of the
    // residual.
    void solves(int directions) {
        const double kappa = 1 / (2 * directions + 0.01), tolerance = 1e-10;
        const auto op = [&](Precision p, int reals) {
            links_.push_back(std::make_unique<LinkField>(links(p, reals)));
            return std::make_shared<LaplaceOperator>(geometry_, 0, OperatorSpec{p, p, reals}, *links_.back(),
                                                     directions, kappa);
        };
        const Operator full = op(Precision::double_, 18);
        for (const Precision p : precisions) {
            const Operator sloppy = p == Precision::double_ ? full : op(p, 12);
            CgSolver solver(device(), {full, sloppy, full, nullptr});
            const SpinorField b = up(x_, 0, Precision::double_);
            CgLimits limits{};
            limits.shift = LaplaceOperator::shift;
            limits.tolerance = tolerance;
            limits.reliable_delta = p == Precision::half ? 1e-2 : 1e-3;
            std::vector<CgReport> reports;
            for (int run = 0; run < (device().on_gpu() ? 5 : 1); ++run) {
                device().copy_on_device(solver.source().data(), b.data(), b.bytes());
                device().fill_zero(solver.solution().data(), solver.solution().bytes());
                reports.push_back(solver.solve(limits, {}));
            }
            const Operation what{"Laplace", format("%d directions solve", directions), format("double/%s", name(p))};
            if (reports.back().status != Status::ok)
                bench_.table.wrong(what, reports.back().message);
            std::sort(reports.begin(), reports.end(), [](auto &a, auto &b) { return a.seconds < b.seconds; });
            const CgReport &r = reports[reports.size() / 2];
            reference::Fermion x = reference::vector_from_milc<double>(lattice_, down(solver.solution()));
            const auto ax = reference::laplace_even_odd(lattice_, gauge_, directions, kappa, 0, x);
            bench_.table.row(what, {r.seconds / r.steps, r.flops / r.steps, r.bytes / r.steps, r.steps},
                             difference(bench_.ranks, reference::vector_to_milc<double>(lattice_, ax),
                                        reference::vector_to_milc<double>(lattice_, x_),
                                        6 * size_t(geometry_.sites(0))),
                             tolerance);
        }
        links_.clear();
    }

    reference::Fermion in_, x_;
    std::vector<std::unique_ptr<LinkField>> links_;
};

} // namespace

void bench_operators(const Bench &bench) { Laplace(bench).run(); }

} // namespace examples
