// Solves that learn: the library makes eigenvectors for links that many solves use, once they pay.
//
// Costs are bytes through the device's memory, or flops converted to bytes if they take longer, counted from steps and
// vectors. No clock is read, so a job that runs again with the same free memory makes the same decisions.
//
//   set_up(N)      the cost of Lanczos (lanczos_work), with l_N from the density of eigenvalues
//   deflated(N)    the cost of a group of sources: its steps, or ladder::expected_steps if these are fewer, and the
//                  passes over the vectors
//   the rule       Make N vectors if set_up(N) + the sum of deflated(N) over the groups so far is at most the cost of
//                  these groups. N minimizes that sum.
//
// So the rule expects as many solves to come as there were, and a job spends at most twice the least possible cost (the
// ski rental problem). Once there are vectors the count begins again, and the same rule makes at least twice as many.
// While there is too little to save, the density is not computed and ranks exchange nothing.
//
// Vectors belong to the content of the links. If memory is short they are freed and not made again.
#pragma once
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/solve_driver.h"

namespace milcgpu {

class ModeNumber;

class Learning : public Evictable {
  public:
    Learning(milcgpu_links &, int parity);

    // Called by all ranks before a group of sources: the vectors to deflate it with, or nullptr.
    const Eigenvectors *before(double shift, double tolerance);
    void after(double shift, const GroupWork &);
    void rest() { in_use_ = false; } // at the end of a call
    bool release_idle() override;

  private:
    // Sums over groups of sources.
    struct Groups {
        double groups = 0, sources = 0, steps = 0, logarithms = 0, cost = 0;
        double own_steps = 0; // a step of several sources counts for each
        void add(const Groups &more);
    };
    struct Mass {
        double shift;
        Groups plain, since; // without vectors; all since vectors were last made
    };
    struct Vectors { // existing or possible ones
        int count = 0;
        double last = 0; // eigenvalue
        double set_up = 0, total = INFINITY;
    };
    bool is_worth_a_look() const;
    Groups all_since() const;
    Groups plain(double shift, double logarithm) const;
    double deflated(const Groups &, double shift, const Vectors &) const;
    bool gains(double shift, double logarithm, const Vectors &) const;
    bool look();
    double set_up(const ModeNumber &, const NormalOperator &A, int count) const;
    Vectors best(double memory) const;
    double memory() const;
    double cost(double bytes, double flops) const;
    void make(const Vectors &, double memory);
    void give_up(const std::string &why);

    milcgpu_links &links_;
    milcgpu_context &context_;
    const int parity_;
    std::vector<Mass> masses_;
    double highest_ = 0;                   // eigenvalue; 0: the density was not computed
    double look_from_ = 0;                 // compute the density once all solves have cost this
    std::vector<Vectors> candidates_;      // the fewest first
    bool made_ = false, given_up_ = false; // on all ranks
    bool in_use_ = false;
    std::unique_ptr<milcgpu_eigenvectors> vectors_; // nullptr if none were made, or this rank has freed them
};

// For a solve with these links without eigenvectors of its own; nullptr if its context does not learn.
std::shared_ptr<Learning> learning_of(milcgpu_links &, int parity);

} // namespace milcgpu
