// A staggered system as MILC would hand it over: asqtad fat and long links of a gauge field with phases in, and a
// source.
#pragma once
#include "milc_glue/milcgpu.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include <string>
#include <vector>

namespace examples {

struct System {
    reference::Lattice lattice;
    reference::Gauge fat, lng;
    double u0;
    std::vector<double> fat_milc, long_milc; // in MILC's order
};

// u0 = plaquette^(1/4) of the field, which comes without phases.
System asqtad_system(const reference::Lattice &lattice, reference::Gauge links);

// Closes context and links at the end of a scope, throws std::runtime_error with the library's message on failure.
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

milcgpu_field field_of(std::vector<double> &data);
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
