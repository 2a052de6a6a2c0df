#include "gpu_kernels/halo/peer_memory.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/launch.h"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <unistd.h>
#if defined(__CUDACC__)
#include "gpu_kernels/machine/backend/peers_cuda.h"
#endif

namespace milcgpu {

PeerMemory::PeerMemory(Device &device, Ranks &ranks, const Wanted &wanted, double time_limit_seconds)
    : device_(device), ranks_(ranks) {
    open(wanted, time_limit_seconds);
}

#if defined(MILCGPU_WITH_CUDA)

namespace {

constexpr size_t alignment = 256;
constexpr size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr size_t header = aligned(sizeof(Peers));

// Exported memory is not freed while another process may have it open: the next object that needs as much reuses it.
// All ranks synchronize when that object starts, so none of them still uses the old contents.
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

// words[0]: set by the host; if it is not 0, the kernel continues. words[1]: not 0 if it took too long.
__global__ void __launch_bounds__(1024) wait_for_host(int *words, unsigned long long limit_ns) {
    volatile int *const goes_on = words, *const gave_up = words + 1;
    for (const unsigned long long begin = cuda::nanoseconds(); *goes_on != 0;)
        if (cuda::nanoseconds() - begin > limit_ns) {
            *gave_up = 1;
            return;
        }
}

double test_number(int from, int to) { return 1000.0 * from + to + 0.5; }

} // namespace

void PeerMemory::Unregister::operator()(HostSegment *segment) const {
    cudaHostUnregister(segment->data());
    cudaGetLastError(); // it may not have been registered
    delete segment;
}

// What a rank tells the others about its memory.
struct PeerMemory::Offer {
    char why_not[160]; // empty: the memory is here
    char host[64];
    int process, ordinal;
    Reaching reaching;
    bool exported;
    void *data;
    cudaIpcMemHandle_t handle;
};
// The ranks that this rank reaches.
struct PeerMemory::Reach {
    char why_not[160]; // why not all are reached; empty: all are
    bool face[Peers::faces];
};

// Opens the memory of all ranks if all are on one host, and otherwise that of the neighbours on this host.
PeerMemory::Reach PeerMemory::reach(const Wanted &wanted, const std::vector<Offer> &offers) {
    const int size = ranks_.size(), own = ranks_.rank();
    others_.assign(size, nullptr), opened_.assign(size, false);
    Reach reached{};
    const auto note = [&](const std::string &why) {
        if (reached.why_not[0] == '\0')
            std::snprintf(reached.why_not, sizeof reached.why_not, "%s", why.c_str());
    };
    const Offer &mine = offers[own];
    if (wanted.reaching != Reaching::memory_of_gpus)
        note(wanted.reaching == Reaching::messages ? "MILCGPU_DIRECT=0" : "MILCGPU_DIRECT=host");
    if (size > most_peers)
        note(format("there are %d ranks, and sums are posted to up to %d", size, most_peers));
    bool one_host = size <= most_peers;
    for (const Offer &other : offers)
        one_host = one_host && std::strcmp(other.host, mine.host) == 0;
    for (int rank = 0; rank < size; ++rank) {
        const Offer &other = offers[rank];
        const bool neighbour = std::any_of(wanted.faces.begin(), wanted.faces.end(),
                                           [&](const Relay::Face &face) { return face.rank == rank; });
        if (std::strcmp(other.host, mine.host) != 0)
            note(format("it is on host %s, rank %d on %s", mine.host, rank, other.host));
        const bool may = std::min(mine.reaching, other.reaching) == Reaching::memory_of_gpus;
        if (!may || !other.exported || std::strcmp(other.host, mine.host) != 0 || !(one_host || neighbour)) {
            if (!other.exported)
                note(format("the memory of rank %d cannot be exported", rank));
            continue;
        }
        cudaError_t code = cudaSuccess;
        if (rank == own) {
            others_[rank] = own_;
        } else if (other.process == mine.process) {
            if (other.ordinal != mine.ordinal)
                code = cudaDeviceEnablePeerAccess(other.ordinal, 0);
            if (code == cudaErrorPeerAccessAlreadyEnabled)
                code = cudaSuccess;
            others_[rank] = code == cudaSuccess ? other.data : nullptr;
        } else {
            code = cudaIpcOpenMemHandle(&others_[rank], other.handle, cudaIpcMemLazyEnablePeerAccess);
            opened_[rank] = code == cudaSuccess;
            if (code != cudaSuccess)
                others_[rank] = nullptr;
        }
        cudaGetLastError();
        if (code != cudaSuccess)
            note(format("it cannot open the memory of rank %d: %s. Are its GPUs hidden from each other "
                        "(--gpu-bind=none shows all)?",
                        rank, cudaGetErrorString(code)));
    }
    for (int face = 0; face < Peers::faces; ++face)
        reached.face[face] = wanted.faces[face].rank >= 0 && others_[wanted.faces[face].rank] != nullptr;
    return reached;
}

void PeerMemory::close_others() {
    for (size_t rank = 0; rank < opened_.size(); ++rank)
        if (opened_[rank])
            cudaIpcCloseMemHandle(others_[rank]);
    cudaGetLastError();
    opened_.clear();
}

// Uses host memory in place of GPU memory. Returns the reason if it cannot, the same on all ranks.
std::string PeerMemory::share_memory_of_host() {
    const int own = ranks_.rank(), size = ranks_.size();
    Segments segments(size);
    std::vector<void *> seen(size);
    std::string why;
    const auto attempt = [&](const auto &work) {
        try {
            work();
        } catch (const std::exception &error) {
            why = error.what();
        }
        why = first_reason(ranks_, why.c_str());
    };
    attempt([&] { segments[own].reset(new HostSegment(bytes_)); });
    if (!why.empty())
        return why;
    struct Name {
        char text[96];
    } name{};
    std::snprintf(name.text, sizeof name.text, "%s", segments[own]->name().c_str());
    const std::vector<Name> names = ranks_.gathered("the start of direct stores", name);
    attempt([&] {
        for (int rank = 0; rank < size; ++rank) {
            if (rank != own)
                segments[rank].reset(new HostSegment(names[rank].text, bytes_));
            cudaError_t code =
                cudaHostRegister(segments[rank]->data(), bytes_, cudaHostRegisterMapped | cudaHostRegisterPortable);
            if (code == cudaSuccess)
                code = cudaHostGetDevicePointer(&seen[rank], segments[rank]->data(), 0);
            cudaGetLastError(); // the error is handled here
            if (code != cudaSuccess)
                throw Error(Status::no_memory, format("its GPU does not reach the memory of rank %d on the host: %s",
                                                      rank, cudaGetErrorString(code)));
        }
    });
    segments[own]->remove_name();
    if (!why.empty())
        return why;
    close_others();
    segments_ = std::move(segments), others_ = std::move(seen);
    return "";
}

void PeerMemory::open(const Wanted &wanted, double time_limit_seconds) {
    const int own = ranks_.rank(), size = ranks_.size();
    const size_t ghost_bytes = aligned(wanted.ghosts * (most_ghost_bytes + check_bytes));
    const size_t slot_bytes = aligned(wanted.slot_bytes);
    const size_t first_slot = header + 2 * ghost_bytes;
    bytes_ = first_slot + 2 * slot_bytes;
    std::string why = wanted.refused;
    // A failure here is not thrown, because the others wait for this rank's answer
    const auto attempt = [&](const auto &work) {
        try {
            if (why.empty())
                work();
        } catch (const std::exception &error) {
            why = error.what();
        }
    };
    Offer offer{};
    gethostname(offer.host, sizeof offer.host - 1);
    offer.process = getpid(), offer.ordinal = -1, offer.reaching = wanted.reaching;
    if (why.empty() && !device_.on_gpu())
        why = "it runs on the host backend";
    if (why.empty()) {
        cudaGetDevice(&offer.ordinal);
        own_ = take_or_allocate(offer.ordinal, bytes_);
        if (own_ == nullptr)
            why = format("%.1f MiB for ghosts do not fit on its GPU", bytes_ / 1048576.0);
    }
    offer.data = own_;
    offer.exported = own_ != nullptr && (size == 1 || cudaIpcGetMemHandle(&offer.handle, own_) == cudaSuccess);
    cudaGetLastError();
    std::snprintf(offer.why_not, sizeof offer.why_not, "%s", why.c_str());
    const std::vector<Offer> offers = ranks_.gathered("the start of direct stores", offer);
    for (int rank = 0; rank < size && why_not_.empty(); ++rank)
        if (offers[rank].why_not[0] != '\0')
            why_not_ = size == 1 ? offers[rank].why_not : ranks_.name(rank) + ": " + offers[rank].why_not;
    if (!why_not_.empty())
        return;

    std::vector<Reach> reaches = ranks_.gathered("the start of direct stores", reach(wanted, offers));
    reached_.sums = true;
    for (int rank = 0; rank < size; ++rank)
        if (reaches[rank].why_not[0] != '\0') {
            if (reached_.sums)
                reached_.why = size == 1 ? reaches[rank].why_not : ranks_.name(rank) + ": " + reaches[rank].why_not;
            reached_.sums = false;
        }
    const auto may_share = [&](const Offer &other) {
        return other.reaching != Reaching::messages && std::strcmp(other.host, offers[0].host) == 0;
    };
    if (!reached_.sums && size <= most_peers && std::all_of(offers.begin(), offers.end(), may_share)) {
        const std::string why_not = share_memory_of_host();
        reached_.sums = reached_.by_host = why_not.empty();
        if (!why_not.empty())
            reached_.why += "; memory of the host cannot be used instead: " + why_not;
    }
    for (Reach &all : reaches)
        for (int face = 0; face < Peers::faces && reached_.by_host; ++face)
            all.face[face] = wanted.faces[face].rank >= 0;
    std::array<Relay::Face, Peers::faces> relayed = wanted.faces;
    Reach both{}; // faces that are reached from both sides
    for (int face = 0; face < Peers::faces; ++face)
        if (wanted.faces[face].rank >= 0) {
            both.face[face] = reaches[own].face[face] && reaches[wanted.faces[face].rank].face[face ^ 1];
            relayed[face].rank = both.face[face] ? -1 : wanted.faces[face].rank;
        }
    for (const Reach &reach : ranks_.gathered("the start of direct stores", both))
        for (int face = 0; face < Peers::faces; ++face)
            if (wanted.faces[face].rank >= 0)
                ++reached_.all[face / 2], reached_.direct[face / 2] += reach.face[face];

    Peers peers{};
    std::memset(&peers.own_posted, 0xFF, sizeof peers.own_posted);
    const auto in = [&](int rank, size_t offset) { return static_cast<unsigned char *>(others_[rank]) + offset; };
    // The memory that other ranks store into. Members of Peers that only this rank changes are in own_.
    unsigned char *const shared = static_cast<unsigned char *>(reached_.by_host ? others_[own] : own_);
    const auto own_at = [&](size_t offset) { return shared + offset; };
    const auto set = [&] {
        if (reached_.by_host)
            std::memcpy(segments_[own]->data(), &peers, sizeof peers);
        device_.copy_to_device(own_, &peers, sizeof peers);
        device_.synchronize();
    };
    const auto posted_of = [&](int rank) {
        return reinterpret_cast<PostedSums *>(in(rank, offsetof(Peers, own_posted)));
    };
    attempt([&] {
        if (!reached_.sums) {
            relay_ = std::make_unique<Relay>(device_, ranks_, relayed, wanted.ghosts);
            relay_->deliver_to({own_at(header), own_at(header + ghost_bytes)},
                               reinterpret_cast<int *>(own_at(offsetof(Peers, broken))));
            peers.relay = relay_->box();
        }
        for (int face = 0; face < Peers::faces; ++face) {
            const int rank = wanted.faces[face].rank, opposite = face ^ 1; // this rank is on the neighbour's other side
            if (rank < 0)
                continue;
            Peers::Face &here = peers.face[face];
            here.rank = rank;
            if (both.face[face]) {
                here.slots = in(rank, first_slot);
                here.tell = reinterpret_cast<unsigned *>(in(rank, offsetof(Peers, sent) + opposite * sizeof(unsigned)));
                here.heard = reinterpret_cast<unsigned *>(own_at(offsetof(Peers, sent) + face * sizeof(unsigned)));
            } else {
                here.heard = &relay_->box()->told[face];
            }
            for (int parity = 0; parity < 2; ++parity)
                maps_[parity].to[face] =
                    both.face[face] ? in(rank, header + parity * ghost_bytes) : relay_->outgoing(parity);
        }
        if (reached_.sums) {
            peers.place = own, peers.posters = size;
            for (int rank = 0; rank < size; ++rank)
                peers.posted_at[rank] = posted_of(rank);
            peers.posted = reinterpret_cast<PostedSums *>(own_at(offsetof(Peers, own_posted)));
        } else {
            peers.posters = 1;
            peers.posted_at[0] = &relay_->box()->out;
            peers.posted = &relay_->box()->in;
        }
        peers.slots = own_at(first_slot), peers.slot_bytes = slot_bytes;
        for (int parity = 0; parity < 2; ++parity) {
            maps_[parity].peers = static_cast<Peers *>(own_);
            maps_[parity].from = own_at(header + (1 - parity) * ghost_bytes);
            maps_[parity].places = static_cast<unsigned>(wanted.ghosts);
            peers.vector_next[parity] = 1;
        }
        // If the host passes messages, its own wait ends first, because it can name the missing ranks.
        const double limit_seconds = reached_.sums ? time_limit_seconds : 1.2 * time_limit_seconds + 1;
        peers.limit_ns = static_cast<unsigned long long>(std::fmin(limit_seconds * 1e9, 1e19));
        peers.waits = device_.waits();
        device_.fill_zero(own_, first_slot); // no ghosts yet; a segment of host memory starts as zero
        set();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    if (!why_not_.empty())
        return;

    // A number from each rank to each rank that it reaches, passed like a sum.
    struct Test {
        int rank, place, own_place;
    };
    std::vector<Test> tests;
    for (int rank = 0; rank < size && reached_.sums; ++rank)
        tests.push_back({rank, own, rank});
    for (int face = 0; face < Peers::faces && !reached_.sums; ++face)
        if (both.face[face])
            tests.push_back({wanted.faces[face].rank, face ^ 1, face});
    attempt([&] {
        for (const Test &test : tests)
            cuda::start(device_, "test direct stores", 1, 1, post_in,
                        static_cast<double *>(posted_of(test.rank)->of[0][test.place]), test_number(own, test.rank));
        device_.synchronize();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    if (!why_not_.empty())
        return;
    attempt([&] {
        Peers seen;
        if (reached_.by_host)
            std::memcpy(&seen, segments_[own]->data(), sizeof seen);
        else
            device_.copy_to_host(&seen, own_, sizeof seen);
        for (const Test &test : tests)
            if (seen.own_posted.of[0][test.own_place][0] != test_number(test.rank, own))
                why = format("a number that rank %d stored in its memory did not come", test.rank);
        set();
    });
    why_not_ = first_reason(ranks_, why.c_str());
    open_ = why_not_.empty();
    if (open_ && relay_) {
        device_.set_meanwhile([this] { return relay_->poll(); });
        ranks_.set_meanwhile([this] { return relay_->poll(); });
    }
}

GpuMessagesFound PeerMemory::try_gpu_messages_in_steps(GpuMessages asked,
                                                       const std::array<int, Peers::faces> &neighbour,
                                                       const std::shared_ptr<unsigned char> &sent,
                                                       const std::shared_ptr<unsigned char> &received, size_t bytes) {
    std::string refused = asked == GpuMessages::in_steps ? "" : "MILCGPU_GPU_MPI=step would try that";
    DuringTrial during;
    std::shared_ptr<int> words;
    try {
        words = {static_cast<int *>(device_.allocate_pinned(2 * sizeof(int))),
                 [this](int *data) { device_.release_pinned(data); }};
        words.get()[0] = 1, words.get()[1] = 0;
    } catch (const Error &error) { // reported to all ranks
        refused = error.what();
    }
    int ordinal = 0, multiprocessors = 0;
    cudaGetDevice(&ordinal);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    cudaGetLastError();
    // The test occupies as many threads as fit on the GPU, because as many threads of sites at a cut may wait.
    if (refused.empty())
        during = {[&] {
                      cuda::start(device_, "test messages while kernels wait", 2 * multiprocessors, 1024, wait_for_host,
                                  words.get(), static_cast<unsigned long long>(most_seconds_of_trial * 1e9));
                  },
                  [&] {
                      *static_cast<volatile int *>(words.get()) = 0;
                      device_.synchronize();
                      return words.get()[1] == 0;
                  }};
    const GpuMessagesFound found = try_gpu_messages(device_, ranks_, neighbour, sent, received, bytes, refused, during);
    if (!found.work)
        return found;
    const unsigned char *const before[2] = {relay_->outgoing(0), relay_->outgoing(1)};
    relay_->use_gpu_memory();
    for (int parity = 0; parity < 2; ++parity)
        for (unsigned char *&to : maps_[parity].to)
            to = to == before[parity] ? relay_->outgoing(parity) : to;
    return found;
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
        if (!relay_ || !relay_->may_still_reach_gpu())
            kept.push_back({ordinal, own_, bytes_});
    } catch (const std::exception &) { // a lost GPU: what it held is gone
    }
    device_.set_meanwhile({});
    ranks_.set_meanwhile({});
    close_others();
}

#else

void PeerMemory::open(const Wanted &wanted, double) {
    why_not_ = wanted.refused.empty() ? "this library was built without nvcc" : wanted.refused;
}

PeerMemory::~PeerMemory() = default;
void PeerMemory::Unregister::operator()(HostSegment *segment) const { delete segment; }
GpuMessagesFound PeerMemory::try_gpu_messages_in_steps(GpuMessages, const std::array<int, Peers::faces> &,
                                                       const std::shared_ptr<unsigned char> &,
                                                       const std::shared_ptr<unsigned char> &, size_t) {
    return {false, why_not_};
}

#endif

} // namespace milcgpu
