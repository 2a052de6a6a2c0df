// The ranks that share a lattice, and messages between them: pairs of neighbours exchange bytes, all ranks gather a few
// words. What carries the messages is lent by the caller (Messenger); there is none for a single rank.
//
// Every wait has an end: where a message does not come within the time limit, Error(timed_out) names this rank, the
// ranks that it waited for, their directions, and the phase. Where the caller's functions fail, Error(comm) does. After
// either, this object is broken: every later call throws the same error at once and passes no message.
//
// All ranks make the same gathers in the same order. One thread at a time.
#pragma once
#include "gpu_kernels/machine/error.h"
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace milcgpu {

// Bytes for one rank, and as many from it. Either address may be nullptr: nothing goes that way.
struct Message {
    int peer;
    const void *send;
    void *receive;
    size_t bytes;
    int tag;               // 0 to Ranks::tags - 1
    const char *direction; // of the peer, for errors, as "behind in t"; a literal
};

// The caller's message passing. Codes other than 0 are failures.
class Messenger {
  public:
    // Whether addresses may be of a GPU's memory, as it says of itself; by: what says so.
    struct OnDevice {
        bool allowed;
        std::string by;
    };
    virtual ~Messenger() = default;
    virtual OnDevice on_device() const { return {false, ""}; }
    virtual int start(const Message *messages, int count, void *&handle) = 0;
    virtual int test(void *handle, bool &done) = 0; // the handle is gone when it is done
};

class Ranks {
  public:
    static constexpr int tags = 1 << 14; // of exchanges; gathers have those above
    static constexpr double default_time_limit = 60;

    Ranks() = default; // one rank
    // Throws Error(bad_argument) where rank is not one of size.
    Ranks(int rank, int size, std::unique_ptr<Messenger> messenger, double time_limit_seconds = default_time_limit);
    ~Ranks();
    Ranks(const Ranks &) = delete;
    Ranks &operator=(const Ranks &) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    std::string name() const { return name(rank_); }
    std::string name(int rank) const { return format("rank %d of %d", rank, size_); }
    void set_time_limit(double seconds) { time_limit_seconds_ = seconds; }
    double time_limit() const { return time_limit_seconds_; }
    // What goes on while a wait for messages lasts (Device::set_meanwhile); empty: nothing.
    void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }
    // For who waits for other ranks without messages: all that follows throws this, and so does this.
    [[noreturn]] void give_up(Status status, const std::string &what) { fail(status, what); }

    void throw_if_broken() const; // what broke it

    Messenger::OnDevice messages_on_device() const {
        return messenger_ ? messenger_->on_device() : Messenger::OnDevice{false, ""};
    }
    // Messages that may fail: where they do, or are not there after so many seconds, the answer is why, and these ranks
    // are as they were. No other message may have their tags then, and what they reach is never freed. Else the answer
    // is OK.
    struct Tried {
        Status status;
        std::string why;
    };
    Tried try_messages(const char *phase, const std::vector<Message> &messages,
                       const std::shared_ptr<const void> &buffers, double seconds);

    // all: `bytes` of every rank, in the order of ranks. phase, here and below: what it is for, in errors; a literal.
    void all_gather(const char *phase, const void *mine, void *all, size_t bytes);
    template <class T> std::vector<T> gathered(const char *phase, const T &mine) {
        static_assert(std::is_trivially_copyable<T>::value, "it is passed as bytes");
        std::vector<T> all(static_cast<size_t>(size_));
        all_gather(phase, &mine, all.data(), sizeof(T));
        return all;
    }
    // values[k] becomes the sum of all ranks' values[k], added in the order of ranks: the same bits on every rank.
    void add_in_rank_order(const char *phase, double *values, int count);

    // Does `work`, which may fail on some ranks. If it did on any, all ranks throw the same Error: that of the lowest
    // rank that failed, one that lost its device before all others, with the rank in front. One rank: work() and no
    // more. `work` may pass messages if it does so on all ranks.
    void collective(const char *phase, const std::function<void()> &work);

  private:
    friend class Exchange;
    friend class Gather;
    struct Part { // what goes to one peer and comes from it, on its way
        int peer, messages;
        std::string directions;
        std::shared_ptr<const void> buffers;
        void *handle;
    };
    static void keep_for_ever(std::list<Part> &parts);
    template <class Done> void wait_for(const Done &done) const;
    [[noreturn]] void fail(Status status, const std::string &what);
    void look_at_left();

    int rank_ = 0, size_ = 1;
    std::unique_ptr<Messenger> messenger_;
    double time_limit_seconds_ = default_time_limit;
    std::function<bool()> meanwhile_;
    std::optional<Error> broken_;
    unsigned gathers_ = 0; // begun so far
    std::list<Part> left_; // nobody waits for them any more, but they still reach their buffers
};

// Messages on their way. Those to this rank itself (emulated cuts) are copied when it is made; the k-th send with a tag
// meets the k-th receive with that tag.
class Exchange {
  public:
    // Begins them and returns. buffers: keeps the memory behind the messages, which must not be written (nor read,
    // where they receive) until done; messages that are given up, with this object or after an error, keep it as long
    // as they are on their way. Throws Error(bad_argument) where a peer or tag is out of range.
    Exchange(Ranks &ranks, const char *phase, const std::vector<Message> &messages,
             const std::shared_ptr<const void> &buffers);
    ~Exchange(); // does not wait
    Exchange(const Exchange &) = delete;
    Exchange &operator=(const Exchange &) = delete;

    // A look, without waiting. The time limit counts from the first one.
    bool done();
    void finish(); // waits

  private:
    friend class Gather;
    friend class Ranks;
    struct Checked {};
    Exchange(Ranks &ranks, const char *phase, const std::vector<Message> &messages,
             const std::shared_ptr<const void> &buffers, Checked, bool may_fail = false);
    [[noreturn]] void fail(Status status, const std::string &what);
    std::string missed() const;
    void copy_to_self(const std::vector<Message> &messages);
    void start(std::vector<Message> messages, const std::shared_ptr<const void> &buffers);
    void look();
    void leave() noexcept; // what is on its way, to the ranks
    Ranks &ranks_;
    const char *phase_;
    bool may_fail_ = false;        // of try_messages: the ranks are not broken then
    std::list<Ranks::Part> parts_; // not done
    double first_look_seconds_ = 0;
};

// A gather on its way. Up to 16 ranks send to each other, so that an error names exactly who is missed; more do so in
// turns (Bruck et al. 1997, doi:10.1109/71.642949, of radix 16). A look may begin the next turn, and without looks none
// begins: who waits for one of several gathers looks at the others, too.
class Gather {
  public:
    Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes); // begins; `mine` is copied
    // With a tag (of exchanges) of its own, for one that others may overtake.
    Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes, int tag);
    bool done(); // a look, without waiting
    // Waits. all: `bytes` of every rank, in the order of ranks.
    void finish(void *all);

  private:
    void next_turn();
    Ranks &ranks_;
    const char *phase_;
    size_t bytes_;
    int tag_, have_ = 1;                                 // blocks that are here when turn_ is done
    std::shared_ptr<std::vector<unsigned char>> blocks_; // those of ranks rank, rank + 1, ...
    std::unique_ptr<Exchange> turn_;
};

} // namespace milcgpu
