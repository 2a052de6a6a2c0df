// Times the device copy, every dslash row, the making of links, whole solves and multi-mass solves; verifies each after
// timing. Device events, median of several runs. GB/s are on compulsory bytes (every link and spinor once); percent is
// of the copy bandwidth of the same run. On ranks all start together and the slowest counts; bytes and bandwidth are
// those of all. What is wrong is named in the last lines; the exit status is then 1.
#include "examples/arguments.h"
#include "examples/heatbath.h"
#include "examples/system.h"
#include "examples/timing.h"
#include "gpu_kernels/dslash/dslash.h"
#include "gpu_kernels/links/links.h"
#include "gpu_kernels/operators/normal_operator.h"
#include "milc_glue/context.h"
#include "reorder/resident_links.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <tuple>

using namespace milcgpu;
using namespace examples;

namespace {

struct Settings {
    std::string backend = "auto", csv, pairs = "all", compare;
    std::array<int, 4> size = {0, 0, 0, 0}, grid = {1, 1, 1, 1};
    double mass = 0.01, tolerance = 1e-10, delta = 0, noise = 3;
    int block = 0, reals = 0, sweeps = 8; // sweeps: far enough from the unit field for solves of the usual length
    bool all_rows = false, no_solves = false, no_rows = false, no_links = false, no_multi_mass = false, quick = false;
};

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

// Of all ranks' first `count` reals.
double difference(const Job &ranks, const std::vector<double> &a, const std::vector<double> &b, size_t count) {
    double d = 0, size = 0;
    for (size_t k = 0; k < count; ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(ranks.sum(d) / ranks.sum(size));
}

// The numbers of sources that a row is timed with.
std::vector<int> numbers_of_sources(const DslashKernel &row) {
    return row.most_sources == 1 ? std::vector<int>{1} : std::vector<int>{2, 3, 4, 6, 8, 12, 16};
}

// On a lattice that is cut: D alone, with the exchange of ghosts before it.
void time_rows(const Job &ranks, milcgpu_context &context, const examples::System &system, const Settings &settings,
               Out &out) {
    Device &device = *context.device;
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
    const size_t even = 6 * size_t(geometry.sites(0)); // reals, which come first
    // By epilogue: where a lattice nearly fits in the L2 cache, a row's time depends on what the row before has left
    // there.
    std::vector<DslashKernel> rows = dslash_table();
    std::stable_sort(rows.begin(), rows.end(), [](const DslashKernel &a, const DslashKernel &b) {
        return std::make_tuple(a.spinor, a.link, a.epilogue) < std::make_tuple(b.spinor, b.link, b.epilogue);
    });
    for (const DslashKernel &row : rows) {
        if ((settings.reals != 0 && settings.reals != row.reals) ||
            (!settings.all_rows && (row.link != row.spinor || row.epilogue == Epilogue::normal)) ||
            ((geometry.is_cut() || row.most_sources > 1) && row.epilogue != Epilogue::plain) ||
            (geometry.is_cut() && row.most_sources > 1))
            continue;
        const LinkPair pair = links.version(row.link, row.reals);
        for (const int sources : numbers_of_sources(row)) {
            const std::string what =
                format("%s/%s/%d %s%s%s", name(row.spinor), name(row.link), row.reals, name(row.epilogue),
                       row.checks ? " checked" : "", sources > 1 ? format(" %d sources", sources).c_str() : "");
            if (pair.lng->reals() != row.reals) {
                out.fail("dslash", what, "the links were refused");
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
            call.fat = pair.fat, call.lng = pair.lng;
            call.in = in_d, call.out = out_d, call.x = x_d, call.z = x_d;
            if (row.checks)
                call.checksums = checksums.data();
            // Epilogues: a = 0 and alpha = 1 make the results -D in and x + D in.
            if (row.epilogue == Epilogue::step) {
                CgState state{};
                state.start(1, 1);
                state.alpha = 1, state.carry = 0;
                device.copy_to_device(cg.data(), &state, sizeof state);
                call.cg = cg.data();
                call.x = p_d, call.s = s_d;
                call.defer = sums.data(); // the state stays as it is
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
                std::vector<double> got(in_milc.size(), 0.0), wanted = expected;
                reorder.to_host(out_d[k], 0, {got.data(), Precision::double_, 48});
                for (size_t j = 0; j < even; ++j)
                    wanted[j] = row.epilogue == Epilogue::plain    ? wanted[j]
                                : row.epilogue == Epilogue::normal ? -wanted[j]
                                                                   : in_milc[j] + wanted[j];
                const double error = difference(ranks, got, wanted, even);
                worst = error <= worst ? worst : error; // NaN stays
            }
            const size_t of_links = dslash_bytes(row.spinor, row.link, row.reals, row.epilogue, half) -
                                    traits(row.epilogue).spinors * spinor_bytes(row.spinor) * half;
            out.line("dslash", what, seconds, sources * dslash_flops(row.epilogue, half),
                     of_links + sources * traits(row.epilogue).spinors * spinor_bytes(row.spinor) * half, worst,
                     row_tolerance(row));
        }
    }
}

LinkField upload_links(Device &device, const reference::Lattice &lattice, const reference::Gauge &links,
                       Precision precision, int reals) {
    const Geometry geometry(lattice.n);
    const SiteMap map;
    auto host = reference::links_to_milc<double>(lattice, links);
    const LinkField plain(device, Precision::double_, 18, geometry, "bench");
    links_to_device(device, {host.data(), Precision::double_, 576}, map, geometry, plain);
    return std::move(pack_links(device, plain, {1, 1, -1, 0}, geometry, precision, reals, "bench").field);
}

double links_difference(Device &device, const reference::Lattice &lattice, const LinkField &links,
                        const reference::Gauge &wanted) {
    const Geometry geometry(lattice.n);
    const SiteMap map;
    const PackedLinks plain = pack_links(device, links, {1, 1, -1, 0}, geometry, Precision::double_, 18, "bench");
    std::vector<double> back(size_t(72) * lattice.volume());
    links_to_host(device, plain.field, map, geometry, {back.data(), Precision::double_, 576});
    return reference::relative_difference(reference::links_from_milc<double>(lattice, back), wanted);
}

// Fat and long links of asqtad; both levels of HISQ with the unitarization between them.
void time_links(milcgpu_context &context, const examples::System &system, Out &out) {
    Device &device = *context.device;
    const Geometry &geometry = context.geometry;
    const int volume = geometry.volume(), repeat = device.on_gpu() ? 5 : 1;
    const auto library = [](const reference::PathCoefficients &c) {
        return PathCoefficients{c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
    };
    const auto asqtad = library(reference::asqtad_coefficients(system.u0));
    const auto fat7 = library(reference::hisq_fat7_coefficients()),
               level_2 = library(reference::hisq_asqtad_coefficients());
    const reference::HisqLinks hisq = reference::hisq_links(system.lattice, system.gauge, 0);
    for (const Precision p : {Precision::double_, Precision::single}) {
        const StapleSpace space(device, geometry, p);
        const LinkField fat(device, p, 18, geometry, "bench"), w(device, p, 18, geometry, "bench");
        const double link = link_bytes(p, 18);
        for (const int reals : {18, 12}) {
            const LinkField u = upload_links(device, system.lattice, system.gauge, p, reals);
            const auto make = [&] { fat_links(device, geometry, u, asqtad, fat, space); };
            const double seconds = median_seconds(device, 5, repeat, make);
            device.fill_zero(fat.block(0, 0), fat.bytes());
            make();
            out.line("links", format("asqtad fat %s/%d", name(p), reals), seconds, volume * fat_links_flops,
                     volume * fat_links_bytes(p, reals), links_difference(device, system.lattice, fat, system.fat),
                     links_tolerance(p, 2.6e-16, 7.3e-8));
        }
        const LinkField u = upload_links(device, system.lattice, system.gauge, p, 18);
        const double naik = asqtad.naik;
        double seconds = median_seconds(device, 5, repeat, [&] { long_links(device, geometry, u, naik, fat); });
        out.line("links", format("long %s/18", name(p)), seconds, volume * long_links_flops, volume * 8 * link,
                 links_difference(device, system.lattice, fat, system.lng), links_tolerance(p, 1.7e-16, 8.8e-8));
        seconds = median_seconds(device, 5, repeat, [&] {
            fat_links(device, geometry, u, fat7, fat, space);
            unitarize(device, geometry, fat, UnitarizeSpec(), nullptr, w);
            fat_links(device, geometry, w, level_2, fat, space);
        });
        out.line("links", format("hisq fat %s/18", name(p)), seconds, volume * 2 * fat_links_flops,
                 volume * (2 * fat_links_bytes(p, 18) + 8 * link),
                 links_difference(device, system.lattice, fat, hisq.fat), links_tolerance(p, 3.9e-16, 9.8e-8));
    }
}

// The same by the C interface, with all that a call does on the device: also on ranks.
void time_link_calls(const Job &ranks, milcgpu_context *context, const examples::System &system, Out &out) {
    auto gauge = deal_links<double>(ranks, system.lattice, system.gauge);
    std::vector<double> fat(gauge.size()), lng(gauge.size());
    const milcgpu_field from = field_of(gauge), to_fat = field_of(fat), to_long = field_of(lng);
    const milcgpu_fatlink_set set{0, &to_fat, &to_long, nullptr};
    reference::HisqLinks hisq;
    ranks.on_first([&] { hisq = reference::hisq_links(system.lattice, system.gauge, 0); });
    for (const bool is_hisq : {false, true}) {
        const auto wanted_fat = deal_links<double>(ranks, system.lattice, is_hisq ? hisq.fat : system.fat);
        const auto wanted_long = deal_links<double>(ranks, system.lattice, is_hisq ? hisq.lng : system.lng);
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE}) {
            milcgpu_fatlink_spec spec;
            is_hisq ? milcgpu_hisq_spec(&spec) : milcgpu_asqtad_spec(system.u0, &spec);
            spec.precision = precision;
            const Precision p = static_cast<Precision>(precision - 1);
            const std::string what = format("%s call %s/18", is_hisq ? "hisq" : "asqtad", name(p));
            std::vector<double> seconds;
            double flops = 0, bytes = 0;
            for (int run = 0; run < 5; ++run) {
                milcgpu_fatlink_report report{};
                report.struct_size = sizeof report;
                ranks.together();
                if (milcgpu_fat_links(context, &spec, &from, &set, 1, nullptr, &report) != MILCGPU_OK)
                    out.fail("links", what, report.message);
                seconds.push_back(ranks.slowest(report.kernel_seconds));
                flops = ranks.sum(report.flops);
                bytes = ranks.sum(report.gbytes_per_second * 1e9 * report.kernel_seconds);
            }
            std::sort(seconds.begin(), seconds.end());
            out.line("links", what, seconds[seconds.size() / 2], flops, bytes,
                     std::hypot(difference(ranks, fat, wanted_fat, fat.size()),
                                difference(ranks, lng, wanted_long, lng.size())),
                     links_tolerance(p, 3.9e-16, 9.8e-8));
        }
    }
}

// |b - (4 m^2 - D D) x| / |b| of the solution that the caller holds. NaN where that cannot be had, or where the solver
// reported another number for it.
double checked_residual(const examples::Connection &connection, double mass, std::vector<double> &source,
                        std::vector<double> &x, double reported) {
    double residual = NAN;
    const milcgpu_field from = examples::field_of(source), solution = examples::field_of(x);
    const bool known = milcgpu_residual(connection.context(), connection.links(), MILCGPU_EVEN, mass, &from, &solution,
                                        &residual) == MILCGPU_OK;
    return known && std::fabs(residual - reported) <= 0.01 * reported + 1e-14 ? residual : NAN;
}

void time_solves(const Job &ranks, const Connection &connection, const examples::System &system, int backend,
                 const Settings &settings, Out &out) {
    auto source = deal_vector(ranks, system.lattice, random_on_first(ranks, system.lattice, 2));
    for (const auto &pair : examples::precision_pairs())
        for (const int reals : {18, 13, 9}) {
            if ((settings.pairs != "all" && settings.pairs != pair.name) ||
                (settings.reals != 0 && settings.reals != reals))
                continue;
            milcgpu_solve_spec spec{};
            spec.struct_size = sizeof spec;
            spec.parity = MILCGPU_EVEN;
            spec.mass = settings.mass;
            spec.tolerance = std::fmax(settings.tolerance, pair.reachable);
            spec.max_iterations = 20000;
            spec.max_restarts = 3;
            spec.precise.precision = pair.precise;
            spec.sloppy.precision = pair.sloppy;
            spec.sloppy.reconstruct = reals;
            spec.reliable_delta = settings.delta;
            if (pair.precise == pair.sloppy)
                spec.precise.reconstruct = reals;
            const std::string what = format("%s/%d", pair.name, reals);
            std::vector<milcgpu_solve_report> reports;
            std::vector<double> x;
            for (int run = 0; run < 5; ++run) {
                milcgpu_solve_report report{};
                report.struct_size = sizeof report;
                x.assign(source.size(), 0.0);
                const milcgpu_field from = examples::field_of(source), to = examples::field_of(x);
                ranks.together();
                if (milcgpu_solve(connection.context(), connection.links(), &spec, &from, &to, &report) != MILCGPU_OK)
                    out.fail("solve", what, report.message);
                over_ranks(ranks, report);
                if (run > 0 || backend == MILCGPU_HOST) // the first packs links and records the graph
                    reports.push_back(report);
                if (backend == MILCGPU_HOST)
                    break;
            }
            const double last_residual = reports.back().true_residual; // of x
            std::sort(reports.begin(), reports.end(), [](auto &a, auto &b) { return a.seconds < b.seconds; });
            const milcgpu_solve_report &r = reports[reports.size() / 2];
            const double work =
                r.solver_seconds / r.steps * 1e9; // the step is timed over the whole call, copies included
            out.line("cg step", format("%s %d steps %d updates", what.c_str(), r.steps, r.reliable_updates),
                     r.seconds / r.steps, r.gflops * work, r.gbytes_per_second * work,
                     checked_residual(connection, spec.mass, source, x, last_residual), spec.tolerance);
        }
}

// 10 masses in one solve; the step is the whole call over the shared steps.
void time_multi_mass(const Job &ranks, const Connection &connection, const examples::System &system, int backend,
                     const Settings &settings, Out &out) {
    auto source = deal_vector(ranks, system.lattice, random_on_first(ranks, system.lattice, 2));
    std::vector<milcgpu_shift> shifts;
    for (int i = 0; i < 10; ++i) {
        const double mass = 0.02 + 0.01 * i * i;
        shifts.push_back({4 * mass * mass, settings.tolerance, 0});
    }
    struct Policy {
        const char *name;
        int shared, sloppy, reals;
    };
    const Policy policies[] = {{"double/18", MILCGPU_DOUBLE, MILCGPU_DOUBLE, 18},
                               {"double/13", MILCGPU_DOUBLE, MILCGPU_DOUBLE, 13},
                               {"double single/18", MILCGPU_DOUBLE, MILCGPU_SINGLE, 18},
                               {"double single half/18", MILCGPU_DOUBLE, MILCGPU_HALF, 18},
                               {"double single half/13", MILCGPU_DOUBLE, MILCGPU_HALF, 13},
                               {"double single half/9", MILCGPU_DOUBLE, MILCGPU_HALF, 9},
                               {"single/18", MILCGPU_SINGLE, MILCGPU_SINGLE, 18}};
    for (const Policy &policy : policies) {
        std::vector<std::vector<double>> x(shifts.size(), std::vector<double>(source.size(), 0.0));
        std::vector<milcgpu_field> fields;
        for (auto &field : x)
            fields.push_back(examples::field_of(field));
        milcgpu_multi_mass_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = MILCGPU_EVEN;
        spec.n_shifts = static_cast<int>(shifts.size());
        spec.shifts = shifts.data();
        spec.max_iterations = 20000;
        spec.max_restarts = 5;
        spec.shared.precision = policy.shared;
        spec.shared.reconstruct = policy.reals;
        spec.sloppy.precision = policy.sloppy;
        spec.sloppy.reconstruct = policy.reals;
        std::vector<milcgpu_shift_report> each(shifts.size());
        milcgpu_multi_mass_report best{};
        for (int run = 0; run < (backend == MILCGPU_HOST ? 1 : 3); ++run) {
            milcgpu_multi_mass_report report{};
            report.struct_size = sizeof report;
            report.shifts = each.data();
            const milcgpu_field from = examples::field_of(source);
            ranks.together();
            if (milcgpu_multi_mass(connection.context(), connection.links(), &spec, &from, fields.data(), &report) !=
                MILCGPU_OK)
                out.fail("10 masses", policy.name, report.message);
            report.shared_seconds = ranks.slowest(report.shared_seconds);
            over_ranks(ranks, report);
            if (run == 0 || report.seconds < best.seconds)
                best = report;
        }
        double worst = 0;
        int refinement = 0;
        for (size_t i = 0; i < each.size(); ++i) {
            const double residual =
                checked_residual(connection, 0.5 * std::sqrt(shifts[i].offset), source, x[i], each[i].true_residual);
            worst = residual <= worst ? worst : residual; // NaN is the worst
            refinement += each[i].steps;
        }
        std::printf("          %.4f s a call, %.4f shared, %d steps of refinement\n", best.seconds, best.shared_seconds,
                    refinement);
        out.line("10 masses", format("%s %d steps", policy.name, best.steps), best.seconds / best.steps,
                 best.gflops * 1e9 * best.solver_seconds / best.steps,
                 best.gbytes_per_second * 1e9 * best.solver_seconds / best.steps, worst, settings.tolerance);
    }
}

int run(Settings &settings, Job &ranks) {
    std::optional<Before> before;
    if (!settings.compare.empty())
        before.emplace(settings.compare, settings.noise);
    if (settings.quick) {
        settings.sweeps = 2, settings.pairs = "double/half", settings.no_multi_mass = true;
        settings.reals = settings.reals == 0 ? 13 : settings.reals;
    }
    ranks.start(settings.grid);
    const int backend = examples::backends_of(ranks, settings.backend)[0];
    if (settings.size[0] == 0)
        settings.size = backend == MILCGPU_CUDA ? std::array<int, 4>{24, 24, 24, 32} : std::array<int, 4>{8, 8, 8, 16};
    const reference::Lattice lattice{settings.size};
    print_ranks(ranks, lattice);
    reference::Gauge gauge;
    ranks.on_first([&] { gauge = thermalized(lattice, 6.0, 5, settings.sweeps, 1); });
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::Action::asqtad, !settings.no_rows);
    const Connection connection(ranks, system, backend, 1, settings.block);
    milcgpu_context &context = *connection.context();
    Out out;
    if (before)
        out.before = std::move(before);
    out.begin(*context.device, settings.size, settings.csv, ranks);
    if (!settings.no_rows)
        time_rows(ranks, context, system, settings, out);
    if (!settings.no_links && !settings.no_rows) {
        if (!context.geometry.is_cut())
            time_links(context, system, out);
        time_link_calls(ranks, &context, system, out);
    }
    if (!settings.no_solves)
        time_solves(ranks, connection, system, backend, settings, out);
    if (!settings.no_multi_mass)
        time_multi_mass(ranks, connection, system, backend, settings, out);
    return out.finish();
}

} // namespace

int main(int argc, char **argv) {
    Settings settings;
    examples::Arguments arguments("bench", "times dslash and solves against the device's copy bandwidth");
    arguments.add("backend", "NAME", settings.backend, "auto, host or cuda");
    arguments.add("size", "X Y Z T", settings.size, "lattice (0: 24^3 x 32 on a GPU, 8^3 x 16 on the host)");
    Job::add_grid(arguments, settings.grid);
    arguments.add("mass", "M", settings.mass, "of the solves");
    arguments.add("tolerance", "R", settings.tolerance, "of the solves");
    arguments.add("reliable-delta", "D", settings.delta, "of the solves (0: the default)");
    arguments.add("sweeps", "N", settings.sweeps, "heat-bath sweeps of the gauge field (beta 6, cold start)");
    arguments.add("block", "N", settings.block, "threads a block of every kernel (0: its own)");
    arguments.add("all-rows", "", settings.all_rows, "mixed link precisions and all epilogues too");
    arguments.add("no-rows", "", settings.no_rows, "no dslash rows and no links");
    arguments.add("no-links", "", settings.no_links, "leave out the making of links");
    arguments.add("no-solves", "", settings.no_solves, "no solves");
    arguments.add("no-multi-mass", "", settings.no_multi_mass, "leave out multi-mass solves");
    arguments.add("pairs", "NAME", settings.pairs, "of the solves: all, or one as double/half");
    arguments.add("reals", "R", settings.reals,
                  "of a long link: 18, 13, 9 (D alone: 12, 8 too), or 0 for each of them");
    arguments.add("quick", "", settings.quick, "under a minute: 13 reals, a solve in double/half, one mass, 2 sweeps");
    arguments.add("csv", "FILE", settings.csv, "the table");
    arguments.add("compare", "FILE", settings.compare, "a table written before: names the rows that are slower now");
    arguments.add("noise", "P", settings.noise, "percent of the time that does not count as slower");
    return run_on_ranks("bench", [&](Job &ranks) { return arguments.parse(argc, argv) ? run(settings, ranks) : 0; });
}
