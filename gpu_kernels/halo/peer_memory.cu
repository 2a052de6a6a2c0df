#include "gpu_kernels/backend/cuda_handles.h"
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/halo/peer_memory.h"
#include <cstddef>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace milcgpu {

PeerMemory::PeerMemory(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour, size_t ghosts,
                       size_t slot_bytes, double time_limit_seconds, const std::string &refused)
    : device_(device), ranks_(ranks) {
    open(neighbour, ghosts, slot_bytes, time_limit_seconds, refused);
}

#if defined(MILCGPU_WITH_CUDA)

namespace {

constexpr size_t alignment = 256;
constexpr size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr size_t header = aligned(sizeof(Peers));

// Exported memory is not freed while another process may have it open: it is taken again by the next one that needs as
// much. By then all ranks have met at their start.
struct Kept {
    int ordinal;
    void *data;
    size_t bytes;
};
std::mutex kept_mutex;
std::vector<Kept> kept;

void *take_or_allocate(int ordinal, size_t bytes) {
    const std::lock_guard<std::mutex> lock(kept_mutex);
    for (auto one = kept.begin(); one != kept.end(); ++one)
        if (one->ordinal == ordinal && one->bytes == bytes) {
            void *const data = one->data;
            kept.erase(one);
            return data;
        }
    void *data = nullptr;
    if (cudaMalloc(&data, bytes) == cudaSuccess)
        return data;
    cudaGetLastError();
    return nullptr;
}

// What a rank tells the others of its memory.
struct Offer {
    char why_not[160]; // empty: here it is
    char host[64];
    int process, ordinal;
    void *data;
    cudaIpcMemHandle_t handle;
};
struct Answer {
    char why_not[160];
};

std::string first_reason(Ranks &ranks, const char *why_not) {
    Answer mine{};
    std::snprintf(mine.why_not, sizeof mine.why_not, "%s", why_not);
    const std::vector<Answer> all = ranks.gathered("the start of direct stores", mine);
    for (int rank = 0; rank < ranks.size(); ++rank)
        if (all[rank].why_not[0] != '\0')
            return ranks.size() == 1 ? all[rank].why_not : ranks.name(rank) + ": " + all[rank].why_not;
    return "";
}

__global__ void post_in(double *at, double value) { milcgpu::post(*at, value); }

double test_number(int from, int to) { return 1000.0 * from + to + 0.5; }

} // namespace

void PeerMemory::open(const std::array<int, Peers::faces> &neighbour, size_t ghosts, size_t slot_bytes,
                      double time_limit_seconds, const std::string &refused) {
    const size_t ghost_bytes = aligned(ghosts * (most_ghost_bytes + check_bytes));
    slot_bytes = aligned(slot_bytes);
    const size_t first_slot = header + 2 * ghost_bytes;
    bytes_ = first_slot + 2 * slot_bytes;
    int ordinal = -1;
    std::string why = refused;
    if (why.empty() && !device_.on_gpu())
        why = "it runs on the host backend";
    if (why.empty() && ranks_.size() > most_peers)
        why = format("there are %d ranks, and direct stores are built for up to %d on one host", ranks_.size(),
                     most_peers);
    if (why.empty()) {
        cudaGetDevice(&ordinal);
        own_ = take_or_allocate(ordinal, bytes_);
        if (own_ == nullptr)
            why = format("%.1f MiB for direct stores do not fit on its GPU", bytes_ / 1048576.0);
    }
    Offer offer{};
    gethostname(offer.host, sizeof offer.host - 1);
    offer.process = getpid(), offer.ordinal = ordinal, offer.data = own_;
    if (why.empty() && ranks_.size() > 1 && cudaIpcGetMemHandle(&offer.handle, own_) != cudaSuccess)
        why = format("its memory cannot be exported: %s", cudaGetErrorString(cudaGetLastError()));
    std::snprintf(offer.why_not, sizeof offer.why_not, "%s", why.c_str());
    const std::vector<Offer> offers = ranks_.gathered("the start of direct stores", offer);
    for (int rank = 0; rank < ranks_.size() && why_not_.empty(); ++rank) {
        if (offers[rank].why_not[0] != '\0')
            why_not_ = ranks_.size() == 1 ? offers[rank].why_not : ranks_.name(rank) + ": " + offers[rank].why_not;
        else if (std::strcmp(offers[rank].host, offers[0].host) != 0)
            why_not_ =
                format("%s is on host %s, rank 0 on %s", ranks_.name(rank).c_str(), offers[rank].host, offers[0].host);
    }
    if (!why_not_.empty())
        return;

    Peers peers{};
    std::memset(peers.posted, 0xFF, sizeof peers.posted);
    why.clear();
    others_.assign(offers.size(), nullptr), opened_.assign(offers.size(), false);
    for (int rank = 0; rank < ranks_.size() && why.empty(); ++rank) {
        const Offer &other = offers[rank];
        cudaError_t code = cudaSuccess;
        if (rank == ranks_.rank()) {
            others_[rank] = own_;
        } else if (other.process == offer.process) {
            if (other.ordinal != ordinal)
                code = cudaDeviceEnablePeerAccess(other.ordinal, 0);
            if (code == cudaErrorPeerAccessAlreadyEnabled)
                code = cudaSuccess;
            others_[rank] = other.data;
        } else {
            code = cudaIpcOpenMemHandle(&others_[rank], other.handle, cudaIpcMemLazyEnablePeerAccess);
            opened_[rank] = code == cudaSuccess;
        }
        cudaGetLastError();
        if (code != cudaSuccess)
            why = format("it cannot open the memory of rank %d: %s. Are its GPUs hidden from each other "
                         "(--gpu-bind=none shows all)?",
                         rank, cudaGetErrorString(code));
    }
    const auto in = [&](int rank, size_t offset) { return static_cast<unsigned char *>(others_[rank]) + offset; };
    const auto attempt = [&](const auto &work) { // what fails here is not thrown: the others wait to hear of it
        try {
            if (why.empty())
                work();
        } catch (const std::exception &error) {
            why = error.what();
        }
    };
    attempt([&] {
        peers.rank = ranks_.rank(), peers.ranks = ranks_.size();
        for (int face = 0; face < Peers::faces; ++face)
            if (neighbour[face] >= 0) {
                const int opposite = face ^ 1; // this rank is on the neighbour's other side
                peers.face[face].rank = neighbour[face];
                for (int parity = 0; parity < 2; ++parity)
                    maps_[parity].to[face] = in(neighbour[face], header + parity * ghost_bytes);
                peers.face[face].slots = in(neighbour[face], first_slot);
                peers.face[face].sent = reinterpret_cast<unsigned *>(
                    in(neighbour[face], offsetof(Peers, sent) + opposite * sizeof(unsigned)));
            }
        for (int rank = 0; rank < ranks_.size(); ++rank)
            peers.posted_at[rank] = reinterpret_cast<double *>(in(rank, offsetof(Peers, posted)));
        peers.slots = in(ranks_.rank(), first_slot), peers.slot_bytes = slot_bytes;
        for (int parity = 0; parity < 2; ++parity) {
            maps_[parity].peers = static_cast<Peers *>(own_);
            maps_[parity].from = in(ranks_.rank(), header + (1 - parity) * ghost_bytes);
            maps_[parity].places = static_cast<unsigned>(ghosts);
            peers.vector_next[parity] = 1;
        }
        peers.limit_ns = static_cast<unsigned long long>(time_limit_seconds * 1e9);
        peers.waits = device_.waits();
        device_.fill_zero(own_, first_slot); // ghosts of no vector
        device_.copy_to_device(own_, &peers, sizeof peers);
        device_.synchronize();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    if (!why_not_.empty())
        return;

    // A number from each rank to each, as a sum would go.
    attempt([&] {
        for (int rank = 0; rank < ranks_.size(); ++rank)
            cuda::start(device_, "test direct stores", 1, 1, post_in,
                        peers.posted_at[rank] + ranks_.rank() * static_cast<size_t>(widest_sum),
                        test_number(ranks_.rank(), rank));
        device_.synchronize();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    if (!why_not_.empty())
        return;
    attempt([&] {
        Peers seen;
        device_.copy_to_host(&seen, own_, sizeof seen);
        for (int rank = 0; rank < ranks_.size(); ++rank)
            if (seen.posted[0][rank][0] != test_number(rank, ranks_.rank()))
                why = format("a number that rank %d stored in its memory did not come", rank);
        device_.copy_to_device(own_, &peers, sizeof peers);
        device_.synchronize();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    open_ = why_not_.empty();
}

PeerMemory::~PeerMemory() {
    if (own_ == nullptr)
        return;
    try {
        device_.make_current();
        device_.synchronize();
        const std::lock_guard<std::mutex> lock(kept_mutex);
        int ordinal = -1;
        cudaGetDevice(&ordinal);
        kept.push_back({ordinal, own_, bytes_});
    } catch (const std::exception &) { // a lost GPU: what it held is gone
    }
    for (size_t rank = 0; rank < opened_.size(); ++rank)
        if (opened_[rank])
            cudaIpcCloseMemHandle(others_[rank]);
    cudaGetLastError();
}

#else

void PeerMemory::open(const std::array<int, Peers::faces> &, size_t, size_t, double, const std::string &refused) {
    why_not_ = refused.empty() ? "this library was built without nvcc" : refused;
}

PeerMemory::~PeerMemory() = default;

#endif

} // namespace milcgpu
