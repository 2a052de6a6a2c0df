#include "tests/ranks_support.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/lasting_memory.h"
#include "gpu_kernels/machine/comm/clock.h"
#include "gpu_kernels/machine/content_hash.h"
#include "milc_glue/api/start_context.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tests {

namespace {

// Either may be in a GPU's memory.
void copy(void *to, const void *from, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    const bool on_gpu = milcgpu::is_lasting_on_device(to) || milcgpu::is_lasting_on_device(from);
    if (on_gpu && milcgpu::Device::gpu_count() > 0 && cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess &&
        cudaStreamSynchronize(nullptr) == cudaSuccess) // cudaMemcpy within a GPU does not wait until it is done
        return;
#endif
    std::memcpy(to, from, bytes);
}

} // namespace

Mailroom::Mailroom(int size)
    : size_(size), counters_(static_cast<size_t>(size)), says_gpu_memory_(static_cast<size_t>(size)) {}

Mailroom::~Mailroom() = default;

milcgpu_messages Mailroom::table(int rank) {
    auto table = sized<milcgpu_messages>();
    table.rank = table.node_rank = rank;
    table.size = table.node_size = size_;
    table.gpu_memory = says_gpu_memory_[rank];
    table.gpu_memory_by = "the mailroom";
    table.user = &counters_[rank];
    counters_[rank].room = this, counters_[rank].rank = rank;
    table.start = [](void *user, int count, const milcgpu_message *messages, void **handle) {
        Counters &counters = *static_cast<Counters *>(user);
        return counters.room->start(counters, count, messages, handle);
    };
    table.test = [](void *user, void *handle, int *done) {
        Counters &counters = *static_cast<Counters *>(user);
        return counters.room->test(counters, static_cast<Handle *>(handle), *done);
    };
    return table;
}

int Mailroom::start(Counters &counters, int count, const milcgpu_message *messages, void **handle) {
    ++counters.calls;
    if (counters.start_code != 0)
        return counters.start_code;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const milcgpu_message *m = messages; m != messages + count; ++m) {
        const bool is_on_gpu = milcgpu::is_lasting_on_device(m->send != nullptr ? m->send : m->receive);
        gpu_messages_ += is_on_gpu;
        gpu_address_ = is_on_gpu && m->receive != nullptr ? m->receive : gpu_address_;
        if (is_on_gpu && counters.on_gpu == OnGpu::refused)
            return 77;
    }
    auto *made = new Handle;
    for (const milcgpu_message *m = messages; m != messages + count; ++m) {
        largest_ = std::max(largest_, m->bytes);
        if (m->send != nullptr) {
            const Line line(counters.rank, m->peer, m->tag);
            made->halves.push_back({line, lines_[line].sends++, nullptr, 0});
            lines_[line].sent[made->halves.back().number] = {m->send, m->bytes};
        }
        if (m->receive != nullptr) {
            const Line line(m->peer, counters.rank, m->tag);
            made->halves.push_back({line, lines_[line].receives++, m->receive, m->bytes});
        }
    }
    *handle = made;
    return 0;
}

void Mailroom::end_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = ended_ || lost_ > 0;
}

bool Mailroom::loses(Counters &counters, const Handle::Half &half) {
    const auto [from, to, tag] = half.line;
    const uint64_t message = ((half.number * 64 + tag) * 64 + from) * 64 + to;
    return counters.arrived++ == counters.lose_at ||
           (one_in_ != 0 && milcgpu::scrambled(milcgpu::scrambled(message) + seed_) % one_in_ == 0);
}

void Mailroom::take(Counters &counters, const Handle::Half &half, const void *sent) {
    if (!loses(counters, half)) {
        copy(half.receive, sent, half.bytes);
    } else if (half.bytes <= lost_part_) {
        ++lost_;
    } else {
        const size_t first = milcgpu::scrambled(half.number + seed_) % (half.bytes - lost_part_),
                     end = first + lost_part_;
        const auto *const from = static_cast<const unsigned char *>(sent);
        auto *const to = static_cast<unsigned char *>(half.receive);
        ++lost_;
        for (size_t at = first; at < end; ++at)
            to[at] = static_cast<unsigned char>(~from[at]);
        copy(to, from, first);
        copy(to + end, from + end, half.bytes - end);
    }
}

int Mailroom::test(Counters &counters, Handle *handle, int &done) {
    ++counters.calls;
    if (counters.test_code != 0)
        return counters.test_code;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_)
        return 55;
    std::vector<Handle::Half> open;
    for (const Handle::Half &half : handle->halves) {
        auto &sent = lines_[half.line].sent;
        const auto found = sent.find(half.number);
        const bool is_on_gpu = half.receive != nullptr && milcgpu::is_lasting_on_device(half.receive);
        if ((half.receive == nullptr ? found != sent.end() : found == sent.end()) ||
            (is_on_gpu && counters.on_gpu == OnGpu::never)) {
            open.push_back(half);
        } else if (half.receive != nullptr) {
            if (found->second.second != half.bytes)
                return 99; // the two ranks disagree
            take(counters, half, found->second.first);
            const bool once = counters.corrupt_from != 0 && half.bytes >= counters.corrupt_from;
            if (once || (is_on_gpu && counters.on_gpu == OnGpu::wrong)) {
                unsigned char byte;
                copy(&byte, static_cast<unsigned char *>(half.receive) + half.bytes / 2, 1);
                byte ^= 4;
                copy(static_cast<unsigned char *>(half.receive) + half.bytes / 2, &byte, 1);
                counters.corrupt_from = 0;
            }
            sent.erase(found);
        }
    }
    handle->halves = open;
    done = open.empty();
    if (done)
        delete handle;
    return 0;
}

std::vector<Ending> on_threads(int size, const std::function<void(int rank, Ending &)> &work) {
    std::vector<Ending> endings(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
            omp_set_num_threads(1);
            const double begin = milcgpu::wall_seconds();
            try {
                work(rank, endings[rank]);
            } catch (const milcgpu::Error &error) {
                endings[rank].status = static_cast<int>(error.status());
                endings[rank].text = error.what();
            } catch (const std::exception &error) {
                endings[rank].status = -1;
                endings[rank].text = error.what();
            }
            endings[rank].seconds = milcgpu::wall_seconds() - begin;
        });
    for (std::thread &thread : threads)
        thread.join();
    return endings;
}

std::vector<Ending> on_ranks(Mailroom &room, int size, const std::function<void(milcgpu::Ranks &)> &work,
                             double limit_seconds) {
    return on_threads(size, [&](int rank, Ending &) {
        const milcgpu_messages table = room.table(rank);
        const std::unique_ptr<milcgpu::Ranks> ranks = milcgpu::ranks_of(&table);
        ranks->set_time_limit(limit_seconds);
        work(*ranks);
    });
}

std::vector<Ending> on_ranks(int size, const std::function<void(milcgpu::Ranks &)> &work) {
    Mailroom room(size);
    return on_ranks(room, size, work);
}

bool all_well(const std::vector<Ending> &endings) {
    for (const Ending &ending : endings)
        if (ending.status != 0)
            UNSCOPED_INFO(ending.text);
    return std::all_of(endings.begin(), endings.end(), [](const Ending &e) { return e.status == 0; });
}

bool all_ended(const std::vector<Ending> &endings, milcgpu::Status status, const std::string &text) {
    bool all = true;
    for (const Ending &ending : endings) {
        const bool so = ending.status == static_cast<int>(status) && ending.text.find(text) != std::string::npos;
        if (!so)
            UNSCOPED_INFO("status " << ending.status << ": " << ending.text);
        all = all && so;
    }
    return all;
}

} // namespace tests
