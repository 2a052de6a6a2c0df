// The start of a context: settings, what the ranks compare, the device.
#include "milc_glue/api/start_context.h"
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "milc_glue/api/checksum_room.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/settings.h"
#include "milc_glue/api/sized.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <omp.h>
#include <unistd.h>

using namespace milcgpu;

namespace {

Backend choose_backend(int asked) {
    if (asked != MILCGPU_AUTO && asked != MILCGPU_CUDA && asked != MILCGPU_HOST)
        refuse(format("options.backend is %d: must be MILCGPU_AUTO, MILCGPU_CUDA or MILCGPU_HOST", asked));
    const std::string choice = asked == MILCGPU_CUDA   ? "cuda"
                               : asked == MILCGPU_HOST ? "host"
                                                       : setting("MILCGPU_BACKEND");
    return choice == "cuda" || (choice == "auto" && Device::gpu_count() > 0) ? Backend::cuda : Backend::host;
}

int choose_verbosity(int asked) {
    if (asked < -1 || asked > 2)
        refuse(format("options.verbosity is %d: must be 0, 1 or 2, or -1 for MILCGPU_VERBOSE", asked));
    return asked >= 0 ? asked : std::stoi(setting("MILCGPU_VERBOSE"));
}

GpuMessages choose_gpu_messages() {
    const std::string choice = setting("MILCGPU_GPU_MPI");
    return choice == "0"      ? GpuMessages::never
           : choice == "1"    ? GpuMessages::tried
           : choice == "step" ? GpuMessages::in_steps
                              : GpuMessages::where_supported;
}

Learns choose_learns(int asked) {
    if (asked != 0 && asked != 1)
        refuse(format("options.learn is %d: must be 0 or 1", asked));
    if (asked == 0 || setting("MILCGPU_AUTO") != "1")
        return Learns::never;
    return asked_for("learn") ? Learns::soon : Learns::where_it_pays;
}

double choose_time_limit() { return *seconds_of(setting("MILCGPU_TIMEOUT")); }

int choose_emulated(int asked) {
    if (asked < 0 || asked > 15)
        refuse(format("layout.emulate is %d: must be a sum of 1 (X), 2 (Y), 4 (Z) and 8 (T)", asked));
    return asked != 0 ? asked : cut_by_test();
}

// The rest of the start, once the box fits.
void open_device(const milcgpu_layout &layout, const milcgpu_options &options, const RankSettings &mine,
                 milcgpu_context &context) {
    const Box &box = context.box;
    context.geometry = Geometry(box.extent, box.origin, box.whole, halo_depth, box.emulated);
    use_threads_of_rank(layout.messages != nullptr ? layout.messages->node_size : 1);
    context.device = std::make_unique<Device>(static_cast<Backend>(mine.backend),
                                              gpu_of(options.device, layout.messages, Device::gpu_count()));
    context.device->set_block(options.block_size);
    context.device->set_reclaim([&context] { return context.release_idle(); });
    require_threads();
    if (!context.device->on_gpu())
        wait_passively();
    const int sites = context.geometry.volume();
    context.map = SiteMap(*context.device, layout.site_map, sites);
    context.reorder = std::make_unique<SpinorReorder>(*context.device, context.map, context.geometry);
    if (context.ranks->size() > 1)
        context.device->set_ranks(context.ranks.get());
    if (context.geometry.is_cut())
        context.halo = std::make_unique<Halo>(*context.device, *context.ranks, context.geometry, box.neighbour,
                                              static_cast<MessageChecks>(mine.checks));
    context.checksums = {*context.device, checksum_room::all, "checksums"};
    // The largest sums are over the links of one parity, over the spins of one, and over the shifts of a multi-mass
    // solve.
    reserve_sums(*context.device, 4 * static_cast<int>(context.geometry.stride()));
    reserve_sums(*context.device, context.geometry.most_sites(), max_shifts);
}

// Describes how ghosts and sums travel. share: ranks may share a GPU.
std::string open_halo(milcgpu_context &context, bool share) {
    Ranks &ranks = *context.ranks;
    LocalRank place{};
    std::snprintf(place.text, sizeof place.text, "%s", context.device->place().c_str());
    std::string refused;
    try {
        if (share)
            require_a_gpu_each(ranks.gathered("the start", place));
    } catch (const Error &) {
        refused = "ranks share a GPU (MILCGPU_TEST=share_gpu), where no kernel may wait for another rank";
    }
    Reaching reaching = Reaching::memory_of_gpus;
    GpuMessages gpu_messages = GpuMessages::where_supported;
    ranks.collective("the start", [&] {
        const std::string direct = setting("MILCGPU_DIRECT");
        reaching = direct == "1"      ? Reaching::memory_of_gpus
                   : direct == "host" ? Reaching::memory_of_host
                                      : Reaching::messages;
        gpu_messages = choose_gpu_messages();
    });
    return context.halo->open(refused, reaching, gpu_messages);
}

} // namespace

void milcgpu::check_versions(const std::vector<Version> &versions) {
    for (size_t rank = 1; rank < versions.size(); ++rank)
        if (std::strncmp(versions[rank].text, versions[0].text, sizeof versions[0].text) != 0)
            refuse(format("rank %zu of %zu has milcgpu %.31s, rank 0 has %.31s: load the same library on all hosts",
                          rank, versions.size(), versions[rank].text, versions[0].text));
}

void milcgpu::require_alike_settings(const std::vector<RankSettings> &facts) {
    std::vector<Box> boxes;
    for (size_t rank = 0; rank < facts.size(); ++rank) {
        const RankSettings &here = facts[rank], &there = facts[0];
        if (here.backend != there.backend)
            refuse(format("rank %zu of %zu would run on the %s backend, rank 0 on %s: set MILCGPU_BACKEND on all of "
                          "them, or make sure that each has a GPU",
                          rank, facts.size(), name(static_cast<Backend>(here.backend)),
                          name(static_cast<Backend>(there.backend))));
        for (const auto &[name, mine, theirs] :
             {std::make_tuple("MILCGPU_VERIFY", here.verify, there.verify),
              std::make_tuple("the check of messages (MILCGPU_TEST)", here.checks, there.checks)})
            if (mine != theirs)
                refuse(format("%s is %d on rank %zu of %zu, and %d on rank 0: set the same value on all ranks", name,
                              mine, rank, facts.size(), theirs));
        boxes.push_back(here.box);
    }
    check_boxes(boxes);
}

void milcgpu::require_a_gpu_each(const std::vector<LocalRank> &places) {
    for (size_t rank = 0; rank < places.size(); ++rank)
        for (size_t before = 0; before < rank && places[rank].text[0] != '\0'; ++before)
            if (std::strncmp(places[rank].text, places[before].text, sizeof places[rank].text) == 0)
                refuse(format("ranks %zu and %zu of %zu are both on %.127s: start as many ranks a host as it has GPUs, "
                              "or give each rank its own GPU (MILCGPU_DEVICE, CUDA_VISIBLE_DEVICES); "
                              "MILCGPU_TEST=share_gpu allows it, for tests",
                              before, rank, places.size(), places[rank].text));
}

int milcgpu::gpu_of(int asked, const milcgpu_messages *messages, int gpus) {
    if (asked != -1)
        return asked;
    return messages != nullptr && gpus > 0 ? messages->node_rank % gpus : 0;
}

int milcgpu::threads_of(const char *said, int node_ranks, int now, int cores) {
    return said != nullptr || node_ranks < 2 ? now : std::max(1, std::min(now, cores / node_ranks));
}
void milcgpu::use_threads_of_rank(int node_ranks) {
    omp_set_num_threads(threads_of(std::getenv("OMP_NUM_THREADS"), node_ranks, omp_get_max_threads(),
                                   static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))));
}

Box milcgpu::box_of(const milcgpu_layout &layout, int rank) {
    Box box;
    std::copy(layout.extent, layout.extent + 4, box.extent.begin());
    std::copy(layout.whole, layout.whole + 4, box.whole.begin());
    std::copy(layout.origin, layout.origin + 4, box.origin.begin());
    if (box.whole == std::array<int, 4>{})
        box.whole = box.extent;
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2; ++side)
            box.neighbour[mu][side] = box.cut(mu) ? layout.neighbour[mu][side] : rank;
    box.emulated = choose_emulated(layout.emulate);
    return box;
}

void milcgpu::start_context(const milcgpu_layout &layout, const milcgpu_options *given, milcgpu_context &context) {
    context.ranks = ranks_of(layout.messages);
    Ranks &ranks = *context.ranks;
    constexpr const char *phase = "the start";
    try { // the ranks are told of a wrong limit below
        ranks.set_time_limit(choose_time_limit());
    } catch (const Error &) {
    }
    Version version{};
    std::snprintf(version.text, sizeof version.text, "%s", MILCGPU_VERSION);
    check_versions(ranks.gathered(phase, version));

    milcgpu_options options{};
    RankSettings mine{};
    ranks.collective(phase, [&] {
        options.struct_size = sizeof options;
        options.verbosity = -1;
        if (given != nullptr)
            options = full_copy(given);
        choose_time_limit();
        setting("MILCGPU_DIRECT"), choose_gpu_messages(); // wrong values are refused even if nothing is sent
        context.verbosity = choose_verbosity(options.verbosity);
        context.verify = setting("MILCGPU_VERIFY") == "1";
        context.learns = choose_learns(options.learn);
        mine.checks = static_cast<int>(asked_for("check_halo")       ? MessageChecks::sums
                                       : asked_for("no_check_words") ? MessageChecks::none
                                                                     : MessageChecks::words);
        context.message = options.message;
        context.user = options.user;
        context.box = mine.box = box_of(layout, ranks.rank());
        check_box(mine.box, ranks.rank(), ranks.size());
        mine.backend = static_cast<int>(choose_backend(options.backend));
        mine.verify = context.verify;
    });
    require_alike_settings(ranks.gathered(phase, mine));
    for (const Learns there : ranks.gathered(phase, context.learns))
        context.learns = std::min(context.learns, there);
    ranks.collective(phase, [&] { open_device(layout, options, mine, context); });
    bool share = false;
    ranks.collective(phase, [&] { share = asked_for("share_gpu"); });
    LocalRank place{};
    if (!share)
        std::snprintf(place.text, sizeof place.text, "%s", context.device->place().c_str());
    require_a_gpu_each(ranks.gathered(phase, place));
    const std::string unknown = unknown_names();
    if (!unknown.empty())
        context.log(1, [&] { return unknown; });
    std::string transport;
    if (context.halo)
        transport = open_halo(context, share);
    const bool is_worth_a_line = context.device->on_gpu() || (context.halo && context.halo->tried_gpu_messages());
    if (is_worth_a_line && !transport.empty())
        context.log(1, [&] { return transport; });
    context.log(1, [&] {
        const Box &box = context.box;
        const std::string split =
            ranks.size() == 1 ? "" : format(" on %d ranks, of which rank 0 has %s", ranks.size(), box.text().c_str());
        return format("version %s, lattice %d x %d x %d x %d%s, %s backend: %s", MILCGPU_VERSION, box.whole[0],
                      box.whole[1], box.whole[2], box.whole[3], split.c_str(), name(context.device->backend()),
                      context.device->description().c_str());
    });
}
