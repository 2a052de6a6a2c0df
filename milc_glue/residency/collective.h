// Decisions that all ranks of a job must take alike: whether links are stale, which precision a solve takes, whether to
// fall back, whether a solution is known. A rank that decides alone waits for ranks that have gone another way.
#pragma once
#include "gpu_kernels/machine/comm/ranks.h"
#include "milc_glue/api/milcgpu.h"
#include <array>
#include <cstdint>
#include <memory>

namespace milcgpu {

// All ranks ask the same questions in the same order. A single rank, or one that has not joined others, answers itself
// and sends nothing. The constructor allocates nothing.
class Collective {
  public:
    // A rank may come late to a call because it reads a file: MILC would wait for it, too. The first question of a call
    // waits this many time limits, each further question one. A rank whose work has failed waits for three: the others
    // may still wait for it in their work.
    static constexpr double patience = 60, patience_after_failure = 3;

    // All later questions are asked of these ranks. Throws nothing.
    void join(std::unique_ptr<Ranks> ranks, double time_limit_seconds);
    void set_time_limit(double seconds) { time_limit_seconds_ = seconds; }
    int size() const { return ranks_ ? ranks_->size() : 1; }
    int rank() const { return ranks_ ? ranks_->rank() : 0; }
    std::string name(int rank) const { return format("rank %d of %d", rank, size()); }
    bool broken() const { return broken_; } // messages failed or did not come: no rank can go on

    // All ranks begin a call.
    void begin_call();

    // The largest answer of all ranks: a larger answer must be the more careful one.
    template <class Answer> Answer operator()(Answer mine) {
        return size() == 1 ? mine : static_cast<Answer>(largest(static_cast<int64_t>(mine)));
    }
    // The largest status of all ranks. If they differ, milcgpu_last_error() then has the words of the rank with the
    // largest, on all ranks; of a rank that waited for others only if no rank has failed otherwise.
    milcgpu_status operator()(milcgpu_status mine);
    // The bits that every rank has set, for several words in one gather: all questions at the head of a call.
    using Words = std::array<uint64_t, 8>;
    Words on_all_ranks(const Words &bits);
    uint64_t on_all_ranks(uint64_t bits) { return on_all_ranks(Words{bits})[0]; }
    // The words of the lowest rank that has some, after its name unless all ranks have the same; empty: no rank has
    // some.
    std::string words(const std::string &mine);
    std::string of_rank_0(const std::string &mine);
    void add(double *values, int count); // sums of all ranks, the same bits on each
    double worst(double mine);           // the largest; NaN if a rank has NaN
    template <class T> std::vector<T> gathered(const T &mine) {
        if (size() == 1)
            return {mine};
        answers(0, {});
        return passed_on(mine);
    }

    // This rank cannot continue the call. The others throw Error(comm), with the rank and `why`, at the question that
    // they wait for or at their next one.
    void give_up(const char *why) noexcept;

  private:
    static constexpr const char *phase = "answers of all ranks";
    struct Word {
        int64_t number;
        Words bits;
        int64_t call;
        int32_t gave_up;
        char why[100];
    };
    template <class Work> auto ask(const Work &work) {
        try {
            return work();
        } catch (...) {
            broken_ = true;
            throw;
        }
    }
    template <class T> std::vector<T> passed_on(const T &mine) {
        ranks_->set_time_limit(limit());
        return ask([&] { return ranks_->gathered(phase, mine); });
    }
    double limit();
    int64_t largest(int64_t mine);
    std::vector<Word> answers(int64_t number, const Words &bits);
    std::vector<Word> passed(const Word &mine);

    std::unique_ptr<Ranks> ranks_; // nullptr: one rank
    double time_limit_seconds_ = Ranks::default_time_limit;
    int64_t call_ = 0;
    bool at_head_ = true, has_failed_ = false, broken_ = false, others_gave_up_ = false;
};

} // namespace milcgpu
