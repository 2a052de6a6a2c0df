// Launches that sum over their sites. A body is a struct with `MILCGPU_HD Sums<N> operator()(int i) const`. One thread
// calls `finish` once, with the N sums. `finish` derives from Finish, or has its own wanted(); if wanted() returns
// false, the sums are not computed.
//
// Sums are deterministic: 64 sites form a tile and 256 tiles a group; sites, tiles and groups are added by fixed trees.
// Results do not depend on block size, number of SMs or CPU threads. There is no second launch, no atomic and no fence.
// Each warp posts the sum of its half of a tile in its own slot and ends. The block with the last tile of a group waits
// for the slots of the group, adds them and empties them (posted.h says why no wait lasts for ever). In the usual
// scheme each block does a fence and counts its arrival; then it stays on the SM 2 us longer, and a dslash with a sum
// was 10 % slower.
//
// A sum (GlobalSum) and its use (finish) are separate, because a launch may defer its sum to the next launch (Pending).
// The first blocks of that launch add and finish the sum while the others work. A body waits only if it needs a number
// that finish computes (await in posted.h). With several ranks, finish is called after the sums of all ranks have been
// added in rank order; bodies do not change.
#pragma once
#include "gpu_kernels/machine/backend/lanes.h"
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/machine/backend/launch_types.h"
#include "gpu_kernels/machine/backend/posted.h"
#include <algorithm>
#include <type_traits>

namespace milcgpu {

constexpr int tile_sites = 64;     // also the smallest block; every block is a multiple of it
constexpr int tile_slots = 2;      // one for each of its warps
constexpr int group_tiles = 256;   // tiles added by one block
constexpr int sources_a_block = 4; // most threads for a site in launch_sum_sources
constexpr int site_parts = 4;      // number of parts of a heavy body: one a direction

template <int N> struct Sums {
    double v[N];
    MILCGPU_HD void add(const Sums &other) {
        MILCGPU_UNROLL
        for (int k = 0; k < N; ++k)
            v[k] += other.v[k];
    }
};

template <class Real> struct SumsOf {
    using One = double;
    template <int N> using Sites = Sums<N>;
};

// The `count` consecutive sources of a thread. If the call has fewer sources than that, the first one is done twice. A
// thread always computes `count` of them. It does not store the first `skipped`, because another thread does, or
// because they are duplicates.
template <int count> struct Sources {
    int first, skipped;
    bool twice;
    MILCGPU_HD int k(int r) const { return r > 0 && twice ? first + r - 1 : first + r; }
    MILCGPU_HD bool mine(int r) const { return r >= skipped; }
    // Addresses of the fields of these sources, which are `bytes` apart, computed by steps: otherwise the compiler
    // would compute a product for each one again and again.
    MILCGPU_HD const unsigned char *first_of(const unsigned char *field, size_t bytes) const {
        return opaque(field + first * bytes);
    }
    MILCGPU_HD size_t to_second(size_t bytes) const { return twice ? 0 : bytes; }
    MILCGPU_HD void all_of(const unsigned char *field, size_t bytes, const unsigned char *(&fields)[count]) const {
        fields[0] = first_of(field, bytes);
        MILCGPU_UNROLL
        for (int r = 1; r < count; ++r)
            fields[r] = fields[r - 1] + (r == 1 ? to_second(bytes) : bytes);
    }
};

// The part of a body that does not read what the previous launch writes can run while that launch ends. Such a body has
// Body::Prepared, prepare(i), and operator()(i, prepared) besides operator()(i).
template <class Body, class = void> struct prepares : std::false_type {};
template <class Body> struct prepares<Body, std::void_t<typename Body::Prepared>> : std::true_type {};
// The base of a body that prepares in some of its instances.
template <class What, bool does> struct Preparing {};
template <class What> struct Preparing<What, true> { using Prepared = What; };

struct Finish {
    MILCGPU_HD bool wanted() const { return true; }
};

// Tiles and groups of a sum. Its slots: one for each warp, then one for each group.
struct ReduceShape {
    int tiles, groups;
    explicit ReduceShape(int n)
        : tiles((n + tile_sites - 1) / tile_sites), groups((tiles + group_tiles - 1) / group_tiles) {}
    MILCGPU_HD size_t group_slots() const { return static_cast<size_t>(tile_slots) * tiles; }
    MILCGPU_HD size_t slots() const { return group_slots() + groups; }
};

// N sums over the sites of a launch that are not finished yet: the slots of warps and groups.
template <int N> struct GlobalSum {
    Sums<N> *slots; // nullptr: no sum
    ReduceShape shape;
    WaitReport *waits;
    MILCGPU_HD Sums<N> *groups() const { return slots + shape.group_slots(); }
    MILCGPU_HD GlobalSum of_source(int k) const { return {slots + k * shape.slots(), shape, waits}; }
};

// A sum over n items in these slots; nullptr: the slots of the device, which a deferred sum must not use.
template <int N> GlobalSum<N> global_sum(Device &device, int n, double *slots, int sources = 1) {
    const ReduceShape shape(n);
    return {
        reinterpret_cast<Sums<N> *>(slots != nullptr ? slots : queue_of(device).sum_slots(N * shape.slots() * sources)),
        shape, queue_of(device).waits()};
}

// The sum that the previous launch deferred, and how to finish it. This launch may read what finish writes only by
// await.
template <int N, class Last> struct Pending {
    GlobalSum<N> sum;
    Last finish;
    MILCGPU_HD bool any() const { return sum.slots != nullptr; }
    // Number of blocks that add the sum; each group takes 64 threads.
    int blocks(int threads) const {
        const int groups_a_block = threads / tile_sites;
        return any() ? (sum.shape.groups + groups_a_block - 1) / groups_a_block : 0;
    }
};
struct NothingPending {
    MILCGPU_HD bool any() const { return false; }
    int blocks(int) const { return 0; }
};
// One of two pending sums, if only the launch knows which: at most one has slots. So one kernel serves both, instead of
// two.
template <class First, class Second> struct EitherPending {
    First first;
    Second second;
    MILCGPU_HD bool any() const { return first.any() || second.any(); }
    int blocks(int threads) const { return first.blocks(threads) + second.blocks(threads); }
};

template <int N, class Last> Pending<N, Last> none_of(Pending<N, Last> pending) {
    pending.sum.slots = nullptr;
    return pending;
}
inline NothingPending none_of(NothingPending) { return {}; }
template <class First, class Second> EitherPending<First, Second> none_of(const EitherPending<First, Second> &pending) {
    return {none_of(pending.first), none_of(pending.second)};
}

} // namespace milcgpu

#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/machine/backend/reduce_cuda.h"
#endif

namespace milcgpu {

namespace host {

// Adds a tile in place, by the same tree as the GPU.
template <int N> Sums<N> tile_sum(Sums<N> *s) {
    for (int warp = 0; warp < tile_sites; warp += 32)
        for (int offset = 16; offset > 0; offset /= 2)
            for (int k = 0; k < offset; ++k)
                s[warp + k].add(s[warp + k + offset]);
    s[0].add(s[32]);
    return s[0];
}

template <int N> Sums<N> block_sum(const Sums<N> *values, int count) {
    Sums<N> lanes[tile_sites] = {};
    for (int k = 0; k < count; ++k)
        lanes[k % tile_sites].add(values[k]);
    return tile_sum<N>(lanes);
}

// A body may do Body::sites_at_once sites at once: body(first site, the sums of each). Their number divides the tile
// and n.
template <class Body, class = void> struct at_once_of : std::integral_constant<int, 1> {};
template <class Body>
struct at_once_of<Body, std::void_t<decltype(Body::sites_at_once)>> : std::integral_constant<int, Body::sites_at_once> {
};

// Calls body(i) for all i of a tile, and adds them by the same tree as the GPU.
template <int N, class Body> Sums<N> sum_of_tile(int tile, int n, const Body &body) {
    Sums<N> lanes[tile_sites] = {};
    constexpr int at_once = at_once_of<Body>::value;
    for (int k = 0; k < tile_sites && tile * tile_sites + k < n; k += at_once)
        if constexpr (at_once > 1)
            body(tile * tile_sites + k, lanes + k);
        else
            lanes[k] = body(tile * tile_sites + k);
    return tile_sum<N>(lanes);
}

// The part of a body of several sources that does one of them.
template <class Body, class = void> struct has_source : std::false_type {};
template <class Body>
struct has_source<Body, std::void_t<decltype(std::declval<Body>().of_source(0))>> : std::true_type {};
template <class Body> auto of_source(const Body &body, int source) {
    if constexpr (has_source<Body>::value)
        return body.of_source(source);
    else
        return [&body, source](int i) { return body(i, source); };
}

template <int N> Sums<N> add_up(const GlobalSum<N> &sum) {
    for (int group = 0; group < sum.shape.groups; ++group)
        sum.groups()[group] =
            block_sum<N>(sum.slots + group * group_tiles, std::min(group_tiles, sum.shape.tiles - group * group_tiles));
    return sum.shape.groups > 1 ? block_sum<N>(sum.groups(), sum.shape.groups) : sum.groups()[0];
}

template <int N> Sums<N> add_up(Device &device, const GlobalSum<N> &sum) {
    Sums<N> total = add_up(sum);
    queue_of(device).add_over_ranks(total.v, N);
    return total;
}

template <int N, class Last> void finish_pending(Device &device, const Pending<N, Last> &pending) {
    if (pending.any())
        pending.finish(add_up(device, pending.sum));
}
inline void finish_pending(Device &, NothingPending) {}
template <class First, class Second> void finish_pending(Device &device, const EitherPending<First, Second> &pending) {
    finish_pending(device, pending.first);
    finish_pending(device, pending.second);
}

[[noreturn]] inline void refuse(const char *what) {
    throw Error(Status::not_built, format("%s: this kernel is built for GPUs alone", what));
}

template <int N, class Body, class Last, class Before>
void run_sum(Device &device, int n, const Body &body, const Last &finish, const int *gate, const GlobalSum<N> &sum,
             bool defer, const Before &pending) {
    if (gate != nullptr && *gate == 0)
        return;
    finish_pending(device, pending);
    for_each_on_host(sum.shape.tiles, n >= few_sites,
                     [&](int tile) { sum.slots[tile] = sum_of_tile<N>(tile, n, body); });
    if (finish.wanted() && !defer)
        finish(add_up(device, sum));
}

} // namespace host

// Parameters of a launch that sums.
struct SumLaunch {
    const char *what;
    const int *gate = nullptr; // a flag on the device; 0 there skips the whole launch
    int block = 128;           // threads a block on the GPU
    double *defer = nullptr; // slots for a sum that the next launch gets as `pending`; nullptr: this launch finishes it
    bool starts_early = true; // false: the previous launch may write what the body prepares from
    SlicesRead read = {};     // by a stencil whose tiles may be taken in another order
};

// If the data that a body reads do not fit in the L2 cache, it can have its tiles taken in another order:
// Body::ordered. A body with three kernels (kernels_of) then has one more. Other bodies have no code for the order.
// That code cost D on several Wilson sources 4 % in half precision and up to 3 % in single, on one Wilson source 1.2 %
// in half and 1 % in single; D on one staggered source up to 1.4 % in half.
template <class Body, class = void> struct orders_tiles : std::false_type {};
template <class Body> struct orders_tiles<Body, std::enable_if_t<Body::ordered>> : std::true_type {};
template <class Body> using OrderOf = std::conditional_t<orders_tiles<Body>::value, TileOrder, AsTheyLie>;

// any: no block finishes a sum. A block that finishes one waits for lower tiles, which must have started before it.
inline TileOrder order_of_launch(const Device &device, int n, int a_tile, const SlicesRead &read, bool any) {
    return any ? order_of_tiles(device, n, a_tile, read) : TileOrder{};
}

// A heavy body can be split: several threads then share a site. It has Body::Part, part(i, k) and complete(i, sum of
// the parts) besides operator(). It is split if there are too few sites to fill the GPU (Device::parts_below()).
template <class Body, class = void> struct has_parts : std::false_type {};
template <class Body> struct has_parts<Body, std::void_t<typename Body::Part>> : std::true_type {};

// A body can have several kernels that do the same: Body::kernels is their number, kernel() selects one (from 0), and
// of_kernel<k>(i) runs it; of_kernel<0>(i) equals operator()(i). As branches of one kernel they cost each other about 1
// %.
template <class Body, class = void> struct kernels_of : std::integral_constant<int, 1> {};
template <class Body>
struct kernels_of<Body, std::void_t<decltype(Body::kernels)>> : std::integral_constant<int, Body::kernels> {};

// A body over the sites of a cut box takes part in exchanges with peers: it has a member `exchange`.
template <class Body, class = void> struct exchanges : std::false_type {};
template <class Body> struct exchanges<Body, std::void_t<decltype(Body::exchange)>> : std::true_type {};

// A body with on_host = false has no launch on the host (endings.h).
template <class Body, class = void> struct is_on_host : std::true_type {};
template <class Body>
struct is_on_host<Body, std::void_t<decltype(Body::on_host)>> : std::bool_constant<Body::on_host> {};

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// Finishes a sum whose warps have posted. If the ranks do not reach each other's memory, the host adds the sums of all
// ranks.
template <int N, class Last>
void finish_over_ranks(Device &device, const GlobalSum<N> &sum, const Last &finish, const int *gate) {
    const int blocks = Pending<N, Last>{sum, finish}.blocks(max_block);
    if (!queue_of(device).needs_host())
        return start(device, "launch the end of a sum", blocks, max_block, finish_deferred<N, Last>, finish, sum,
                     queue_of(device).peers(), gate);
    Sums<N> *const total = reinterpret_cast<Sums<N> *>(queue_of(device).sums_of_rank());
    Sums<N> on_host;
    start(device, "launch the sum of a rank", blocks, max_block, add_slots<N>, sum, total, gate);
    queue_of(device).copy_to_host(&on_host, total, sizeof on_host);
    queue_of(device).add_over_ranks(on_host.v, N);
    queue_of(device).copy_to_device(total, &on_host, sizeof on_host);
    start(device, "launch the end of a sum", 1, 1, finish_with<N, Last>, finish, total, gate);
}
template <int N, class Last> void finish_over_ranks(Device &device, const Pending<N, Last> &pending, const int *gate) {
    if (pending.any())
        finish_over_ranks(device, pending.sum, pending.finish, gate);
}
inline void finish_over_ranks(Device &, NothingPending, const int *) {}
template <class First, class Second>
void finish_over_ranks(Device &device, const EitherPending<First, Second> &pending, const int *gate) {
    finish_over_ranks(device, pending.first, gate);
    finish_over_ranks(device, pending.second, gate);
}

// Starts a launch that sums: start(finish later, pending). with_peers: it takes part in exchanges with peers. If a
// launch cannot finish sums over the ranks, the pending sum is finished before this launch and its own sum after it.
template <bool with_peers, int N, class Last, class Before, class Start>
void start_sum(Device &device, const GlobalSum<N> &sum, const Last &finish, const SumLaunch &how, const Before &pending,
               const Start &start) {
    const bool defer = how.defer != nullptr;
    if (queue_of(device).ranks() == nullptr && !with_peers)
        return start(defer, pending);
    if (with_peers && !queue_of(device).needs_host()) {
        start(true, pending);
    } else {
        finish_over_ranks(device, pending, how.gate);
        start(true, none_of(pending));
    }
    if (!defer && finish.wanted())
        finish_over_ranks(device, sum, finish, how.gate);
}

// Finishes the sums of several sources at once.
template <int N, class Last>
void finish_sources_over_ranks(Device &device, const GlobalSum<N> &sum, const ActiveSources &active, const Last &finish,
                               int sources) {
    const int blocks = Pending<N, Last>{sum, finish}.blocks(max_block);
    if (N * sources > most_sums)
        throw Error(Status::bad_argument, format("%d sums of %d sources at once: at most %d", N, sources, most_sums));
    Sums<N> *const totals = reinterpret_cast<Sums<N> *>(queue_of(device).sums_of_rank());
    start(device, "launch the sums of a rank", blocks * sources, max_block, add_slots_of_sources<N>, active, sum,
          blocks, totals);
    if (queue_of(device).needs_host()) {
        double on_host[most_sums];
        queue_of(device).copy_to_host(on_host, totals, sources * sizeof *totals);
        queue_of(device).add_over_ranks(on_host, N * sources);
        queue_of(device).copy_to_device(totals, on_host, sources * sizeof *totals);
    }
    start(device, "launch the ends of sums", 1, max_block, finish_sources<N, Last>, active, finish, sources, totals,
          queue_of(device).peers());
}

} // namespace cuda
#endif

// finish(sum over i of body(i)). min_blocks: blocks of 256 threads that must fit on an SM, which limits the registers
// of a thread.
template <int N, int min_blocks = 1, class Body, class Last, class Before = NothingPending>
void launch_sum(Device &device, int n, const Body &body, const Last &finish, const SumLaunch &how,
                const Before &pending = {}) {
    const GlobalSum<N> sum = global_sum<N>(device, n, how.defer);
    const bool defer = how.defer != nullptr;
    constexpr bool parts_exist = has_parts<Body>::value;
    const bool in_parts = parts_exist && n < queue_of(device).parts_below();
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        const int threads = in_parts                       ? site_parts * tile_sites
                            : queue_of(device).block() > 0 ? queue_of(device).block()
                                                           : how.block;
        const int sites_a_block = in_parts ? tile_sites : threads;
        const auto start = [&](bool finish_later, const Before &before) {
            const int pending_blocks = before.blocks(threads);
            const int blocks = pending_blocks + (n + sites_a_block - 1) / sites_a_block;
            if constexpr (exchanges<Body>::value) {
                auto *kernel = in_parts ? cuda::run_sum_cut<N, min_blocks, true, Body, Before>
                                        : cuda::run_sum_cut<N, min_blocks, false, Body, Before>;
                cuda::start(device, how.what, blocks, threads, kernel, body, n, sum, finish.wanted(), how.gate,
                            pending_blocks, before);
            } else {
                const TileOrder order = order_of_launch(device, n, threads, how.read, finish_later || !finish.wanted());
                const auto start_in = [&](auto *kernel, const auto &tiles) {
                    cuda::start_as(device, how.what, blocks, threads, 0, how.starts_early, kernel, body, finish, n, sum,
                                   finish_later, how.gate, pending_blocks, before, tiles);
                };
                if constexpr (kernels_of<Body>::value == 3)
                    if (order.part > 0 && !in_parts)
                        return start_in(cuda::run_sum<N, min_blocks, 0, Body, Last, Before, TileOrder>, order);
                using Order = OrderOf<Body>;
                auto *kernel = cuda::run_sum<N, min_blocks, 0, Body, Last, Before, Order>;
                if constexpr (kernels_of<Body>::value == 3)
                    kernel = body.kernel() == 1   ? cuda::run_sum<N, min_blocks, 1, Body, Last, Before, Order>
                             : body.kernel() == 2 ? cuda::run_sum<N, min_blocks, 2, Body, Last, Before, Order>
                                                  : kernel;
                if constexpr (parts_exist)
                    kernel = in_parts ? cuda::run_sum_in_parts<N, Body, Last, Before, Order> : kernel;
                start_in(kernel, Order(order));
            }
        };
        return cuda::start_sum<exchanges<Body>::value>(device, sum, finish, how, pending, start);
    }
#endif
    queue_of(device).about_to(how.what);
    if constexpr (!is_on_host<Body>::value) {
        host::refuse(how.what);
    } else {
        if constexpr (parts_exist)
            if (in_parts) {
                const auto by_parts = [&body](int i) { // in the same order as the GPU
                    auto part = body.part(i, 0);
                    for (int k = 1; k < site_parts; ++k)
                        part = part + body.part(i, k);
                    return body.complete(i, part);
                };
                return host::run_sum<N>(device, n, by_parts, finish, how.gate, sum, defer, pending);
            }
        host::run_sum<N>(device, n, body, finish, how.gate, sum, defer, pending);
    }
}

// finish(sum over i of body(i, source), source) for each source in [0, sources) with body.open(source); body.active()
// must agree with open(). On the GPU a thread does Body::together sources at a site; for more than one it calls
// body.of(i, first, open, sums), which skips sources that are not open and loads shared data (links) once. read: as in
// SumLaunch.
template <int N, int min_blocks, class Body, class Last>
void launch_sum_sources(Device &device, int n, int sources, const Body &body, const Last &finish, const char *what,
                        [[maybe_unused]] const SlicesRead &read = {}) {
    const GlobalSum<N> sum = global_sum<N>(device, n, nullptr, sources);
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        const int threads = (sources + Body::together - 1) / Body::together; // for a site
        const int groups = (threads + sources_a_block - 1) / sources_a_block, a_block = (threads + groups - 1) / groups;
        const bool finish_later = queue_of(device).ranks() != nullptr;
        cuda::start(device, what, sum.shape.tiles * groups, a_block * tile_sites,
                    cuda::run_sum_sources<N, min_blocks, Body, Last, OrderOf<Body>>, body, finish, n, sources, groups,
                    sum, finish_later,
                    OrderOf<Body>(order_of_launch(device, n, tile_sites, read, finish_later || !finish.wanted())));
        if (finish_later && finish.wanted())
            cuda::finish_sources_over_ranks(device, sum, body.active(), finish, sources);
        return;
    }
#endif
    queue_of(device).about_to(what);
    if constexpr (!is_on_host<Body>::value) {
        host::refuse(what);
    } else {
        // A tile's links stay in the cache for all sources.
        for_each_on_host(sum.shape.tiles, int64_t{n} * sources >= few_sites, [&](int tile) {
            for (int source = 0; source < sources; ++source)
                if (body.open(source))
                    sum.of_source(source).slots[tile] = host::sum_of_tile<N>(tile, n, host::of_source(body, source));
        });
        for (int source = 0; source < sources && finish.wanted(); ++source)
            if (body.open(source))
                finish(host::add_up(device, sum.of_source(source)), source);
    }
}

// Several sources without sums. On the GPU a thread does up to Body::together sources of a site, an even number, and
// loads links once for them: body.of(i, which). Threads share the sources evenly. Body::blocks(count): blocks of 64
// threads that must fit on an SM. gate: as in SumLaunch. order: the order of tiles of tile_sites.
template <class Body>
void launch_sources(Device &device, int n, int sources, const Body &body, const int *gate,
                    [[maybe_unused]] const TileOrder &order, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        const int threads = (sources + Body::together - 1) / Body::together; // least number of threads for a site
        const int a_thread = (sources + 2 * threads - 1) / (2 * threads) * 2;
        const int groups = (sources + a_thread - 1) / a_thread;
        cuda::start(device, what, order.count * groups, tile_sites, cuda::kernel_of_sources<Body>(a_thread), body, n,
                    sources, gate, order);
        return;
    }
#endif
    queue_of(device).about_to(what);
    if constexpr (!is_on_host<Body>::value) {
        host::refuse(what);
    } else {
        if (gate != nullptr && *gate == 0)
            return;
        constexpr int at_once = host::at_once_of<Body>::value;
        // A tile's links stay in the cache for all sources.
        for_each_on_host((n + tile_sites - 1) / tile_sites, int64_t{n} * sources >= few_sites, [&](int tile) {
            const int first = tile * tile_sites;
            for (int source = 0; source < sources; ++source)
                for (int i = first; i < std::min(n, first + tile_sites); i += at_once)
                    body.of(std::conditional_t<(at_once > 1), SitesAtOnce, int>{i}, Sources<1>{source, 0, false});
        });
    }
}

} // namespace milcgpu
