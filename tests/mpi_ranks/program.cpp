// The library on ranks of a real MPI: mpirun -n N program WHAT. test_mpi_ranks.cpp runs it and reads its output.
//   start     contexts that start, and contexts that all ranks refuse because of one rank
//   memory    contexts while the last rank's memory is short, at each allocation in turn
//   messages  gathers, sums, decisions and exchanges, many times
//   solve     a solve on all ranks, and on each rank alone
//   measure   operators, smearing and contractions on all ranks, and on each rank alone
//   wilson    a solve with a clover term on all ranks, and on each rank alone
//   stopped   the last rank stops in the middle: the others report it and end
//   killed    the last rank is killed in the middle
//   plugin    the start of the plugin for MILC, and its tables (plugin.cpp)
//   clover    the plugin's clover solves and D of Wilson fermions on all ranks, and on each rank alone
//   heads     the number of gathers at the head of each call of the plugin
//   nodes     the solve of `solve` on two nodes with two ranks each
//   quda      MILC's own GPU switches (quda.cpp)
//   lost      the last rank stops before a decision of the plugin's ranks: the plugin ends the job
//   terminate RANK|all   one rank, or each, ends as MILC does after an error
#include "gpu_kernels/machine/geometry/lattice.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_mpi.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/api/test_hooks.h"
#include "tests/failing_new.h"
#include "tests/mpi_ranks/parts.h"
#include "tests/sized.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

using namespace milcgpu;

namespace {

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// As in tests/catch.h.
bool long_tests() {
    const char *const asked = std::getenv("LONG");
    return asked != nullptr && std::string(asked) == "1";
}

// The lattice of 4 x 4 x 4 x 4N, cut in t.
milcgpu_layout layout_of(const milcgpu_messages &table) {
    auto layout = tests::sized<milcgpu_layout>();
    for (int mu = 0; mu < 4; ++mu)
        layout.extent[mu] = layout.whole[mu] = 4;
    layout.whole[3] *= table.size;
    layout.origin[3] = 4 * table.rank;
    layout.neighbour[3][0] = (table.rank + table.size - 1) % table.size;
    layout.neighbour[3][1] = (table.rank + 1) % table.size;
    layout.messages = &table;
    return layout;
}

std::string started(const milcgpu_layout &layout, milcgpu_status expected) {
    auto options = tests::sized<milcgpu_options>();
    milcgpu_context *context = nullptr;
    const milcgpu_status status = milcgpu_context_create(&layout, &options, &context);
    const std::string text = status == MILCGPU_OK ? "" : milcgpu_last_error();
    check(status == expected, std::string(milcgpu_status_name(status)) + ": " + text);
    milcgpu_context_destroy(context);
    return text;
}

void start(const milcgpu_messages &table) {
    const int last = table.size - 1;
    const bool spoils = table.rank == last;
    const std::string who = "rank " + std::to_string(last) + " of " + std::to_string(table.size);
    const auto refused = [&](const milcgpu_layout &layout, const std::string &words) {
        const std::string text = started(layout, MILCGPU_BAD_ARGUMENT);
        check(has(text, words), text + "; expected: " + words);
    };
    started(layout_of(table), MILCGPU_OK);
    milcgpu_layout bad = layout_of(table);
    bad.extent[0] = spoils ? 5 : 4;
    refused(bad, who + ": layout.extent[X] is 5");
    bad = layout_of(table);
    bad.origin[3] -= spoils ? 1 : 0;
    refused(bad, "the box of " + who + ", 4 x 4 x 4 x 4 at 0 0 0 ");
    // Settings that differ, as on several hosts.
    const auto with = [&](const char *name, const char *value, const std::string &words) {
        const char *before = std::getenv(name);
        const std::string kept = before != nullptr ? before : "";
        if (spoils)
            setenv(name, value, 1);
        refused(layout_of(table), words);
        setenv(name, kept.c_str(), 1);
    };
    with("MILCGPU_VERIFY", "0", "MILCGPU_VERIFY is 0 on " + who);
    with("MILCGPU_VERIFY", "7", who + ": MILCGPU_VERIFY=7");
    with("MILCGPU_TIMEOUT", "soon", who + ": MILCGPU_TIMEOUT=soon");
    with("MILCGPU_BACKEND", "abacus", who + ": MILCGPU_BACKEND=abacus");
    started(layout_of(table), MILCGPU_OK);
}

// Unlike MPI_Barrier, which keeps a processor busy while it waits.
void wait_for_all() {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int here = 0; MPI_Test(&request, &here, MPI_STATUS_IGNORE), !here;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// If the last rank fails in its own work, all get its message; if it fails while it passes a message, the others miss
// it.
void memory(const milcgpu_messages &table) {
    setenv("MILCGPU_TIMEOUT", "1", 1);
    const int last = table.size - 1;
    const std::string agreed = "milcgpu_context_create: rank " + std::to_string(last) + " of " +
                               std::to_string(table.size) + ": host memory is exhausted";
    int heard = 0, missed = 0;
    long failures = 1;
    for (int news = 0; failures != 0; news += long_tests() ? 5 : 29) {
        MPI_Comm communicator; // messages of a failed context may still be under way
        milcgpu_mpi_own(MPI_COMM_WORLD, &communicator);
        milcgpu_messages fresh = table;
        fresh.user = new MPI_Comm(communicator);
        const milcgpu_layout layout = layout_of(fresh);
        auto options = tests::sized<milcgpu_options>();
        milcgpu_context *context = nullptr;
        tests::failed_news = 0;
        tests::news_left = table.rank == last ? news : -1;
        const milcgpu_status status = milcgpu_context_create(&layout, &options, &context);
        tests::news_left = -1;
        const std::string text = status == MILCGPU_OK ? "" : milcgpu_last_error();
        milcgpu_context_destroy(context);
        check(status == MILCGPU_OK || status == MILCGPU_NO_MEMORY ||
                  status == (table.rank == last ? MILCGPU_COMM : MILCGPU_TIMED_OUT),
              text);
        heard += table.rank != last && status == MILCGPU_NO_MEMORY && text == agreed;
        missed += status == MILCGPU_TIMED_OUT;
        failures = tests::failed_news;
        wait_for_all();
        MPI_Bcast(&failures, 1, MPI_LONG, last, MPI_COMM_WORLD);
        check(failures != 0 || status == MILCGPU_OK, text);
    }
    check(table.rank == last || heard > 0, "no failure was heard of");
    check(table.rank == last || missed > 0, "no rank was missed");
}

void messages(Ranks &ranks) {
    const int size = ranks.size(), rank = ranks.rank(), ahead = (rank + 1) % size, behind = (rank + size - 1) % size;
    for (int turn = 0; turn < 50; ++turn) {
        const std::vector<int> all = ranks.gathered("a gather", 1000 * turn + rank);
        bool right = true;
        for (int r = 0; r < size; ++r)
            right = right && all[r] == 1000 * turn + r;
        check(right, "a gather");

        const auto value = [&](int r) { return (r % 2 == 0 ? 1e16 : -1e16) + 1.0 / (3 + r + turn); };
        double sum = value(rank), expected = value(0);
        for (int r = 1; r < size; ++r)
            expected += value(r);
        ranks.add_in_rank_order("a sum", &sum, 1);
        check(sum == expected, "a sum");

        // A few bytes, and more than MPI sends without asking the receiver; with two exchanges at a time.
        const size_t count = turn % 10 == 0 ? 200000 : 3;
        struct Buffers {
            std::vector<double> sent, received;
        };
        const auto begin = [&](int sends_to, int receives_from, int tag, const std::shared_ptr<Buffers> &buffers) {
            buffers->sent.assign(count, 10.0 * rank + tag);
            buffers->received.assign(count, -1);
            return std::make_unique<Exchange>(
                ranks, "an exchange",
                std::vector<Message>{
                    {sends_to, buffers->sent.data(), nullptr, count * sizeof(double), tag, "ahead"},
                    {receives_from, nullptr, buffers->received.data(), count * sizeof(double), tag, "behind"}},
                buffers);
        };
        const auto one = std::make_shared<Buffers>(), other = std::make_shared<Buffers>();
        const auto first = begin(ahead, behind, 1, one), second = begin(behind, ahead, 2, other);
        second->finish();
        first->finish();
        check(one->received == std::vector<double>(count, 10.0 * behind + 1), "an exchange ahead");
        check(other->received == std::vector<double>(count, 10.0 * ahead + 2), "an exchange behind");

        std::string said;
        try {
            ranks.collective("a decision", [&] {
                if (rank == turn % size)
                    throw Error(Status::no_memory, "none left");
            });
        } catch (const Error &error) {
            said = error.what();
        }
        check(said == ranks.name(turn % size) + ": none left", "a decision: " + said);
    }
}

// A number of order 1 for each place of the whole lattice, the same on every rank.
double number(size_t place) {
    uint64_t bits = (place + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9ull;
    return double((bits ^ bits >> 32) & 0xFFFFFFFF) / 2147483648.0 - 1;
}

// `reals` numbers a site of a box, in MILC's order. first: the number of the lattice's first site.
std::vector<double> field_of(const milcgpu_layout &box, size_t reals, size_t first, double size) {
    const Lattice lattice({box.extent[0], box.extent[1], box.extent[2], box.extent[3]}, box.origin[3] % 2);
    std::vector<double> field;
    for (int parity = 0; parity < 2; ++parity)
        for (int i = 0; i < lattice.sites(parity); ++i) {
            const Site s = lattice.site(parity, i);
            const size_t site = s.x[0] + 4 * (s.x[1] + 4 * (s.x[2] + size_t(4) * (s.x[3] + box.origin[3])));
            for (size_t k = 0; k < reals; ++k)
                field.push_back(size * number(first + site * reals + k));
        }
    return field;
}

struct Solved {
    std::vector<double> x;
    milcgpu_solve_report report = tests::sized<milcgpu_solve_report>();
};

Solved solved_on(const milcgpu_layout &layout) {
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    const std::vector<double> fat = field_of(layout, 72, 0, 0.2), lng = field_of(layout, 72, 1u << 30, 0.1),
                              b = field_of(layout, 6, 1u << 31, 1);
    Solved solved;
    solved.x.assign(b.size(), 0.0);
    const auto lent = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    const milcgpu_field f = lent(fat), l = lent(lng), source = lent(b), x = lent(solved.x);
    auto spec = tests::sized<milcgpu_solve_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.mass = 0.3;
    spec.tolerance = 1e-10;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE;
    const bool done = milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_OK &&
                      milcgpu_links_create(context, &f, &l, &links) == MILCGPU_OK &&
                      milcgpu_staggered_solve(links, &spec, &source, &x, &solved.report) == MILCGPU_OK;
    check(done, milcgpu_last_error());
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);
    return solved;
}

milcgpu_layout whole_of(const milcgpu_layout &cut) {
    auto whole = tests::sized<milcgpu_layout>();
    std::copy(cut.whole, cut.whole + 4, whole.extent);
    return whole;
}

// The relative distance of a rank's part of a field from the same part of the whole, on even sites. The sites of one
// parity in a slab in t are contiguous.
double distance(const std::vector<double> &part, const std::vector<double> &whole, int rank) {
    const size_t own = part.size() / 2, first = own * rank;
    double off = 0, size = 0;
    for (size_t k = 0; k < own; ++k) {
        const double d = part[k] - whole[first + k];
        off += d * d, size += whole[first + k] * whole[first + k];
    }
    return std::sqrt(off / size);
}

void solve(const milcgpu_messages &table) {
    const milcgpu_layout cut = layout_of(table), whole = whole_of(cut);
    const Solved many = solved_on(cut), one = solved_on(whole);
    check(many.report.true_residual < 1e-10, "the true residual");
    check(std::abs(many.report.iterations - one.report.iterations) <= 1, "iterations");
    check(distance(many.x, one.x, table.rank) < 1e-9, "the solution");
}

struct Measured {
    std::vector<double> quark;    // after an operator of four links, and smearing
    std::vector<double> sums;     // a correlator for each time slice
    std::vector<double> solution; // of the gauge Laplace operator
    milcgpu_solve_report report = tests::sized<milcgpu_solve_report>();
};

Measured measured_on(const milcgpu_layout &layout) {
    const int slices = layout.whole[3] > 0 ? layout.whole[3] : layout.extent[3];
    Measured made{field_of(layout, 6, 1u << 31, 1), std::vector<double>(2 * slices), field_of(layout, 6, 1u << 29, 1)};
    std::vector<double> gauge = field_of(layout, 72, 0, 0.5), other = field_of(layout, 6, 1u << 30, 1);
    const auto field = [](std::vector<double> &data) { return milcgpu_field{data.data(), MILCGPU_DOUBLE, 0}; };
    const milcgpu_field u = field(gauge), x = field(made.quark), y = field(other), z = field(made.solution);
    const milcgpu_quarks quark{&x, nullptr, 0}, second{&y, nullptr, 0}, solution{&z, nullptr, 0};
    const milcgpu_meson_links_spec spec{sizeof spec, 1, MILCGPU_SIGNS_OUT, {}};
    const int origin[4] = {1, 0, 3, 2};
    const milcgpu_momentum momentum = {{1, 0, -1}, {MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN_AND_ODD}};
    const milcgpu_meson_term term = {milcgpu_spin_taste_index("GXT-GX"), 0, 1, 0.7, 0};
    const milcgpu_meson_spec sums = {sizeof sums, {1, 0, 3, 2}, 1, 1, 1, &momentum, &term};
    const milcgpu_laplace_spec laplace{sizeof laplace, 4, 0.1, {MILCGPU_DOUBLE, 18}};
    auto solve = tests::sized<milcgpu_laplace_solve_spec>();
    solve.directions = 4, solve.kappa = 0.1, solve.tolerance = 1e-11;
    solve.max_iterations = 1000, solve.max_restarts = 5;
    solve.precise.precision = MILCGPU_DOUBLE, solve.sloppy.precision = MILCGPU_SINGLE;
    milcgpu_context *context = nullptr;
    milcgpu_meson_links *links = nullptr;
    const bool done =
        milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_OK &&
        milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &links) == MILCGPU_OK &&
        milcgpu_meson_links_load(links, &spec, &u) == MILCGPU_OK &&
        milcgpu_quarks_spin_taste(links, nullptr, milcgpu_spin_taste_index("G5-G1"), origin, 1, &quark, &quark) ==
            MILCGPU_OK &&
        milcgpu_quarks_gauss_smear(links, 2, 1.2, 3, -1, 1, &quark) == MILCGPU_OK &&
        milcgpu_quarks_gauss_smear(links, 1, 1.2, 2, 5, 1, &quark) == MILCGPU_OK &&
        milcgpu_laplace_apply(links, &laplace, MILCGPU_LAPLACE_M, MILCGPU_EVEN + MILCGPU_ODD, 1, &quark, &quark) ==
            MILCGPU_OK &&
        milcgpu_quarks_contract(links, &sums, nullptr, nullptr, 1, &quark, &second, made.sums.data()) == MILCGPU_OK &&
        milcgpu_laplace_solve(links, &solve, 1, &second, &solution, &made.report) == MILCGPU_OK;
    check(done, milcgpu_last_error());
    milcgpu_meson_links_destroy(links);
    milcgpu_context_destroy(context);
    return made;
}

void measure(const milcgpu_messages &table) {
    const milcgpu_layout cut = layout_of(table), whole = whole_of(cut);
    const Measured many = measured_on(cut), one = measured_on(whole);
    const size_t own = many.quark.size() / 2, all = one.quark.size() / 2, first = own * table.rank;
    for (size_t parity = 0; parity < 2; ++parity)
        check(std::equal(many.quark.begin() + parity * own, many.quark.begin() + (parity + 1) * own,
                         one.quark.begin() + parity * all + first),
              "quark fields have the bits of one rank");
    check(distance(many.solution, one.solution, table.rank) < 1e-10, "the solution of the Laplace operator");
    check(many.report.true_residual < 1e-11, "the true residual");
    check(std::abs(many.report.iterations - one.report.iterations) <= 1, "iterations");
    double off = 0, size = 0;
    for (size_t k = 0; k < one.sums.size(); ++k) {
        const double here = std::abs(many.sums[k] - one.sums[k]);
        off = here <= off || off != off ? off : here; // keeps NaN
        size = std::max(size, std::abs(one.sums[k]));
    }
    check(size > 0 && off <= 1e-15 * size, "correlators: " + std::to_string(off / size));
    std::vector<double> others = many.sums;
    MPI_Bcast(others.data(), static_cast<int>(others.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    check(others == many.sums, "correlators have the same bits on all ranks");
}

struct WilsonSolved {
    std::vector<double> x; // source, then solution
    milcgpu_solve_report report = tests::sized<milcgpu_solve_report>();
};

// A solve with a clover term by BiCGstab.
WilsonSolved wilson_on(const milcgpu_layout &layout) {
    WilsonSolved made{field_of(layout, 24, 1u << 31, 1)};
    std::vector<double> gauge = field_of(layout, 72, 0, 0.5), source = made.x;
    const auto field = [](std::vector<double> &data) { return milcgpu_field{data.data(), MILCGPU_DOUBLE, 0}; };
    const milcgpu_field u = field(gauge), b = field(source), x = field(made.x);
    const milcgpu_wilson_spec spec{sizeof spec, 0.1, 0.2, 0, MILCGPU_WILSON_BICGSTAB};
    auto how = tests::sized<milcgpu_solve_spec>();
    how.parity = MILCGPU_EVEN;
    how.tolerance = 1e-11;
    how.max_iterations = 1000, how.max_restarts = 5;
    how.precise.precision = MILCGPU_DOUBLE, how.sloppy.precision = MILCGPU_SINGLE;
    milcgpu_context *context = nullptr;
    milcgpu_wilson *wilson = nullptr;
    const bool done = milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_OK &&
                      milcgpu_wilson_create(context, &wilson) == MILCGPU_OK &&
                      milcgpu_wilson_load(wilson, &u) == MILCGPU_OK &&
                      milcgpu_wilson_solve(wilson, &spec, &how, &b, &x, &made.report) == MILCGPU_OK;
    check(done, milcgpu_last_error());
    milcgpu_wilson_destroy(wilson);
    milcgpu_context_destroy(context);
    return made;
}

void wilson(const milcgpu_messages &table) {
    const milcgpu_layout cut = layout_of(table), whole = whole_of(cut);
    const WilsonSolved many = wilson_on(cut), one = wilson_on(whole);
    check(many.report.true_residual < 1e-11, "the true residual");
    check(std::abs(many.report.iterations - one.report.iterations) <= 1, "iterations");
    check(distance(many.x, one.x, table.rank) < 1e-10, "the solution");
}

// The calls of MILC's clover programs: the solve of `wilson`, D, comparisons, and faults of one rank alone.
void clover(const milcgpu_messages &table, const milcgpu_messages &decisions) {
    const milcgpu_layout cut = layout_of(table), whole = whole_of(cut);
    const bool is_last = table.rank == table.size - 1;
    const WilsonSolved one = wilson_on(whole);
    const std::vector<double> source = field_of(cut, 24, 1u << 31, 1);
    std::vector<double> gauge = field_of(cut, 72, 0, 0.5), b = source, x = source;
    const auto field = [](std::vector<double> &data) { return milcgpu_field{data.data(), MILCGPU_DOUBLE, 0}; };
    setenv("MILCGPU_PRECISION", "double-single", 1);
    check(start_as_milc(table, decisions) == 1, "the start");
    milcgpu_plugin_clover_call call{};
    call.mixed = MILCGPU_MIXED_AUTO;
    call.links = field(gauge);
    call.kappa = 0.1, call.clover = 0.2, call.tolerance = 1e-11;
    call.max_iterations = 1000, call.max_restarts = 5;
    call.source = field(b), call.solution = field(x);
    milcgpu_solve_report report = tests::sized<milcgpu_solve_report>();
    const auto solves = [&] {
        x = source;
        report = {};
        return milcgpu_plugin_clover_solve(&call, &report) == 1 && report.true_residual < 1e-11;
    };
    check(solves(), "the solve");
    check(std::abs(report.iterations - one.report.iterations) <= 1, "iterations");
    check(distance(x, one.x, table.rank) < 1e-10, "the solution");
    std::vector<double> theirs = x;
    check(milcgpu_plugin_compare_clover(&call, report.iterations, 1, field(theirs), report.iterations, 1) == 1,
          "a comparison with the same solution");
    if (is_last)
        theirs[0] += 1;
    check(milcgpu_plugin_compare_clover(&call, report.iterations, 1, field(theirs), report.iterations, 1) == 1,
          "MILC's solution may be the worse one");
    theirs[0] = x[0];
    x[0] += is_last ? 1 : 0;
    check(milcgpu_plugin_compare_clover(&call, report.iterations, 1, field(theirs), report.iterations, 1) == 0,
          "one that is wrong on one rank is wrong on all");

    // D agrees with one rank to rounding.
    std::vector<double> links_of_all = field_of(whole, 72, 0, 0.5), d_of_all = field_of(whole, 24, 1u << 31, 1);
    const milcgpu_field u = field(links_of_all), of_all = field(d_of_all);
    const milcgpu_storage what{MILCGPU_DOUBLE, 0};
    milcgpu_context *context = nullptr;
    milcgpu_wilson *alone = nullptr;
    check(milcgpu_context_create(&whole, nullptr, &context) == MILCGPU_OK &&
              milcgpu_wilson_create(context, &alone) == MILCGPU_OK && milcgpu_wilson_load(alone, &u) == MILCGPU_OK &&
              milcgpu_wilson_dslash(alone, &what, -1, MILCGPU_EVEN_AND_ODD, &of_all, &of_all) == MILCGPU_OK,
          milcgpu_last_error());
    milcgpu_wilson_destroy(alone);
    milcgpu_context_destroy(context);
    std::vector<double> d = source;
    check(milcgpu_plugin_wilson_dslash(field(gauge), -1, MILCGPU_EVEN_AND_ODD, field(d), field(d)) == 1, "D");
    check(distance(d, d_of_all, table.rank) < 1e-14, "D has the numbers of one rank");
    theirs = d;
    check(milcgpu_plugin_compare_wilson_dslash(source.data(), d.data(), theirs.data(), 1, 1) == 1, "D compared");
    if (is_last)
        theirs[7] += 1e-9;
    check(milcgpu_plugin_compare_wilson_dslash(source.data(), d.data(), theirs.data(), 1, 1) == 0,
          "D that differs on one rank differs on all");

    // Links of one rank change, as at a boundary; then its memory is short.
    for (double &link : gauge)
        link *= is_last ? 0.9 : 1;
    check(solves() && distance(x, one.x, table.rank) > 1e-7, "other links on one rank are loaded on all");
    for (double &link : gauge)
        link = is_last ? link / 0.9 : link;
    if (is_last)
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_ALLOCATION);
    check(solves() && distance(x, one.x, table.rank) < 1e-10, "memory that is short on one rank");
    b.back() = is_last ? NAN : b.back();
    check(!solves() && x == source, "a source with NaN on one rank is refused on all");
    milcgpu_plugin_exit(0);
}

// A letter for each message that starts, in order: 'D' for the plugin's decisions, 'L' for the library.
std::string starts;

template <char whose> milcgpu_messages counted(const milcgpu_messages &table) {
    static milcgpu_messages real;
    real = table;
    milcgpu_messages lent = table;
    lent.start = [](void *user, int count, const milcgpu_message *messages, void **handle) {
        starts += whose;
        return real.start(user, count, messages, handle);
    };
    return lent;
}

// M x = b by M^dag of solutions on both parities, with eigenvectors of both and without.
void deflated(const milcgpu_plugin_solve_call &one, const std::vector<double> &b) {
    const auto field = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    std::vector<std::vector<double>> vectors(4, std::vector<double>(b.size()));
    void *vector[4];
    for (int k = 0; k < 4; ++k)
        vector[k] = vectors[k].data();
    double values[4], residuals[4];
    milcgpu_eigen_report of_vectors{};
    const milcgpu_plugin_eigen_call low{one.fat, one.lng, MILCGPU_EVEN, 4, vector, 1e-3, 1};
    check(milcgpu_plugin_eigensolve(&low, values, residuals, &of_vectors) == 1 &&
              milcgpu_plugin_eigen_other_parity(&low) == 1 && milcgpu_plugin_eigen_both_parities(&low) == 1,
          milcgpu_last_error());
    milcgpu_plugin_invert_call invert{};
    invert.solve = one;
    invert.solve.routine = MILCGPU_MAT_INVERT, invert.solve.mass = 0.3, invert.solve.tolerance = 1e-11;
    invert.adjoint_last = 1, invert.n = 1;
    std::vector<double> inverted[2] = {b, b};
    for (const int deflated : {0, 1}) {
        const milcgpu_field from = field(b), into = field(inverted[deflated]);
        invert.sources = &from, invert.solutions = &into;
        invert.solve.deflate = deflated != 0 ? MILCGPU_DEFLATED_BY_MILCS : MILCGPU_UNDEFLATED;
        milcgpu_solve_report even = tests::sized<milcgpu_solve_report>(), odd = even;
        check(milcgpu_plugin_invert(&invert, &even, &odd) == 1, milcgpu_last_error());
        check((even.deflations > 0) == (deflated != 0) && (odd.deflations > 0) == (deflated != 0),
              "deflations on both parities");
        check(even.true_residual < 1e-11 && odd.true_residual < 1e-11, "residuals of M^dag last");
    }
    double apart = 0, size = 0;
    for (size_t k = 0; k < b.size(); ++k) {
        apart += (inverted[0][k] - inverted[1][k]) * (inverted[0][k] - inverted[1][k]);
        size += inverted[0][k] * inverted[0][k];
    }
    check(std::sqrt(apart / size) < 1e-7, "the deflated solution");
}

// What all ranks must agree on before any of them acts: one gather a call, which every other rank waits for.
void heads(const milcgpu_messages &table, const milcgpu_messages &decisions) {
    static milcgpu_messages library = counted<'L'>(table), plugin = counted<'D'>(decisions);
    const milcgpu_layout cut = layout_of(table);
    check(start_as_milc(library, plugin) == 1, "the start");
    const auto field = [](const std::vector<double> &data) {
        return milcgpu_field{const_cast<double *>(data.data()), MILCGPU_DOUBLE, 0};
    };
    const auto call = [&](const char *what, int gathers, bool reaches_the_library, const auto &work) {
        starts.clear();
        const bool done = work();
        const size_t first = std::min(starts.find('L'), starts.size());
        check(done, std::string(what) + ": " + milcgpu_last_error());
        check(first == size_t(gathers * (table.size - 1)),
              std::string(what) + ": " + std::to_string(first) + " starts of messages at its head, " + starts);
        check((first < starts.size()) == reaches_the_library, std::string(what) + ": the library");
    };
    const std::vector<double> gauge = field_of(cut, 72, 0, 0.5), b = field_of(cut, 6, 1u << 31, 1),
                              dirac = field_of(cut, 24, 1u << 29, 1);
    std::vector<double> momenta = field_of(cut, 40, 1u << 28, 1), fat[2] = {gauge, gauge}, lng[2] = {gauge, gauge},
                        x[2] = {b, b}, to = dirac, links = gauge;

    auto paths = tests::filled(milcgpu_asqtad_defaults, 0.9);
    paths.unitarity = -1;
    const double eps[2] = {0, -0.1};
    void *const fats[2] = {fat[0].data(), fat[1].data()}, *const lngs[2] = {lng[0].data(), lng[1].data()};
    milcgpu_fatlink_report of_links{};
    for (const char *what : {"links", "links again"})
        call(what, 1, true, [&] {
            return milcgpu_plugin_links(
                       {MILCGPU_LOAD_FN_LINKS, &paths, gauge.data(), 2, eps, fats, lngs, nullptr, nullptr, nullptr, 0},
                       &of_links) == 1;
        });

    milcgpu_plugin_solve_call one{};
    one.routine = MILCGPU_KS_CONGRAD;
    one.mixed = MILCGPU_MIXED_AUTO;
    one.fat = fats[0], one.lng = lngs[0];
    one.parity = MILCGPU_EVEN;
    one.mass = 0.3, one.tolerance = 1e-8;
    one.max_iterations = 500, one.max_restarts = 5;
    one.source = field(b), one.solution = field(x[0]);
    milcgpu_solve_report report = tests::sized<milcgpu_solve_report>();
    call("a solve", 1, true, [&] { return milcgpu_plugin_solve(&one, &report) == 1; });

    const double offsets[2] = {0.36, 1}, tolerances[2] = {1e-10, 1e-10}, none[2] = {0, 0};
    const milcgpu_field solutions[2] = {field(x[0]), field(x[1])};
    milcgpu_plugin_multi_mass_call several{};
    several.mixed = MILCGPU_MIXED_AUTO;
    several.fat = fats[0], several.lng = lngs[0];
    several.parity = MILCGPU_EVEN;
    several.n_shifts = 2;
    several.offsets = offsets, several.tolerances = tolerances, several.relative_tolerances = none;
    several.max_iterations = 500, several.max_restarts = 5;
    several.source = field(b), several.solutions = solutions;
    milcgpu_shift_report shifts[2]{};
    milcgpu_multi_mass_report masses{};
    call("several masses", 1, true, [&] { return milcgpu_plugin_multi_mass(&several, shifts, &masses) == 1; });
    call("a solve whose solution is known", 1, false,
         [&] { return milcgpu_plugin_solve(&one, &report) == 1 && report.true_residual < 1e-8; });
    x[1][0] += table.rank == 0 ? 0.5 : 0;
    one.mass = 0.5, one.solution = field(x[1]);
    call("a solve whose solution one rank does not know", 1, true,
         [&] { return milcgpu_plugin_solve(&one, &report) == 1; });
    milcgpu_plugin_vectors_begin(2, 0);
    call("several masses that stay", 1, true,
         [&] { return milcgpu_plugin_multi_mass(&several, shifts, &masses) == 1; });
    for (const int k : {0, 1})
        call("D of a solution that stays", 1, true,
             [&] { return milcgpu_plugin_dslash(fats[0], lngs[0], MILCGPU_ODD, solutions[k], solutions[k]) == 1; });

    const milcgpu_plugin_lattice sites{field(links), field(momenta)};
    const milcgpu_loops loops{1, -0.05, 0, 0};
    milcgpu_plugin_gauge_force(&sites, &loops, 6, 0.01); // allocates the gauge field
    call("the gauge force", 1, true, [&] {
        momenta[5] += table.rank == 0 ? 0.1 : 0; // MILC writes on one rank
        return milcgpu_plugin_gauge_force(&sites, &loops, 6, 0.01) == 1;
    });
    const double residues[2] = {0.1, 0.2};
    auto force = tests::sized<milcgpu_force_spec>();
    force.links = &paths;
    force.eps = 0.01, force.n_terms = 2, force.residues = residues;
    milcgpu_force_report of_force{};
    call("the force of fermions", 1, true,
         [&] { return milcgpu_plugin_fermion_force(&sites, &force, solutions, &of_force) == 1; });
    milcgpu_plugin_vectors_end();

    if (table.size == 2 || long_tests()) // four ranks take seconds on two cores
        deflated(one, b);

    milcgpu_plugin_clover_call matrix{};
    matrix.mixed = MILCGPU_MIXED_AUTO;
    matrix.links = field(gauge);
    matrix.kappa = 0.1, matrix.clover = 0.2, matrix.tolerance = 1e-9;
    matrix.max_iterations = 500, matrix.max_restarts = 5;
    matrix.source = field(dirac), matrix.solution = field(to);
    for (const char *what : {"a clover solve", "a clover solve with known links"})
        call(what, 1, true, [&] { return milcgpu_plugin_clover_solve(&matrix, &report) == 1; });
    milcgpu_plugin_exit(0);
}

// The last rank no longer answers. The others find out and report it.
void missed(Ranks &ranks, int signal) {
    ranks.gathered("before", 1);
    if (ranks.rank() == ranks.size() - 1)
        std::raise(signal);
    try {
        ranks.gathered("after", 1);
        std::printf("nothing was missed\n");
    } catch (const Error &error) {
        std::printf("%s: %s\n", milcgpu_status_name(static_cast<int>(error.status())), error.what());
    }
    std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const std::string what = argc > 1 ? argv[1] : "";
    MPI_Comm communicator;
    milcgpu_mpi_own(MPI_COMM_WORLD, &communicator);
    int node_rank, node_size;
    milcgpu_mpi_node(MPI_COMM_WORLD, &node_rank, &node_size);
    const milcgpu_messages table = milcgpu_mpi_messages(&communicator, node_rank, node_size);
    const auto ranks = [&] { // as milcgpu_context_create does
        std::unique_ptr<Ranks> made = ranks_of(&table);
        if (const char *limit = std::getenv("MILCGPU_TIMEOUT"))
            made->set_time_limit(std::atof(limit));
        return made;
    }();
    if (what == "start")
        start(table);
    else if (what == "memory")
        memory(table);
    else if (what == "messages")
        messages(*ranks);
    else if (what == "solve")
        solve(table);
    else if (what == "measure")
        measure(table);
    else if (what == "wilson")
        wilson(table);
    else if (what == "nodes") {
        check(node_rank == table.rank % 2 && node_size == 2, "the rank on this node");
        solve(table);
    } else if (what == "stopped" || what == "killed") {
        missed(*ranks, what == "stopped" ? SIGSTOP : SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(300)); // until all have reported it
        MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (what == "terminate") {
        terminate_ranks(argv[2]);
    } else if (what == "quda") {
        MPI_Comm job = MPI_COMM_WORLD;
        quda_door(table, &job);
    } else if (what == "plugin" || what == "lost" || what == "clover" || what == "heads") {
        MPI_Comm other;
        milcgpu_mpi_own(MPI_COMM_WORLD, &other);
        milcgpu_messages decisions = milcgpu_mpi_messages(&other, node_rank, node_size);
        decisions.abort = [](void *, const char *why) {
            std::fprintf(stderr, "ended: %s\n", why);
            // Launchers drop output that they have not forwarded.
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            MPI_Abort(MPI_COMM_WORLD, 3);
        };
        const auto part = what == "plugin"   ? start_plugin
                          : what == "lost"   ? lose_a_rank
                          : what == "clover" ? clover
                                             : heads;
        part(table, decisions);
        MPI_Comm_free(&other);
    } else
        check(false, "no such part: " + what);
    int sums[2] = {checks, wrong}, all[2];
    MPI_Reduce(sums, all, 2, MPI_INT, MPI_SUM, 0, communicator);
    if (table.rank == 0)
        std::printf("%d checks on %d ranks, %d wrong\n", all[0], table.size, all[1]);
    std::fflush(stdout);
#if defined(MPICH)
    // MPICH 4.0 over UCX 1.13 may hang in MPI_Finalize if messages go over TCP, also in a program of ten lines.
    if (what == "nodes") {
        MPI_Barrier(communicator);
        std::this_thread::sleep_for(std::chrono::milliseconds(300)); // until the output is forwarded
        MPI_Abort(MPI_COMM_WORLD, wrong != 0);
    }
#endif
    MPI_Comm_free(&communicator);
    MPI_Finalize();
    return wrong != 0;
}
