// A plain multigrid for M = 2m + D with HISQ links, to decide by whether the library is to have one: Kaehler-Dirac
// blocks (A = X^-1 M), aggregates with null vectors of conjugate gradient, a dense coarse operator, flexible GCR with
// the K-cycle (examples/multigrid.md). It checks P^dag P = 1, X^-1 X = 1, the coarse operator and every residual. With
// --csv a row is written as soon as its solve has ended. Exit status: 0 when all is as it should be.
#include "examples/multigrid_solvers.h"
#include "examples/system.h"
#include <cstdio>

namespace {

using namespace multigrid;

struct Settings {
    std::string lattice_file, csv, backend = "auto", action = "hisq", masses = "0.01,0.005,0.002,0.001,0.0005",
                                   vectors = "24,48", aggregates = "4x4x4x4", modes = "0", sources = "1,12";
    std::array<int, 4> size = {8, 8, 8, 16};
    double beta = 6.0, tolerance = 1e-10, seconds = 1e6;
    int sweeps = 20, steps = 100, outer_limit = 100, outer_restart = 15;
    unsigned long seed = 1;
    Shape shape;
};

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("multigrid_prototype", "a plain multigrid for light quarks, to decide by");
    arguments.add("lattice", "FILE", s.lattice_file, "gauge field (MILC version 5 or SciDAC); without it one is made",
                  file_name());
    arguments.add_size(s.size, "extents of a field made here");
    arguments.add("beta", "B", s.beta, "its coupling", above(0, 1e6));
    arguments.add("sweeps", "N", s.sweeps, "its heat-bath sweeps", whole(0));
    arguments.add("seed", "N", s.seed, "of the field, of null vectors and of sources");
    arguments.exclude("size", "lattice"), arguments.exclude("sweeps", "lattice");
    arguments.add("action", "NAME", s.action, "how links are made of the gauge field", action_name());
    arguments.add("masses", "M,M,...", s.masses, "quark masses", list_of_each(above(0, 1e6)));
    arguments.add("vectors", "N,N,...", s.vectors, "null vectors, multiples of 8", list_of_each(whole(8, 128)));
    arguments.add("aggregates", "XxYxZxT,...", s.aggregates, "sites of an aggregate, even and at least 4");
    arguments.add("modes", "N,N,...", s.modes, "singular vectors that deflate the coarse operator, multiples of 16",
                  list_of_each(whole(0, 4096)));
    arguments.add("sources", "N,N,...", s.sources, "that are solved together", list_of_each(one_of({"1", "12"})));
    arguments.add("tolerance", "R", s.tolerance, "relative residual of every source", inside(0, 1));
    arguments.add("steps", "N", s.steps, "of conjugate gradient for null vectors", whole(1));
    arguments.add("level1", "N", s.shape.level1, "GCR iterations on A", whole(1, 30));
    arguments.add("smooth1", "N", s.shape.smooth1, "of its smoother", whole(1, 30));
    arguments.add("smooth0", "N", s.shape.smooth0, "of the smoother of M", whole(1, 30));
    arguments.add("coarse-tolerance", "R", s.shape.coarse_tolerance, "of a coarse solve", inside(0, 1));
    arguments.add("coarse-limit", "N", s.shape.coarse_limit, "iterations of a coarse solve", whole(1));
    arguments.add("coarse-restart", "N", s.shape.coarse_restart, "iterations after which it starts again",
                  whole(1, most_in_list));
    arguments.add("outer-limit", "N", s.outer_limit, "outer iterations", whole(1));
    arguments.add("outer-restart", "N", s.outer_restart, "iterations after which they start again",
                  whole(1, most_in_list));
    arguments.add("seconds", "S", s.seconds, "after which no further solve begins", above(0, 1e6));
    add_backend(arguments, s.backend, false);
    arguments.add("csv", "FILE", s.csv, "the table", file_name());
    return arguments.parse(argc, argv);
}

Extents extents_of(const std::string &word) {
    Extents x{};
    char rest = 0;
    if (std::sscanf(word.c_str(), "%dx%dx%dx%d%c", &x[0], &x[1], &x[2], &x[3], &rest) != 4)
        throw examples::ArgumentError("--aggregates: '" + word + "' must be four extents, as 4x4x4x4");
    return x;
}

// Fat and long links on the host, in MILC's order, made by the library.
struct HostLinks {
    std::vector<double> fat, lng;
};
HostLinks make_links(const examples::Job &ranks, const examples::System &system, int backend) {
    const milcgpu_layout layout = ranks.layout(system.lattice);
    const milcgpu_options options = examples::options_for(backend);
    milcgpu_context *context = nullptr;
    if (milcgpu_context_create(&layout, &options, &context) != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    auto gauge = system.own;
    HostLinks links{std::vector<double>(gauge.size()), std::vector<double>(gauge.size())};
    const milcgpu_field from = examples::field_of(gauge), fat = examples::field_of(links.fat),
                        lng = examples::field_of(links.lng);
    const milcgpu_fatlink_spec spec = examples::link_spec(system);
    const milcgpu_fatlink_set set{0, &fat, &lng, nullptr};
    const milcgpu_status status = milcgpu_links_make(context, &spec, &from, &set, 1, nullptr, nullptr);
    milcgpu_context_destroy(context);
    if (status != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
    return links;
}

class Clock {
  public:
    explicit Clock(Device &device) : device_(device) { seconds(); }
    double seconds() { // since the start or the last call
        device_.synchronize();
        const auto now = std::chrono::steady_clock::now();
        const double passed = std::chrono::duration<double>(now - start_).count();
        start_ = now;
        return passed;
    }

  private:
    Device &device_;
    std::chrono::steady_clock::time_point start_;
};

// What a solve stands on, and what it took to make it.
struct Levels {
    const Blocks<double> &d_double;
    const Fine &fine;
    const Transfer &transfer;
    const Blocks<float> &coarse;
    const CoarseModes *modes;
};

struct Outcome {
    int outer = 0;
    Work work;
    double seconds = 0, residual = NAN;
};

// M x = b for K random sources on even sites.
template <int K> Outcome solve(Device &device, const SiteOrder &order, const Levels &levels, const Settings &s) {
    const int rows = order.rows(), of_parity = 3 * order.of_parity;
    const double mass = levels.fine.mass;
    const Field<double, K> b = make_field<double, K>(device, rows), x = make_field<double, K>(device, rows),
                           r = make_field<double, K>(device, rows);
    const Field<float, K> r_single = make_field<float, K>(device, rows), z_single = make_field<float, K>(device, rows);
    fill_with_noise(b, s.seed + 1000);
    Packed<double, K> *const at = b.data();
    each(
        device, rows,
        [=] ON_DEVICE(int row) {
            if (row / of_parity % 2 == 1)
                at[row] = {};
        },
        "multigrid: even source");
    Gcr<double, K> outer(device, rows, s.outer_restart);
    Cycle<K> cycle(device, levels.fine, levels.transfer, levels.coarse, levels.modes, s.shape);
    Outcome out;
    const auto m = [&](const Field<double, K> &from, const Field<double, K> &to) {
        apply(levels.d_double, from, to, 2 * mass);
    };
    const auto from_zero = [&](int limit) {
        clear(x);
        copy(r, b);
        cycle.work = {};
        return outer.run(
            x, r, b, limit, s.tolerance,
            [&](const Field<double, K> &from, const Field<double, K> &to) {
                m(from, to);
                ++cycle.work.m;
            },
            [&](const Field<double, K> &from, const Field<double, K> &to) {
                convert(r_single, from);
                cycle(r_single, z_single);
                convert(to, z_single);
            });
    };
    if (device.on_gpu())
        from_zero(1); // loads the kernels
    Clock clock(device);
    out.outer = from_zero(s.outer_limit);
    out.seconds = clock.seconds();
    out.work = cycle.work;
    m(x, r);
    out.residual = relative_difference(r, b); // |M x - b| / |b|
    return out;
}

// Times of single applications, microseconds, and GB/s of what is stored of the operator.
template <int K> void print_times(Device &device, const SiteOrder &order, const Levels &levels) {
    const Field<float, K> x = make_field<float, K>(device, order.rows()),
                          y = make_field<float, K>(device, order.rows()),
                          c = make_field<float, K>(device, levels.coarse.all_rows()),
                          e = make_field<float, K>(device, levels.coarse.all_rows());
    fill_with_noise(x, 1);
    fill_with_noise(c, 2);
    const auto time = [&](const char *what, double bytes, const auto &launch) {
        launch();
        Clock clock(device);
        const int repeat = device.on_gpu() ? 20 : 1;
        for (int k = 0; k < repeat; ++k)
            launch();
        const double seconds = clock.seconds() / repeat;
        std::printf("  %-8s %9.1f us %7.0f GB/s", what, seconds * 1e6, bytes / seconds * 1e-9);
    };
    std::printf("  %2d sources:", K);
    time("M", levels.fine.d.bytes(), [&] { levels.fine.m(x, y); });
    time("X^-1", levels.fine.inverse.bytes(), [&] { apply(levels.fine.inverse, x, y); });
    time("P", levels.transfer.prolong.bytes(), [&] { apply(levels.transfer.prolong, c, y); });
    time("P^dag", levels.transfer.restrict.bytes(), [&] { apply(levels.transfer.restrict, x, c); });
    time("coarse", levels.coarse.bytes(), [&] { apply(levels.coarse, c, e); });
    std::printf("\n");
}

class Checks {
  public:
    void add(const char *what, double error, double limit) {
        std::printf("  %s: %.1e%s\n", what, error, error <= limit ? "" : "  OFF");
        well = well && error <= limit;
    }
    bool well = true;
};

void check_levels(Device &device, const SiteOrder &order, const DeviceArray<int> &in_block, const Levels &levels,
                  Checks &checks) {
    const int rows = order.rows(), coarse_rows = levels.coarse.all_rows();
    const Field<float, 1> x = make_field<float, 1>(device, rows), y = make_field<float, 1>(device, rows),
                          z = make_field<float, 1>(device, rows), c = make_field<float, 1>(device, coarse_rows),
                          e = make_field<float, 1>(device, coarse_rows), f = make_field<float, 1>(device, coarse_rows);
    fill_with_noise(x, 11);
    fill_with_noise(c, 12);
    apply(levels.transfer.prolong, c, y);
    apply(levels.transfer.restrict, y, e);
    checks.add("|P^dag P - 1|", relative_difference(e, c), 1e-5);
    levels.fine.a(y, x, z);
    apply(levels.transfer.restrict, x, e);
    apply(levels.coarse, c, f);
    checks.add("|A_c - P^dag A P| / |A_c|", relative_difference(e, f), 1e-5);
    fill_with_noise(x, 11);
    apply(levels.fine.d, x, y, static_cast<float>(2 * levels.fine.mass), in_block.data());
    apply(levels.fine.inverse, y, z);
    checks.add("|X^-1 X - 1|", relative_difference(z, x), 1e-4);
}

// What stands in each row beside the solve: the lattice and its aggregates, and seconds of the set-up.
struct Setup {
    std::string aggregate;
    double links = 0, null = 0, transfer = 0, levels = 0;
    std::function<double()> passed; // since the start
};

// All numbers of coarse modes and of sources on one set of levels, a row each. What fails is said; the others go on.
void solve_all(Device &device, const SiteOrder &order, const Levels &without, const Setup &setup, const Settings &s,
               examples::Csv &csv, Checks &checks) {
    for (const int wanted : examples::list_of<int>(s.modes))
        try {
            if (setup.passed() > s.seconds)
                continue;
            CoarseModes modes;
            if (wanted > 0) {
                modes = coarse_modes(without.coarse, wanted);
                std::printf("  %d coarse modes in %.2f s, singular values %.2e to %.2e\n", modes.count, modes.seconds,
                            modes.values.front(), modes.values.back());
            }
            Levels levels = without;
            levels.modes = wanted > 0 ? &modes : nullptr;
            for (const int count : examples::list_of<int>(s.sources)) {
                const Outcome out =
                    count == 1 ? solve<1>(device, order, levels, s) : solve<12>(device, order, levels, s);
                const Work &w = out.work;
                const bool well = out.residual < 1.01 * s.tolerance;
                const double each = double(w.coarse) / w.coarse_solves;
                std::printf("  %4d modes, %2d sources: %3d outer, %5ld M and A, coarse %.1f each, %ld at most, %.4f s "
                            "(%.4f coarse), %.2f ms a source, residual %.2e%s\n",
                            modes.count, count, out.outer, w.m + w.a, each, w.coarse_most, out.seconds,
                            w.coarse_seconds, out.seconds / count * 1e3, out.residual, well ? "" : "  OFF");
                csv.row(s.lattice_file, order.lattice.n[0], order.lattice.n[1], order.lattice.n[2], order.lattice.n[3],
                        setup.aggregate, levels.transfer.n, levels.fine.mass, modes.count, count, out.outer, w.m, w.a,
                        w.m + w.a, w.coarse, w.coarse_solves, each, w.coarse_most, setup.links, setup.null,
                        setup.transfer, setup.levels, modes.seconds, out.seconds, w.coarse_seconds, out.seconds / count,
                        out.residual, well ? "ok" : "off");
                checks.well = checks.well && well;
            }
        } catch (const std::runtime_error &error) {
            std::printf("  %d modes: %s  OFF\n", wanted, error.what());
            checks.well = false;
        }
}

int run(const Settings &s, examples::Job &ranks) {
    ranks.start({1, 1, 1, 1});
    std::setvbuf(stdout, nullptr, _IOLBF, 0); // a run that is cut short leaves its lines
    const auto masses = examples::list_of<double>(s.masses);
    const auto counts = examples::list_of<int>(s.vectors);
    for (const int n : counts)
        if (n % 8 != 0)
            throw examples::ArgumentError("--vectors: each must be a multiple of 8");
    for (const int n : examples::list_of<int>(s.modes))
        if (n % 16 != 0)
            throw examples::ArgumentError("--modes: each must be a multiple of 16");
    std::vector<Extents> shapes;
    for (const auto &word : examples::list_of<std::string>(s.aggregates))
        shapes.push_back(extents_of(word));
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::Csv csv;
    csv.open("--csv", s.csv,
             examples::between_commas("lattice,x,y,z,t,aggregate,vectors,mass,modes,sources,outer,m,a,fine_work,coarse,"
                                      "coarse_solves,coarse_each,coarse_most,links_s,null_s,transfer_s,levels_s,"
                                      "modes_s,seconds,coarse_seconds,seconds_a_source,residual,status"));
    reference::Lattice lattice{s.size};
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> gauge = examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
                                                             6 * examples::gauge_bytes + 11 * hops * 4);
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), false);
    const HostLinks links = make_links(ranks, system, backend);
    const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    const double links_seconds = passed();
    std::printf("fat and long links, with the lattice: %.2f s\n", links_seconds);

    Device device(backend == MILCGPU_CUDA ? Backend::cuda : Backend::host, 0);
    const int most = *std::max_element(counts.begin(), counts.end());
    Checks checks;
    for (const Extents &shape : shapes) {
        Clock clock(device);
        const SiteOrder order(lattice, shape);
        const HopTables tables(order);
        const Blocks<double> d_double = make_d(device, order, tables, links.fat, links.lng);
        const Blocks<float> d = in_single(d_double);
        const DeviceArray<int> in_block = on_device(device, tables.in_block);
        std::vector<DeviceArray<int>> to_neighbour;
        for (const auto &table : tables.to_neighbour)
            to_neighbour.push_back(on_device(device, table));
        const std::string name = format("%dx%dx%dx%d", shape[0], shape[1], shape[2], shape[3]);
        std::printf("\naggregates %s: %d, D %.2f s", name.c_str(), order.aggregates, clock.seconds());
        const auto null = null_vectors<8>(d, most, s.steps, s.seed + 1);
        const double null_seconds = clock.seconds();
        std::printf(", %d null vectors %.2f s\n", most, null_seconds);
        for (const int n : counts) {
            clock.seconds();
            const Transfer transfer = make_transfer(order, null, n);
            const double transfer_seconds = clock.seconds();
            for (const double mass : masses) {
                if (passed() > s.seconds)
                    continue;
                clock.seconds();
                const Blocks<float> inverse = inverse_of_blocks(d_double, order, in_block, mass);
                const Fine fine{d, inverse, mass};
                const Blocks<float> coarse = make_coarse<8>(order, fine, transfer, to_neighbour);
                const double levels_seconds = clock.seconds();
                std::printf("n %d, mass %g: P %.3f s, X^-1 and coarse operator %.3f s\n", n, mass, transfer_seconds,
                            levels_seconds);
                const Levels without{d_double, fine, transfer, coarse, nullptr};
                check_levels(device, order, in_block, without, checks);
                if (mass == masses[0]) {
                    print_times<1>(device, order, without);
                    print_times<12>(device, order, without);
                }
                solve_all(device, order, without,
                          {name, links_seconds, null_seconds * n / most, transfer_seconds, levels_seconds, passed}, s,
                          csv, checks);
            }
        }
    }
    csv.finish();
    if (passed() > s.seconds)
        std::printf("ended after --seconds %g\n", s.seconds);
    std::printf("%s\n", checks.well ? "all is as it should be" : "NOT all is as it should be");
    return checks.well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    return examples::run_on_ranks([&](examples::Job &ranks) {
        Settings settings;
        return read_settings(argc, argv, settings) ? run(settings, ranks) : 0;
    });
}
