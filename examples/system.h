// A staggered system as MILC would hand it over: the gauge field with phases in, of which the library makes fat and
// long links, and the same links by the independent reference to hold them against.
#pragma once
#include "examples/lattice_file.h"
#include "examples/link_box.h"
#include "examples/ranks.h"
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
    // On rank 0, where they are asked for; else empty.
    reference::Gauge gauge;    // with phases
    reference::Gauge fat, lng; // of the reference
};

// own: this rank's links without phases, in MILC's order.
System make_system(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, Action action,
                   bool with_reference);
// The whole gauge field on rank 0.
void collect_gauge(const Job &ranks, System &system);
milcgpu_fatlink_spec link_spec(const System &system);

// Bytes a site of a gauge field in double.
constexpr double gauge_bytes = 4 * 18 * 8;
// A gauge field from a file (made unitary again in double: files are float32), or a thermalized one, in MILC's order,
// 72 reals a site. Each rank has its box. Says which, and fills in the lattice of a file. Throws where a link of the
// file is not unitary, the lattice has odd extents, the grid does not fit, or the machine has less memory than a rank
// needs: bytes_a_site of its box.
std::vector<double> read_or_make_gauge(const Job &ranks, const std::string &file, reference::Lattice &lattice,
                                       double beta, unsigned long seed, int sweeps, double bytes_a_site);
// For the heat bath: unit links, and what passes between boxes.
LinkBox link_box(const Job &ranks, const reference::Lattice &lattice);
reference::PlaquetteParts plaquettes(const Job &ranks, const reference::Lattice &lattice, const LinkBox &box);
// Its options. seed: what it is of.
template <class Settings>
void add_gauge_field(Arguments &arguments, Settings &s, const std::string &seed,
                     const std::string &beta = "its coupling 6/g^2") {
    arguments.add("lattice", "FILE", s.lattice_file, "gauge field (MILC version 5 or SciDAC); without it one is made",
                  file_name());
    arguments.add_size(s.size, "extents of a field made here");
    arguments.add("beta", "B", s.beta, beta, above(0, 1e6));
    arguments.add("sweeps", "N", s.sweeps, "its heat-bath sweeps", whole(0));
    arguments.add("seed", "N", s.seed, seed);
    arguments.exclude("size", "lattice"), arguments.exclude("sweeps", "lattice");
}
// The extents of a file, on all ranks.
reference::Lattice lattice_of(const Job &ranks, const std::string &file);
// This rank's box of it, read by all ranks, each its own, made unitary again in double.
std::vector<double> read_box(const Job &ranks, const reference::Lattice &lattice, const std::string &file);
// A file of version 5.
void write_box(const Job &ranks, const reference::Lattice &lattice, std::vector<double> own, const std::string &file);
// Throws as read_or_make_gauge() does where a program cannot work on the lattice.
void check_lattice(const Job &ranks, const reference::Lattice &lattice, double bytes_a_site);

// A context with the system's links, made by the library. Closes both at the end of a scope, throws std::runtime_error
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

// This rank's box of a field that rank 0 has, as MILC has it.
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
// For random fields, which need no place on the others.
inline reference::Fermion random_on_first(const Job &ranks, const reference::Lattice &lattice, unsigned long seed) {
    return ranks.is_first() ? reference::random_fermion(lattice, seed) : reference::Fermion();
}
// Of numbers that draw(double *) draws, `reals` a site of the whole lattice, this rank's, in MILC's order. Sites are
// counted as `count` does it, and those from `sites` on have zeros.
template <class Count, class Draw>
std::vector<double> drawn(const Job &ranks, const reference::Lattice &lattice, std::size_t reals, std::size_t sites,
                          const Count &count, const Draw &draw) {
    std::vector<std::pair<std::size_t, std::size_t>> own; // number of a site, and its place here
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

// Of a report: the seconds of the slowest rank, and the work of all.
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
// --backend: auto, host or cuda, and all where a program can use one after the other. Its default is MILCGPU_BACKEND,
// or, where that is not set, what `choice` has.
void add_backend(Arguments &arguments, std::string &choice, bool all);
// MILCGPU_HOST, and MILCGPU_CUDA where a GPU answers rank 0; only what `choice` names. Throws where there is none, or
// where the library does not take the settings of the environment: to be called before any work.
std::vector<int> backends_of(const Job &ranks, const std::string &choice);
// Options of milcgpu_context_create(); MILCGPU_VERBOSE says how much the library says.
milcgpu_options options_for(int backend);
const char *backend_name(int backend);
// A number as tables show it, 1.23e-04; a dash where it is not known, as without a reference.
std::string shown(double number, int digits, bool known = true);
// What the ranks were started for: nothing to say for one.
void print_ranks(const Job &ranks, const reference::Lattice &lattice);

// The precision pairs, precise/sloppy, and the residual that each can be asked for.
struct PrecisionPair {
    const char *name;
    int precise, sloppy;
    double reachable; // smallest sensible tolerance on light quark masses
};
const std::vector<PrecisionPair> &precision_pairs();
const PrecisionPair &pair_of(const std::string &name);
// A pair's name, or "all".
Check pair_name(bool or_all);
inline Check delta() { return either(inside(0, 1), one_of({"0"})); } // of --reliable-delta

} // namespace examples
