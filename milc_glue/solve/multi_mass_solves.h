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
MultiMassArguments checked_multi_mass(const milcgpu_multi_mass_spec &); // which was looked over

// Whether the masses are refined together, in single precision; what is double alone is where it should be, or at the
// floor.
inline bool refines_together(const MultiMassArguments &a) { return a.sloppy.spinor != Precision::double_; }
inline OperatorSpec together_spec(const MultiMassArguments &a) {
    return {Precision::single, Precision::single, a.sloppy.reals};
}

// The shared iteration goes from a.shared down to a.sloppy, a precision at a time.
std::vector<OperatorSpec> stages_of(const MultiMassArguments &);

// Of the caller, who keeps it whatever becomes of the call.
inline milcgpu_shift_report *shifts_of(const milcgpu_multi_mass_report *report) {
    return report != nullptr && is_size_of<milcgpu_multi_mass_report>(report->struct_size) ? report->shifts : nullptr;
}

// From the solver's report, but for seconds and bytes of the call.
void fill_report(const MultiMassReport &, int n_shifts, milcgpu_multi_mass_report &);

// Several masses of one source, of any family.
struct MassesOfCall {
    const char *function, *name; // in messages; in the line at verbosity 2
    MultiMassArguments a;        // what is granted, afterwards
    CgProgress progress;
    std::function<void(const SpinorBlock &b, Verification &)> load;
    // Of each shift with a solution; `last` of them. What it throws is the call's error.
    std::function<void(int shift, const SpinorBlock &x, bool last)> write;
    bool keeps_solver; // until the next call
};
Status solve(OperatorFamily &, MassesOfCall &, const CallMeter &, milcgpu_multi_mass_report &);

} // namespace milcgpu
