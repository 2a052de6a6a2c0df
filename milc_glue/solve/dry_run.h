// A plan of memory by a dry run: the code that makes a solver runs on a device that only counts what is allocated.
#pragma once
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/memory_plan.h"
#include "reorder/resident_field.h"

namespace milcgpu {

struct DryRun {
    Device device{Device::CountsOnly()};
    KeptSolver solver;
    ResidentField::Versions versions; // of the links that its operators read
    // Makes a solver as solve_driver.cpp does, for so many sources at once. make: needs no links.
    void make_solver(const OperatorMaker &make, const OperatorSpec &full, const OperatorSpec &precise,
                     const OperatorSpec &sloppy, int sources);
    // now(): the plan of all that was made. Adds what the solver allocates if it changes its precision.
    MemoryPlan plan(const std::function<MemoryPlan()> &now);
};

} // namespace milcgpu
