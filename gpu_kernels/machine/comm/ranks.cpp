// Gathers, sums and decisions of all ranks.
#include "gpu_kernels/machine/comm/ranks.h"
#include <mutex>
#include <new>

namespace milcgpu {

Ranks::Ranks(int rank, int size, std::unique_ptr<Messenger> messenger, double time_limit_seconds)
    : rank_(rank), size_(size), messenger_(std::move(messenger)), time_limit_seconds_(time_limit_seconds) {
    if (size < 1 || rank < 0 || rank >= size)
        throw Error(Status::bad_argument, format("rank %d of %d: must be one of 0 to size - 1", rank, size));
    if (size > 1 && !messenger_)
        throw Error(Status::bad_argument, format("%s: without message passing", name().c_str()));
}

// If messages are still in flight when their owner ends, the memory that they reach is never freed. Contexts may end in
// several threads.
void Ranks::keep_for_ever(std::list<Part> &parts) {
    static std::mutex one_at_a_time;
    alignas(std::list<Part>) static unsigned char scratch[sizeof(std::list<Part>)];
    static auto *const kept = new (scratch) std::list<Part>;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    kept->splice(kept->end(), parts);
}

Ranks::~Ranks() {
    poll_left();
    keep_for_ever(left_);
}

void Ranks::throw_if_broken() const {
    if (broken_)
        throw *broken_;
}

void Ranks::fail(Status status, const std::string &what) {
    broken_.emplace(status, what);
    throw *broken_;
}

// Frees what is done. Broken ranks pass no messages, so nothing is polled for them.
void Ranks::poll_left() {
    for (auto left = left_.begin(); left != left_.end() && !broken_;) {
        bool done = false;
        const int code = messenger_->test(left->handle, done);
        left = code == 0 && done ? left_.erase(left) : std::next(left);
    }
}

void Ranks::all_gather(const char *phase, const void *mine, void *all, size_t bytes) {
    Gather(*this, phase, mine, bytes).finish(all);
}

void Ranks::add_in_rank_order(const char *phase, double *values, int count) {
    std::vector<double> all(static_cast<size_t>(size_) * count);
    all_gather(phase, values, all.data(), count * sizeof(double));
    for (int k = 0; k < count; ++k) {
        double sum = all[k];
        for (int rank = 1; rank < size_; ++rank)
            sum += all[static_cast<size_t>(rank) * count + k];
        values[k] = sum;
    }
}

namespace {

// What collective() has thrown on all ranks: an outer collective() adds nothing to it.
struct AgreedError : Error {
    using Error::Error;
};

struct Report {
    int status = 0;
    char text[1020] = "";
    void note(Status why, const char *what) {
        status = static_cast<int>(why);
        std::snprintf(text, sizeof text, "%s", what);
    }
};

} // namespace

void Ranks::collective(const char *phase, const std::function<void()> &work) {
    if (size_ == 1)
        return work();
    throw_if_broken();
    Report mine;
    try {
        if (lost() == 0) // otherwise the gather below tells all ranks
            work();
    } catch (const AgreedError &) {
        throw;
    } catch (const Error &error) {
        mine.note(error.status(), error.what());
    } catch (const std::bad_alloc &) {
        mine.note(Status::no_memory, "host memory is exhausted");
    } catch (const std::exception &error) {
        mine.note(Status::bad_argument, error.what());
    }
    throw_if_broken();
    const std::vector<int> statuses = gathered(phase, mine.status);
    int worst = -1;
    for (int rank = size_ - 1; rank >= 0; --rank) // the lowest rank remains
        if (statuses[rank] != 0 && (worst < 0 || statuses[worst] != static_cast<int>(Status::device_lost) ||
                                    statuses[rank] == static_cast<int>(Status::device_lost)))
            worst = rank;
    if (worst < 0)
        return;
    const std::vector<Report> reports = gathered(phase, mine);
    throw AgreedError(static_cast<Status>(statuses[worst]), name(worst) + ": " + reports[worst].text);
}

} // namespace milcgpu
