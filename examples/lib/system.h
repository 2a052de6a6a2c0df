// A staggered system as MILC would pass it: the gauge field with phases, from which the library makes fat and long
// links, and the same links by the independent reference for comparison.
#pragma once
#include "examples/lib/lattice_file.h"
#include "examples/lib/link_box.h"
#include "examples/lib/ranks.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include <string>
#include <vector>

namespace examples {

enum class Action { asqtad, hisq };
Action action_of(const std::string &name);
inline Check action_name() { return one_of({"asqtad", "hisq"}); }

struct System {
    reference::Lattice lattice;
    Action action;
    double u0;               // plaquette^(1/4)
    std::vector<double> own; // this rank's links with phases, in MILC's order
    // On rank 0, if requested; else empty.
    reference::Gauge gauge;    // with phases
    reference::Gauge fat, lng; // by the reference
};

// own: this rank's links without phases, in MILC's order.
System make_system(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, Action action,
                   bool with_reference);
// The whole gauge field on rank 0.
void collect_gauge(const Job &ranks, System &system);
milcgpu_fatlink_spec link_spec(const System &system);

// Bytes per site of a gauge field in double.
constexpr double gauge_bytes = 4 * 18 * 8;
// A gauge field from a file (made unitary again in double, because files are float32), or a thermalized one, in MILC's
// order, 72 reals per site. Each rank gets its box. Prints which, and fills in the lattice of a file. Throws if a link
// of the file is not unitary, the lattice has odd extents, the grid does not fit, or the machine has less memory than a
// rank needs: bytes_a_site for each site of its box.
std::vector<double> read_or_make_gauge(const Job &ranks, const std::string &file, reference::Lattice &lattice,
                                       double beta, unsigned long seed, int sweeps, double bytes_a_site);
// For the heat bath: unit links, and the exchange between boxes.
LinkBox link_box(const Job &ranks, const reference::Lattice &lattice);
reference::PlaquetteParts plaquettes(const Job &ranks, const reference::Lattice &lattice, const LinkBox &box);
// The options of a gauge field. seed: the fields that the seed determines.
template <class Settings>
void add_gauge_field(Arguments &arguments, Settings &s, const std::string &seed,
                     const std::string &beta = "coupling 6/g^2 of this field") {
    arguments.add(
        "lattice", "FILE", s.lattice_file,
        "gauge field (MILC version 5, SciDAC, ILDG or NERSC); without a file the program makes one by heat bath",
        file_name());
    arguments.add_size(s.size, "extents of a field that the program makes");
    arguments.add("beta", "B", s.beta, beta, above(0, 1e6));
    arguments.add("sweeps", "N", s.sweeps, "heat-bath sweeps of this field", whole(0));
    arguments.add("seed", "N", s.seed, "seed of the " + seed);
    arguments.exclude("size", "lattice"), arguments.exclude("sweeps", "lattice");
}
// A context for calls that need no device.
class HostContext {
  public:
    HostContext(const Job &ranks, const reference::Lattice &lattice);
    ~HostContext() { milcgpu_context_destroy(context_); }
    HostContext(const HostContext &) = delete;
    operator milcgpu_context *() const { return context_; }

  private:
    milcgpu_context *context_ = nullptr;
};
// Throws std::runtime_error with the library's message if a call failed.
void must(milcgpu_status status);
// The extents of a file, on all ranks.
reference::Lattice lattice_of(const Job &ranks, const std::string &file);
// This rank's box of the file, made unitary again in double. Each rank reads its own box.
std::vector<double> read_box(const Job &ranks, const reference::Lattice &lattice, const std::string &file);
// format: milc (version 5) or nersc, both in single precision.
void write_box(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, const std::string &file,
               const std::string &format = "milc");
// Throws as read_or_make_gauge() does if a program cannot work on the lattice.
void check_lattice(const Job &ranks, const reference::Lattice &lattice, double bytes_a_site);

// A context with the system's links, made by the library. Frees both at the end of the scope. Throws std::runtime_error
// with the library's message on failure.
class Connection {
  public:
    Connection(const Job &ranks, const System &system, int backend, int block_size = 0, bool learn = false);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;
    milcgpu_context *context() const { return context_; }
    milcgpu_links *links() const { return links_; }

  private:
    milcgpu_context *context_ = nullptr;
    milcgpu_links *links_ = nullptr;
};

// This rank's box of a field that rank 0 has, in MILC's layout.
template <class Real>
std::vector<Real> deal_links(const Job &ranks, const reference::Lattice &lattice, const reference::Gauge &links) {
    return ranks.deal(lattice, ranks.is_first() ? reference::links_to_milc<Real>(lattice, links) : std::vector<Real>(),
                      72);
}
inline std::vector<double> deal_vector(const Job &ranks, const reference::Lattice &lattice,
                                       const reference::Fermion &vector) {
    return ranks.deal(lattice,
                      ranks.is_first() ? reference::vector_to_milc<double>(lattice, vector) : std::vector<double>(), 6);
}
// For random fields, which other ranks need not store.
inline reference::Fermion random_on_first(const Job &ranks, const reference::Lattice &lattice, unsigned long seed) {
    return ranks.is_first() ? reference::random_fermion(lattice, seed) : reference::Fermion();
}
// This rank's part, in MILC's order, of the numbers that draw(double *) draws for the whole lattice, `reals` per site.
// `count` numbers the sites; sites from number `sites` on get zeros.
template <class Count, class Draw>
std::vector<double> drawn(const Job &ranks, const reference::Lattice &lattice, std::size_t reals, std::size_t sites,
                          const Count &count, const Draw &draw) {
    std::vector<std::pair<std::size_t, std::size_t>> own; // number of a site, and its place on this rank
    for_sites(ranks.layout(lattice), [&](const std::array<int, 4> &x) { own.emplace_back(count(x), own.size()); });
    std::sort(own.begin(), own.end());
    std::vector<double> result(own.size() * reals), of_others(reals);
    auto next = own.begin();
    for (std::size_t site = 0; site < sites; ++site) {
        const bool here = next != own.end() && next->first == site;
        draw(here ? &result[next->second * reals] : of_others.data());
        next += here;
    }
    return result;
}
// This rank's part of random_fermion().
std::vector<double> random_vector(const Job &ranks, const reference::Lattice &lattice, unsigned long seed);

// Sets in a report the seconds of the slowest rank, and the work of all ranks.
template <class Report> void over_ranks(const Job &ranks, Report &report) {
    if (ranks.size() == 1)
        return;
    const double flops = ranks.sum(report.gflops * report.solver_seconds),
                 bytes = ranks.sum(report.gbytes_per_second * report.solver_seconds);
    report.seconds = ranks.slowest(report.seconds);
    report.solver_seconds = ranks.slowest(report.solver_seconds);
    report.gflops = flops / report.solver_seconds;
    report.gbytes_per_second = bytes / report.solver_seconds;
}

milcgpu_field field_of(std::vector<double> &data);
milcgpu_field field_of(std::vector<float> &data);
// --backend: auto, host or cuda, and all if a program can use one after the other. The default is MILCGPU_BACKEND, or,
// if it is not set, the value of `choice`.
void add_backend(Arguments &arguments, std::string &choice, bool all);
// The backends that `choice` names: MILCGPU_HOST, and MILCGPU_CUDA if rank 0 finds a GPU. Throws if none remains, or if
// the library refuses the settings of the environment. Call it before any work.
std::vector<int> backends_of(const Job &ranks, const std::string &choice);
// Options of milcgpu_context_create(); MILCGPU_VERBOSE sets how much the library prints.
milcgpu_options options_for(int backend);
const char *backend_name(int backend);
// A number for a table, 1.23e-04; a dash if it is not known, as without a reference.
std::string shown(double number, int digits, bool known = true);
// Prints the ranks and their boxes; prints nothing for one rank.
void print_ranks(const Job &ranks, const reference::Lattice &lattice);

// The precision pairs, precise/sloppy, and the residual that each can reach.
struct PrecisionPair {
    const char *name;
    int precise, sloppy;
    double reachable; // smallest sensible tolerance on light quark masses
};
const std::vector<PrecisionPair> &precision_pairs();
const PrecisionPair &pair_of(const std::string &name);
// A pair's name, or "all".
Check pair_name(bool or_all);
inline Check delta() { return either(inside(0, 1), one_of({"0"})); } // for --reliable-delta

} // namespace examples
