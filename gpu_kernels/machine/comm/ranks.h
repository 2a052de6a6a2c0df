// The ranks that share a lattice, and messages between them: pairs of neighbours exchange bytes, all ranks gather a few
// words. The caller lends the message passing (Messenger); a single rank has none.
//
// Every wait ends: if a message does not come within the time limit, the call throws Error(timed_out), which names this
// rank, the ranks that it waited for, their directions, and the phase. If the caller's functions fail, it throws
// Error(comm). After either, this object is broken: every later call throws the same error at once and passes no
// message.
//
// A message may be lost, or an old one arrive in its place, although the caller's functions report success. So every
// block of a gather has a check word. Other messages are checked by their receiver (halo/pieces.h, changed_message()),
// who notes a lost message (note_lost(), watch()).
//
// All ranks make the same gathers in the same order. Not thread-safe.
#pragma once
#include "gpu_kernels/machine/error.h"
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace milcgpu {

// Bytes to one rank, and as many from it. Either address may be nullptr: then nothing is sent or received.
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
    // Whether addresses may point to GPU memory, according to the messenger; by: the name of what said so.
    struct OnDevice {
        bool allowed;
        std::string by;
    };
    virtual ~Messenger() = default;
    virtual OnDevice on_device() const { return {false, ""}; }
    virtual int start(const Message *messages, int count, void *&handle) = 0;
    virtual int test(void *handle, bool &done) = 0; // frees the handle if it is done
};

class Ranks {
  public:
    static constexpr int tags = 1 << 14; // tags of exchanges; gathers use higher ones
    static constexpr double default_time_limit = 60;

    Ranks() = default; // one rank
    // Throws Error(bad_argument) if rank is not one of size.
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
    // Work to do while waiting for messages (Device::set_meanwhile); empty: none.
    void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }
    // Throws this error now and from every later call, for a wait for other ranks that uses no messages.
    [[noreturn]] void give_up(Status status, const std::string &what) { fail(status, what); }

    void throw_if_broken() const; // with what broke it
    // Notes that a message from this rank was lost. The next gather throws Error(comm) on all ranks.
    void note_lost(int peer) { lost_ = peer + 1; }
    // Kernels do the same by writing the rank + 1 to *lost, which the host can read at any time; nullptr: none do.
    void watch(const int *lost) { watched_ = lost; }
    void throw_if_lost(); // on this rank alone, at the end of a call
    int lost() const {
        return watched_ != nullptr && lost_ == 0 ? *static_cast<const volatile int *>(watched_) : lost_;
    }
    // After messages whose memory is on the host: sends a sum of each. Returns a message that does not hold what was
    // sent, or nullptr.
    const Message *changed_message(const char *phase, const std::vector<Message> &messages);

    Messenger::OnDevice messages_on_device() const {
        return messenger_ ? messenger_->on_device() : Messenger::OnDevice{false, ""};
    }
    // Passes messages that may fail. If they fail or are not there after so many seconds, the answer is the reason and
    // the ranks stay usable; then no other message may use these tags, and the memory that the messages reach is never
    // freed. Otherwise the answer is OK.
    struct Tried {
        Status status;
        std::string why;
    };
    Tried try_messages(const char *phase, const std::vector<Message> &messages,
                       const std::shared_ptr<const void> &buffers, double seconds);

    // all: `bytes` of every rank, in the order of ranks. phase, here and below: the purpose, for error messages; a
    // literal.
    void all_gather(const char *phase, const void *mine, void *all, size_t bytes);
    template <class T> std::vector<T> gathered(const char *phase, const T &mine) {
        static_assert(std::is_trivially_copyable<T>::value, "it is passed as bytes");
        std::vector<T> all(static_cast<size_t>(size_));
        all_gather(phase, &mine, all.data(), sizeof(T));
        return all;
    }
    // values[k] becomes the sum of values[k] over all ranks, added in the order of ranks: the same bits on every rank.
    void add_in_rank_order(const char *phase, double *values, int count);

    // Runs `work`, which may fail on some ranks. If it fails on any rank, all ranks throw the same Error, with the
    // failed rank in front: the error of the lowest rank that failed, or of a rank that lost its device, if there is
    // one. With one rank it just runs work(). `work` may pass messages if it does so on all ranks.
    void collective(const char *phase, const std::function<void()> &work);

  private:
    friend class Exchange;
    friend class Gather;
    struct Part { // messages to and from one peer, in flight
        int peer, messages;
        std::string directions;
        std::shared_ptr<const void> buffers;
        void *handle;
    };
    static void keep_for_ever(std::list<Part> &parts);
    template <class Done> void wait_for(const Done &done) const;
    [[noreturn]] void fail(Status status, const std::string &what);
    std::string words_of_loss(int on_rank) const;
    void poll_left();

    int rank_ = 0, size_ = 1;
    std::unique_ptr<Messenger> messenger_;
    double time_limit_seconds_ = default_time_limit;
    std::function<bool()> meanwhile_;
    std::optional<Error> broken_;
    int lost_ = 0;                 // a rank + 1; 0: no message was lost
    const int *watched_ = nullptr; // as lost_
    unsigned gathers_ = 0;         // started so far
    std::list<Part> left_;         // nobody waits for them any more, but they still reach their buffers
};

// Messages in flight. Messages to this rank itself (emulated cuts) are copied on creation: the k-th send with a tag
// meets the k-th receive with that tag.
class Exchange {
  public:
    // Starts the messages and returns. buffers: keeps the memory of the messages alive. Until the exchange is done,
    // this memory must not be written, and memory that receives must not be read. Messages in flight keep it alive if
    // this object ends or an error is thrown. Throws Error(bad_argument) if a peer or tag is out of range.
    Exchange(Ranks &ranks, const char *phase, const std::vector<Message> &messages,
             const std::shared_ptr<const void> &buffers);
    ~Exchange(); // does not wait
    Exchange(const Exchange &) = delete;
    Exchange &operator=(const Exchange &) = delete;

    // Polls, without waiting. The time limit counts from the first poll.
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
    void poll();
    void leave() noexcept; // hands what is in flight to the ranks
    Ranks &ranks_;
    const char *phase_;
    bool may_fail_ = false;        // for try_messages: a failure does not break the ranks
    std::list<Ranks::Part> parts_; // not done
    double first_poll_seconds_ = 0;
};

// A gather in flight. Up to 16 ranks send to each other directly, so that an error names exactly the missing ranks.
// More ranks do so in turns (Bruck et al. 1997, doi:10.1109/71.642949, of radix 16). Only a poll starts the next turn,
// so whoever waits for one of several gathers must also poll the others.
class Gather {
  public:
    Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes); // starts it; `mine` is copied
    // With a tag (of exchanges) of its own, for a gather that others may overtake. number: of the gathers with this
    // tag.
    Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes, int tag, unsigned number);
    bool done(); // polls, without waiting
    // Waits. all: `bytes` of every rank, in the order of ranks.
    void finish(void *all);
    // The same for a rank that cannot stop here: if a part was lost, returns false, and this rank's own part is in its
    // place. The next gather throws on all ranks.
    bool take(void *all);

  private:
    struct Trailer {    // of a block
        int64_t lost;   // Ranks::lost()
        uint64_t check; // sum of what is before it
    };
    const unsigned char *block_of(int rank) const;
    uint64_t sum_of(int rank) const; // of the block, without its check word
    void next_turn();
    Ranks &ranks_;
    const char *phase_;
    size_t bytes_, block_; // without and with trailer
    int tag_, have_ = 1;   // blocks that are here when turn_ is done
    unsigned number_;
    std::shared_ptr<std::vector<unsigned char>> blocks_; // those of ranks rank, rank + 1, ...
    std::unique_ptr<Exchange> turn_;
};

} // namespace milcgpu
