// Solutions that a multi-mass call has already refined. MILC asks for each of them again, by a solve of one mass.
#pragma once
#include "milc_glue/api/plugin.h"
#include "milc_glue/residency/mirror.h"
#include <vector>

namespace milcgpu {

struct KnownSolution {
    Mirror source, solution;
    bool resident; // the device alone has the solution, as long as the table of deferred values has it
    int parity;
    double mass;
    uint64_t links; // LinkSet::content()
    bool zero_source;
    milcgpu_shift_report report;
};

class KnownSolutions {
  public:
    // Keeps the solutions of the last multi-mass call. HostRecords: the sites of the call's parity.
    void remember(const milcgpu_plugin_multi_mass_call &call, const std::vector<HostRecords> &solutions,
                  const HostRecords &source, uint64_t links, bool resident, const milcgpu_multi_mass_report &report);
    void clear() { known_.clear(); }
    bool empty() const { return known_.empty(); }

    // The solution that the call asks for, if source and solution are at the same places with the same contents. The
    // caller compares the links. mass_error: the relative rounding between MILC's offset and its mass. on_device: the
    // field of the solution is deferred, and the device has it. nullptr: not known.
    const KnownSolution *find(const milcgpu_plugin_solve_call &call, const HostRecords &source,
                              const HostRecords &solution, double mass_error, bool on_device) const;

  private:
    std::vector<KnownSolution> known_;
};

} // namespace milcgpu
