// Decisions that all ranks of a job must take alike: whether links are stale, which precision a solve takes, whether to
// fall back, whether a solution is known. A rank that decided alone would wait for ranks that are somewhere else.
#pragma once
#include "gpu_kernels/machine/comm/ranks.h"
#include "milc_glue/api/milcgpu.h"
#include <array>
#include <cstdint>
#include <memory>

namespace milcgpu {

// All ranks ask the same questions in the same order. With one rank every answer is its own, and nothing is passed.
// Until it joins others a rank decides alone. Making a Collective allocates nothing.
class Collective {
  public:
    // A rank may be late at the head of a call, because it is busy with a file: MILC would wait for it, too. Inside a
    // call the time limit holds, at its head this many of it.
    static constexpr double patience = 60;

    // From now on with these. Throws nothing.
    void join(std::unique_ptr<Ranks> ranks, double time_limit_seconds);
    void set_time_limit(double seconds) { time_limit_seconds_ = seconds; }
    int size() const { return ranks_ ? ranks_->size() : 1; }
    int rank() const { return ranks_ ? ranks_->rank() : 0; }
    std::string name(int rank) const { return format("rank %d of %d", rank, size()); }
    bool broken() const { return broken_; } // messages failed or did not come: no rank can go on

    // A call that all ranks make begins.
    void begin_call();

    // The largest answer among the ranks: `mine` is put such that this is the more careful one.
    template <class Answer> Answer operator()(Answer mine) {
        return size() == 1 ? mine : static_cast<Answer>(largest(static_cast<int64_t>(mine)));
    }
    // The same of a status. Where ranks have different ones, milcgpu_last_error() then has the words of the rank with
    // the largest, on all of them.
    milcgpu_status operator()(milcgpu_status mine);
    // Bits that every rank has set, of several words in one gather: all that a call asks at its head.
    using Words = std::array<uint64_t, 8>;
    Words on_all_ranks(const Words &bits);
    uint64_t on_all_ranks(uint64_t bits) { return on_all_ranks(Words{bits})[0]; }
    // The words of the lowest rank that has some, with its name in front unless all have the same; empty: none has.
    std::string words(const std::string &mine);
    std::string of_rank_0(const std::string &mine);
    void add(double *values, int count); // sums of all ranks, the same bits on each
    double worst(double mine);           // the largest; NaN where a rank has that
    template <class T> std::vector<T> gathered(const T &mine) {
        if (size() == 1)
            return {mine};
        answers(0, {});
        return passed_on(mine);
    }

    // This rank cannot go on in this call, and the others hear of it at their next question, or at that which they wait
    // for: they throw Error(comm) with the rank and `why`.
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
    bool at_head_ = true, broken_ = false, others_gave_up_ = false;
};

} // namespace milcgpu
