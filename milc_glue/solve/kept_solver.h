// Solvers that a context keeps between calls, and their keys.
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
// Makes an operator for a specification; sets its reals to the granted ones.
using OperatorMaker = std::function<Operator(OperatorSpec &)>;

// Identifies the systems that a solver can solve.
struct SolverKey {
    const void *handle = nullptr; // the owner of the links
    uint64_t tag = 0;             // of the links' content (ResidentField)
    const void *shelf = nullptr;  // the number of solvers with the same shelf is limited
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
    // Allocated when first needed. cg solves what they leave over.
    std::unique_ptr<MultiMassSolver> multi_mass;
    OperatorSpec shared; // of multi_mass
    std::unique_ptr<BlockCgSolver> block;
    std::set<double> faster_in_lock_step;      // shifts with which several sources are faster in lock-step
    std::vector<std::shared_ptr<void>> beside; // data that a family keeps for each source of a group
};

class KeptSolvers : public SolverShelf {
  public:
    explicit KeptSolvers(milcgpu_context &of) : SolverShelf(of, first), context_(of) { register_here(); }
    // Frees the idle solver that was used longest ago. Without idle solvers: the parts of the busy one that are idle.
    bool release_idle() override;
    void forget(const void *handle, uint64_t still_valid) override;

    std::list<KeptSolver> all;        // the last used first
    const KeptSolver *busy = nullptr; // the solver of the call in progress; nullptr: none
    bool busy_with_several = false;   // the call uses its multi-mass or block solver, too

  private:
    milcgpu_context &context_;
};
KeptSolvers &kept_solvers(milcgpu_context &);
} // namespace milcgpu
