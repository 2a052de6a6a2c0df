// Arguments and report of the calls for several masses.
#pragma once
#include "milc_glue/api/arguments.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/solve_driver.h"

namespace milcgpu {

struct MultiMassArguments {
    int parity;
    OperatorSpec shared, precise, sloppy;
    MultiMassLimits limits;
};
MultiMassArguments checked_multi_mass(const milcgpu_multi_mass_spec &); // of a checked copy

// The shared iteration goes from a.shared down to a.sloppy, a precision at a time.
std::vector<OperatorSpec> stages_of(const MultiMassArguments &);
// Makes kept.multi_mass. kept.cg must exist.
void make_masses(Device &, KeptSolver &kept, const MultiMassArguments &);

// The caller's array of shift reports, which stays the caller's whether the call succeeds or not.
inline milcgpu_shift_report *shifts_of(const milcgpu_multi_mass_report *report) {
    return report != nullptr && is_size_of<milcgpu_multi_mass_report>(report->struct_size) ? report->shifts : nullptr;
}

// Fills all from the solver's report, except seconds and bytes of the call.
void fill_report(const MultiMassReport &, int n_shifts, milcgpu_multi_mass_report &);

// Several masses of one source, of any family.
struct MassesOfCall {
    const char *function, *name; // in messages; in the line at verbosity 2
    MultiMassArguments a;        // afterwards with what was granted
    CgProgress progress;
    std::function<void(const SpinorBlock &b, Verification &)> load;
    // Called for each shift with a solution; `last` for the last one. An exception is the call's error.
    std::function<void(int shift, const SpinorBlock &x, bool last)> write;
    bool keeps_solver; // for the next call
};
Status solve_masses(OperatorFamily &, MassesOfCall &, const CallMeter &, milcgpu_multi_mass_report &);

} // namespace milcgpu
