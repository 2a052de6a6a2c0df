// Ranks as threads of this process, and message passing between them, without MPI. Catch's assertions are not
// thread-safe: threads leave what they found in arrays, and the test looks at these when they have ended.
#pragma once
#include "examples/lib/boxes.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/lasting_memory.h"
#include "milc_glue/api/start_context.h"
#include "tests/support.h"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

namespace tests {

// Message passing as strict as MPI allows: a message is read from the sender's memory when the receiver takes it, and
// only then is it done for the sender.
class Mailroom {
  public:
    explicit Mailroom(int size);
    Mailroom(const Mailroom &) = delete;
    ~Mailroom();

    milcgpu_messages table(int rank);
    size_t largest() const { return largest_; } // message so far
    // Calls that a rank has made of its table.
    long calls(int rank) const { return counters_[rank].calls; }
    // Faults: the functions of a rank's table fail with a code.
    void fail_start(int rank, int code) { counters_[rank].start_code = code; }
    void fail_test(int rank, int code) { counters_[rank].test_code = code; }
    // A bit of the next message of at least so many bytes arrives wrong at this rank.
    void corrupt(int rank, size_t bytes) { counters_[rank].corrupt_from = bytes; }

    // Lost messages: they leave the receiver's memory as it was, and the functions report success. One in so many, or
    // the one that arrives at a rank after so many others. One rank's error then ends all, as MPI_Abort does.
    void lose_one_in(uint64_t count, uint64_t seed) { one_in_ = count, seed_ = seed; }
    void lose_parts(size_t bytes) { lost_part_ = bytes; } // of longer messages: other bytes arrive in their place
    void lose_later(int rank, long after) { counters_[rank].lose_at = counters_[rank].arrived + after; }
    long arrived(int rank) const { return counters_[rank].arrived; }
    long lost() const { return lost_; }
    void end_all(); // if a message was lost

    // Messages in the memory of a GPU, or what stands for it on the host backend. What a rank's table says of them
    // (no), before it is handed out; what becomes of those that a rank starts or takes; how many there were.
    enum class OnGpu { fine, wrong, never, refused };
    void say_gpu_memory(int rank, bool yes) { says_gpu_memory_[rank] = yes; }
    void on_gpu(int rank, OnGpu what) { counters_[rank].on_gpu = what; }
    long gpu_messages() const { return gpu_messages_; }
    const void *gpu_address() const { return gpu_address_; } // where one of them was to arrive

  private:
    struct Counters {
        OnGpu on_gpu = OnGpu::fine;
        Mailroom *room = nullptr;
        int rank = 0, start_code = 0, test_code = 0;
        long calls = 0;
        size_t corrupt_from = 0; // 0: none
        long arrived = 0, lose_at = -1;
    };
    using Line = std::tuple<int, int, int>; // from, to, tag
    struct Lines {
        std::map<size_t, std::pair<const void *, size_t>> sent; // by number, until they are taken
        size_t sends = 0, receives = 0;
    };
    struct Handle {
        struct Half {
            Line line;
            size_t number;
            void *receive; // nullptr: it was sent
            size_t bytes;
        };
        std::vector<Half> halves;
    };

    int start(Counters &counters, int count, const milcgpu_message *messages, void **handle);

    int test(Counters &counters, Handle *handle, int &done);
    bool loses(Counters &counters, const Handle::Half &half);
    void take(Counters &counters, const Handle::Half &half, const void *sent);

    int size_;
    std::vector<Counters> counters_;
    std::vector<int> says_gpu_memory_;
    std::mutex mutex_;
    long gpu_messages_ = 0;
    const void *gpu_address_ = nullptr;
    std::map<Line, Lines> lines_;
    size_t largest_ = 0;
    uint64_t one_in_ = 0, seed_ = 0;
    size_t lost_part_ = SIZE_MAX;
    long lost_ = 0;
    bool ended_ = false;
};

// Between looks of a rank: threads that only yield can keep the others from the mailroom for minutes.
inline void pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

// How a rank ended.
struct Ending {
    int status = 0;
    std::string text;
    double seconds = 0;
};

// Does `work` in a thread for every rank; what it throws is the rank's ending.
std::vector<Ending> on_threads(int size, const std::function<void(int rank, Ending &)> &work);

// The same with the engine's ranks. limit_seconds: far above what a busy machine needs, where no wait is to end.
std::vector<Ending> on_ranks(Mailroom &room, int size, const std::function<void(milcgpu::Ranks &)> &work,
                             double limit_seconds = 60);
std::vector<Ending> on_ranks(int size, const std::function<void(milcgpu::Ranks &)> &work);

bool all_well(const std::vector<Ending> &endings);

// All ranks ended with this status and this text, as far as it goes.
bool all_ended(const std::vector<Ending> &endings, milcgpu::Status status, const std::string &text);

using examples::layout_on_grid;

} // namespace tests
