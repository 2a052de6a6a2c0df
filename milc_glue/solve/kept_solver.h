// Solvers that a context keeps between calls, and what they are for.
#pragma once
#include "gpu_kernels/solver/bicgstab.h"
#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/solver/multi_mass.h"
#include "gpu_kernels/solver/normal_operator.h"
#include "milc_glue/api/context.h"
#include <array>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <vector>

namespace milcgpu {
// Makes an operator in a specification, whose reals become what was granted.
using OperatorMaker = std::function<Operator(OperatorSpec &)>;

// What a solver is for.
struct SolverKey {
    const void *handle = nullptr; // whose links it reads
    uint64_t tag = 0;             // of their content (ResidentField)
    const void *shelf = nullptr;  // solvers that share one have a limit of their own
    int parity = 0;
    std::array<double, 4> parameters{}; // of the operator
    OperatorSpec precise, sloppy;
    bool operator==(const SolverKey &o) const {
        return handle == o.handle && tag == o.tag && parity == o.parity && parameters == o.parameters &&
               precise == o.precise && sloppy == o.sloppy;
    }
};

// Solvers keep their vectors and recorded launches between calls: RHMC calls thousands of times with a few sets of
// parameters.
struct KeptSolver : SolverKey {
    OperatorMaker make;
    CgOperators operators;
    std::unique_ptr<CgSolver> cg;
    std::unique_ptr<BicgstabSolver> bicgstab; // in place of cg
    // Made when first needed. What they leave goes through cg.
    std::unique_ptr<MultiMassSolver> multi_mass;
    OperatorSpec shared; // of multi_mass
    std::unique_ptr<BlockCgSolver> block;
    std::set<double> faster_in_lock_step;      // shifts with which several sources were found so
    std::vector<std::shared_ptr<void>> beside; // what a family keeps for each source that it takes at once
};

class KeptSolvers : public SolverShelf {
  public:
    explicit KeptSolvers(milcgpu_context &of) : SolverShelf(of, first), context_(of) { register_here(); }
    // The solver that was used longest ago; when all idle ones are gone, what the busy one does not work with.
    bool release_idle() override;
    void forget(const void *handle, uint64_t still_valid) override;

    std::list<KeptSolver> all; // the last used first
    // What the call in progress works with; nullptr: nothing yet.
    const KeptSolver *busy = nullptr;
    bool busy_with_several = false; // its multi-mass solver or that of several sources, too

  private:
    milcgpu_context &context_;
};
KeptSolvers &kept_solvers(milcgpu_context &);
} // namespace milcgpu
