// Staggered fermions as a family of operators (solve_driver.h).
#pragma once
#include "gpu_kernels/staggered/staggered_operator.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_driver.h"

namespace milcgpu {

class StaggeredFamily : public OperatorFamily {
  public:
    StaggeredFamily(milcgpu_links &links, int parity)
        : OperatorFamily(*links.context), links_(links), parity_(parity) {}
    SolverKey key() const override { return {&links_, links_.links->tag(), &context, parity_, {}, {}, {}}; }
    size_t most_kept() const override { return 4; }
    void grant(OperatorSpec &spec) override {
        if (!StaggeredOperator::takes_lanes(spec))
            spec.reals = links_.links->version(spec.link, spec.reals).lng->reals();
    }
    OperatorMaker maker() override {
        return [&links = links_, parity = parity_](OperatorSpec &spec) { return level_operator(links, parity, spec); };
    }
    OperatorSpec full() const override { return full_spec(links_); }
    void empty() override { emptying(links_)(); }

  private:
    milcgpu_links &links_;
    int parity_;
};

} // namespace milcgpu
