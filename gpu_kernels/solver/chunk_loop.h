// The loop of every solver. A chunk is a few iterations, recorded once and replayed; the scalars stay on the device.
// The host queues one chunk ahead of the chunk whose scalars it reads. A chunk is 100 microseconds of work or more, so
// the GPU never waits for the host. A chunk that is queued after the end does nothing. A loop may have several chunks
// and replay them in any order.
#pragma once
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/on_all_ranks.h"
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace milcgpu {

class ChunkLoop {
  public:
    // Data on the device that the host looks at after each chunk.
    struct Piece {
        const void *data;
        size_t bytes;
    };
    // recorded: false if the host has work between the launches of a chunk.
    ChunkLoop(Device &device, std::function<void()> chunk, std::vector<Piece> pieces, bool recorded = true)
        : ChunkLoop(device, std::vector<std::function<void()>>{std::move(chunk)}, std::move(pieces), recorded) {}
    ChunkLoop(Device &device, const std::vector<std::function<void()>> &chunks, std::vector<Piece> pieces,
              bool recorded = true)
        : device_(device), pieces_(std::move(pieces)) {
        for (const auto &chunk : chunks)
            chunks_.emplace_back(device, chunk, recorded);
        for (const Piece &piece : pieces_)
            bytes_ += (piece.bytes + alignment - 1) / alignment * alignment;
        seen_ = {static_cast<unsigned char *>(device.allocate_pinned(2 * bytes_)),
                 [&device](unsigned char *p) { device.release_pinned(p); }};
    }

    // What the host reads from the scalars: whether the loop has ended, and the iterations so far. The iterations must
    // grow from look to look; otherwise the scalars were changed from outside, and the loop might never end.
    struct Look {
        bool ended;
        int iterations;
    };
    // Queues chunks until look_at(), which reads seen(), says that the loop has ended. The k-th chunk is which(k).
    template <class LookAt> void run(const LookAt &look_at) {
        run(look_at, [](int) { return 0; });
    }
    template <class LookAt, class Which> void run(const LookAt &look_at, const Which &which) {
        if (device_.on_gpu())
            run_chunks(look_at, which);
        else
            with_threads_awake([&] { run_chunks(look_at, which); });
    }

    // seen: piece k after the chunk that the host looks at. last: once the loop has ended, piece k after the chunk that
    // was already queued behind it.
    template <class T> const T *seen(int k) const { return reinterpret_cast<const T *>(place(slot_, k)); }
    template <class T> const T *last(int k) const { return reinterpret_cast<const T *>(place(1 - slot_, k)); }

  private:
    static constexpr size_t alignment = 64;
    template <class LookAt, class Which> void run_chunks(const LookAt &look_at, const Which &which) {
        slot_ = 0;
        int queued = 0;
        const auto queue = [&](int slot) { queue_chunk(which(queued++), slot); };
        queue(0);
        for (int before = 0;; slot_ = 1 - slot_) {
            queue(1 - slot_);
            device_.wait(slot_);
            const Look look = look_at();
            if (!look.ended && look.iterations > before) {
                before = look.iterations;
                continue;
            }
            device_.wait(1 - slot_); // or its copies would arrive later
            if (look.ended)
                return;
            throw Error(Status::corrupted, "the iteration stopped without a reason: its scalars on the device were "
                                           "changed from outside. Solve again");
        }
    }
    unsigned char *place(int slot, int k) const {
        unsigned char *at = seen_.get() + slot * bytes_;
        for (int before = 0; before < k; ++before)
            at += (pieces_[before].bytes + alignment - 1) / alignment * alignment;
        return at;
    }
    void queue_chunk(int which, int slot) {
        chunks_[which].run();
        for (size_t k = 0; k < pieces_.size(); ++k)
            device_.copy_to_pinned_later(place(slot, static_cast<int>(k)), pieces_[k].data, pieces_[k].bytes);
        device_.record(slot);
    }

    Device &device_;
    std::vector<Piece> pieces_;
    std::deque<Device::Sequence> chunks_;
    size_t bytes_ = 0; // of all pieces
    int slot_ = 0;
    std::unique_ptr<unsigned char, std::function<void(unsigned char *)>> seen_; // pinned, twice
};

} // namespace milcgpu
