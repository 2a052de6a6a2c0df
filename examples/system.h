// A staggered system as MILC would hand it over: the gauge field with phases in, of which the library makes fat and
// long links, and the same links by the independent reference to hold them against.
#pragma once
#include "milc_glue/milcgpu.h"
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
    double u0;                 // plaquette^(1/4)
    reference::Gauge gauge;    // with phases
    reference::Gauge fat, lng; // of the reference; empty where they were not asked for
};

// gauge: without phases.
System make_system(const reference::Lattice &lattice, reference::Gauge gauge, Action action, bool with_reference);
milcgpu_fatlink_spec link_spec(const System &system);

// A gauge field from a file (made unitary again in double: files are float32), or a thermalized one. Says which.
reference::Gauge read_or_make_gauge(const std::string &file, reference::Lattice &lattice, double beta,
                                    unsigned long seed, int sweeps);

// A context with the system's links, made by the library. Closes both at the end of a scope, throws std::runtime_error
// with the library's message on failure.
class Connection {
  public:
    Connection(const System &system, int backend, int verbosity);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;
    milcgpu_context *context() const { return context_; }
    milcgpu_links *links() const { return links_; }

  private:
    milcgpu_context *context_ = nullptr;
    milcgpu_links *links_ = nullptr;
};

milcgpu_layout layout_of(const reference::Lattice &lattice); // one rank, the usual order of sites
milcgpu_field field_of(std::vector<double> &data);
milcgpu_field field_of(std::vector<float> &data);
// MILCGPU_HOST, and MILCGPU_CUDA where a GPU answers; only what `choice` (all, auto, host, cuda) names.
std::vector<int> backends_of(const std::string &choice);
const char *backend_name(int backend);

// The precision pairs, precise/sloppy, and the residual that each can be asked for.
struct PrecisionPair {
    const char *name;
    int precise, sloppy;
    double reachable; // smallest sensible tolerance on light quark masses
};
const std::vector<PrecisionPair> &precision_pairs();

} // namespace examples
