// Rows of the dslash table.
#include "examples/bench/bench.h"
#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/links/links_handle.h"
#include "reorder/resident_links.h"
#include <algorithm>
#include <tuple>

namespace examples {
using namespace milcgpu;

namespace {

// By spinor (rows) and link (columns): double, single, half.
double row_tolerance(const DslashKernel &row) {
    constexpr double measured[3][3] = {{2.8e-16, 2.7e-8, 2.5e-5}, {1.4e-7, 1.4e-7, 2.5e-5}, {2.0e-6, 2.0e-6, 2.5e-5}};
    return times_measured * measured[static_cast<int>(row.spinor)][static_cast<int>(row.link)];
}
SpinorField upload(Device &device, SpinorReorder &reorder, const Geometry &geometry, std::vector<double> &milc,
                   int parity, Precision precision, int sources) {
    SpinorField field(device, precision, geometry, parity, "bench", sources);
    reorder.to_device({milc.data(), Precision::double_, 48}, parity, field[0]);
    for (int k = 1; k < sources; ++k)
        device.copy_on_device(field[k].data, field.data(), field[0].source_bytes);
    return field;
}

// The numbers of sources for which a row is timed.
std::vector<int> numbers_of_sources(const DslashKernel &row, bool quick) {
    if (row.most_sources == 1)
        return {1};
    return quick ? std::vector<int>{4, 12} : std::vector<int>{2, 3, 4, 6, 8, 12, 16};
}

// The rows that are timed, by epilogue: if a lattice nearly fits in the L2 cache, a row's time depends on the cache
// that the previous row left.
std::vector<DslashKernel> timed_rows(const Bench &bench) {
    const Geometry &geometry = bench.context().geometry;
    std::vector<DslashKernel> rows;
    for (const DslashKernel &row : dslash_table()) {
        const bool several = row.most_sources > 1, plain = row.epilogue == Epilogue::plain,
                   usual = (row.link == row.spinor || row.lanes) && row.epilogue != Epilogue::normal;
        if (bench.wants(row.reals) && (bench.settings.all_rows || usual) &&
            (geometry.is_cut() ? plain && !several : plain || !several) &&
            (!row.lanes || LaneLinks::fit(geometry, row.link)))
            rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(), [](const DslashKernel &a, const DslashKernel &b) {
        return std::make_tuple(a.spinor, a.link, a.epilogue) < std::make_tuple(b.spinor, b.link, b.epilogue);
    });
    return rows;
}

Operation operation_of(const DslashKernel &row, int sources) {
    const std::string precision = name(row.spinor);
    return {"dslash",
            format("%d %s%s", row.reals, name(row.epilogue),
                   row.checks  ? " checked"
                   : row.lanes ? " lanes"
                               : ""),
            row.link == row.spinor ? precision : precision + "/" + name(row.link), sources,
            sources > 1 ? "" // blocks of 64 threads by their code
                        : format("gpu_kernels/staggered/staggered_rows.h: spinors %s, links %s: block %d",
                                 name(row.spinor), name(row.link), row.shape.block)};
}
Cost cost_of(const DslashKernel &row, double seconds, int sources, int sites) {
    const size_t of_spinors = traits(row.epilogue).spinors * spinor_bytes(row.spinor) * sites,
                 of_links = dslash_bytes(row.spinor, row.link, row.reals, row.epilogue, sites) - of_spinors;
    return {seconds, double(sources * dslash_flops(row.epilogue, sites)), double(of_links + sources * of_spinors)};
}

// The result of an epilogue with a = 0 and alpha = 1: D in, -D in or x + D in, for x = in. d_in: D in.
std::vector<double> result_of(Epilogue epilogue, const std::vector<double> &in, std::vector<double> d_in) {
    for (size_t j = 0; j < d_in.size(); ++j)
        d_in[j] = epilogue == Epilogue::plain ? d_in[j] : epilogue == Epilogue::normal ? -d_in[j] : in[j] + d_in[j];
    return d_in;
}

} // namespace

// On a cut lattice: D alone, with the exchange of ghosts before it.
void bench_dslash(const Bench &bench) {
    const Job &ranks = bench.ranks;
    const System &system = bench.system;
    milcgpu_context &context = bench.context();
    Device &device = bench.device();
    SpinorReorder &reorder = *context.reorder;
    const Geometry &geometry = context.geometry;
    const int half = system.lattice.volume() / 2;
    ResidentLinks links(device, context.map, geometry, Precision::double_, 0, context.halo.get());
    auto fat = deal_links<double>(ranks, system.lattice, system.fat);
    auto lng = deal_links<double>(ranks, system.lattice, system.lng);
    links.update({fat.data(), Precision::double_, 576}, {lng.data(), Precision::double_, 576});
    const auto in = random_on_first(ranks, system.lattice, 1);
    reference::Fermion d_in;
    ranks.on_first([&] { d_in = reference::dslash_on_parity(system.lattice, system.fat, system.lng, in, 0); });
    auto in_milc = deal_vector(ranks, system.lattice, in);
    const auto expected = deal_vector(ranks, system.lattice, d_in);
    const size_t even = 6 * size_t(geometry.sites(0)); // reals on even sites, which come first
    for (const DslashKernel &row : timed_rows(bench)) {
        const HeldLinks held = row.lanes ? links.held_lanes(row.link) : links.held_version(row.link, row.reals);
        const LinkPair pair = held.pair;
        for (const int sources : numbers_of_sources(row, bench.settings.quick)) {
            const Operation what = operation_of(row, sources);
            if (pair.lng->reals() != row.reals) {
                bench.table.wrong(what, "the links were refused");
                continue;
            }
            const auto uploaded = [&](int parity) {
                return upload(device, reorder, geometry, in_milc, parity, row.spinor, sources);
            };
            const SpinorField in_d = uploaded(1), out_d = uploaded(0);
            SpinorField x_d, p_d, s_d;
            if (row.epilogue != Epilogue::plain)
                x_d = uploaded(0), p_d = uploaded(0), s_d = uploaded(0);
            const DeviceArray<CgState> cg(device, 1, "bench");
            const DeviceArray<double> sums(device, 2 * slots_of_sum(half), "bench");
            const DeviceArray<uint64_t> checksums(device, NormalOperator::most_checksums, "bench");
            DslashCall call{};
            call.lattice = geometry.lattice();
            call.parity = 0;
            call.fat = pair.fat, call.lng = pair.lng, call.lanes = row.lanes ? pair.lanes : nullptr;
            call.in = in_d, call.out = out_d, call.x = x_d, call.z = x_d;
            if (row.checks)
                call.checksums = checksums.data();
            if (row.epilogue == Epilogue::step) {
                CgState state{};
                state.start(1, 1);
                state.alpha = 1, state.carry = 0;
                device.copy_to_device(cg.data(), &state, sizeof state);
                call.cg = cg.data();
                call.x = p_d, call.s = s_d;
                call.defer = sums.data(); // the state does not change
            }
            const auto launch = [&] {
                if (geometry.is_cut())
                    apply_dslash(context, pair, call.parity, call.in, call.out);
                else
                    dslash(device, call, row.epilogue);
            };
            ranks.together();
            const double seconds = ranks.slowest(median_seconds(device, 9, device.on_gpu() ? 20 : 2, launch));
            device.fill_zero(out_d.data(), out_d.bytes());
            launch();
            double worst = 0;
            for (int k = 0; k < sources; k += std::max(1, sources - 1)) { // the first and the last
                std::vector<double> got(in_milc.size());
                reorder.to_host(out_d[k], 0, {got.data(), Precision::double_, 48});
                const double error = difference(ranks, got, result_of(row.epilogue, in_milc, expected), even);
                worst = error <= worst || worst != worst ? worst : error; // NaN stays
            }
            bench.table.row(what, cost_of(row, seconds, sources, half), worst, row_tolerance(row));
        }
    }
}

} // namespace examples
