// Solves that learn: links that many solves use get eigenvectors by themselves, once they pay.
//
// Costs are bytes through the device's memory, or flops as so many bytes where these take longer, counted by steps and
// vectors. No clock is read, so a job that runs again with the same free memory decides alike.
//
//   set_up(N)      of Lanczos (lanczos_work), with l_N from the density of eigenvalues
//   deflated(N)    of a group of sources: its steps, or ladder::expected_steps where these are fewer, and the passes
//                  over the vectors
//   the rule       N vectors are made where   set_up(N) + sum of deflated(N)   over the groups so far is no more than
//                  what they have taken. N: of the smallest such sum
//
// So the rule expects as many solves to come as there were, and a job spends at most twice the least that it could have
// spent (the ski rental problem). With vectors the count begins again, and the same rule makes twice as many, or more.
// Before there is enough to save nothing is looked at, and ranks do not ask each other.
//
// Vectors belong to the content of the links. They are given back where memory is short, and not made again.
#pragma once
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/solve_driver.h"

namespace milcgpu {

class ModeNumber;

class Learning : public Evictable {
  public:
    Learning(milcgpu_links &, int parity);

    // Before a group of sources: what to deflate it with, or nullptr. All ranks together.
    const Eigenvectors *before(double shift, double tolerance);
    void after(double shift, const GroupWork &);
    void rest() { in_use_ = false; } // the end of a call
    bool release_idle() override;

  private:
    // Of groups of sources: sums.
    struct Groups {
        double groups = 0, sources = 0, steps = 0, logarithms = 0, cost = 0;
        double own_steps = 0; // a step of several sources is one of each
        void add(const Groups &more);
    };
    struct Mass {
        double shift;
        Groups plain, since; // without vectors; all, since vectors were last made
    };
    struct Vectors { // that there are, or might be
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
    double highest_ = 0;                   // eigenvalue; 0: nothing was looked at
    double look_from_ = 0;                 // no look before all solves have cost this
    std::vector<Vectors> candidates_;      // the fewest first
    bool made_ = false, given_up_ = false; // on all ranks
    bool in_use_ = false;
    std::unique_ptr<milcgpu_eigenvectors> vectors_; // what was made, where this rank still has it
};

// Of a solve with these links that says nothing of eigenvectors; nullptr: its context does not learn.
std::shared_ptr<Learning> learning_of(milcgpu_links &, int parity);

} // namespace milcgpu
