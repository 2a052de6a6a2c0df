// A staggered system as MILC would hand it over: the gauge field with phases in, of which the library makes fat and
// long links, and the same links by the independent reference to hold them against.
#pragma once
#include "examples/ranks.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include <string>
#include <vector>

namespace examples {

enum class Action { asqtad, hisq };
Action action_of(const std::string &name); // throws std::runtime_error

struct System {
    reference::Lattice lattice;
    Action action;
    double u0; // plaquette^(1/4)
    // On rank 0; empty on the others.
    reference::Gauge gauge;    // with phases
    reference::Gauge fat, lng; // of the reference; empty where they were not asked for
};

// gauge: without phases.
System make_system(const Job &ranks, const reference::Lattice &lattice, reference::Gauge gauge, Action action,
                   bool with_reference);
milcgpu_fatlink_spec link_spec(const System &system);

// A gauge field from a file (made unitary again in double: files are float32), or a thermalized one. Says which. On
// rank 0; empty on the others, which hear of the lattice.
reference::Gauge read_or_make_gauge(const Job &ranks, const std::string &file, reference::Lattice &lattice, double beta,
                                    unsigned long seed, int sweeps);

// A context with the system's links, made by the library. Closes both at the end of a scope, throws std::runtime_error
// with the library's message on failure.
class Connection {
  public:
    Connection(const Job &ranks, const System &system, int backend, int verbosity, int block_size = 0);
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
// MILCGPU_HOST, and MILCGPU_CUDA where a GPU answers rank 0; only what `choice` (all, auto, host, cuda) names.
std::vector<int> backends_of(const Job &ranks, const std::string &choice);
const char *backend_name(int backend);
// What the ranks were started for: nothing to say for one.
void print_ranks(const Job &ranks, const reference::Lattice &lattice);

// The precision pairs, precise/sloppy, and the residual that each can be asked for.
struct PrecisionPair {
    const char *name;
    int precise, sloppy;
    double reachable; // smallest sensible tolerance on light quark masses
};
const std::vector<PrecisionPair> &precision_pairs();
const PrecisionPair &pair_of(const std::string &name, const char *option); // throws ArgumentError

} // namespace examples
