// The start of a halo: how ghosts travel, and the order of the tiles of a box.
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/lasting_memory.h"
#include "gpu_kernels/machine/backend/reduce.h"
#include <algorithm>

namespace milcgpu {

Halo::Halo(Device &device, Ranks &ranks, const Geometry &geometry, const std::array<std::array<int, 2>, 4> &neighbour,
           MessageChecks checks)
    : device_(device), ranks_(ranks), geometry_(geometry), neighbour_(neighbour), checks_(checks) {}

// With fewer sites of a parity than this, D uses 4 threads a site (Device::parts_below): then a quarter of a site's
// work waits for ghosts. Two H200s, time of an iteration at 16384 sites: 17 to 44 % less, at 32768 3 to 11 % less.
constexpr int parts_below_with_peers = 33000;

// Afterwards other objects may use the memory for messages (lasting_memory.h).
Halo::~Halo() {
    ranks_.watch(nullptr);
    try {
        device_.make_current();
        device_.synchronize();
    } catch (const Error &) { // a lost GPU reads nothing
    }
}

std::string Halo::open(const std::string &asked, Reaching reaching, GpuMessages gpu_messages) {
    std::string refused =
        checks_ == MessageChecks::sums ? "MILCGPU_TEST=check_halo asks for checksums of messages" : asked;
    const auto &extent = geometry_.lattice().extent; // the place of a ghost follows from the rank's own box
    for (const auto &other :
         ranks_.gathered("the start of direct stores", std::array<int, 4>{extent[0], extent[1], extent[2], extent[3]}))
        if (!std::equal(other.begin(), other.end(), extent))
            refused = "there are boxes of several sizes";
    PeerMemory::Wanted wanted{{}, geometry_.ghost_sites(), slot_bytes(), refused, reaching};
    const CutLattice &lattice = geometry_.lattice();
    for (int face = 0; face < Peers::faces; ++face) {
        const int mu = face / 2, side = face % 2;
        wanted.faces[face].rank = -1;
        if (!lattice.cut(mu))
            continue;
        const size_t first = lattice.ghost[mu][side] - lattice.first_ghost;
        wanted.faces[face] = {neighbour_[mu][side], first, first + lattice.depth * lattice.layer[mu]};
    }
    peers_ = std::make_unique<PeerMemory>(device_, ranks_, wanted, ranks_.time_limit());
    device_.set_peers(peers_->on_device());
    if (!by_peers() && ranks_.size() > 1)
        find_gpu_messages(gpu_messages);
    device_.collective("memory for ghosts", [&] {
        if (!by_peers() && !buffers_)
            buffers_.emplace(buffers_in(buffer_bytes(), allocate_for_messages(buffer_bytes())));
        const std::shared_ptr<unsigned char> memory = lasting_memory(device_, Lasting::shared, sizeof(int));
        lost_ = {memory, reinterpret_cast<int *>(memory.get())};
        *lost_ = 0;
        ranks_.watch(lost_.get());
        make_orders();
    });
    if (device_.peers() != nullptr)
        device_.set_parts_below(parts_below_with_peers);
    return how_it_travels();
}

void Halo::find_gpu_messages(GpuMessages asked) {
    std::string why = why_no_gpu_messages(ranks_, asked);
    tried_gpu_messages_ = why.empty();
    if (tried_gpu_messages_) {
        MessageMemory scratch;
        std::string refused;
        gpu_messages_ = true;
        try {
            scratch = allocate_for_messages(buffer_bytes());
        } catch (const Error &error) {
            refused = error.what();
        }
        std::array<int, Peers::faces> neighbour;
        for (int face = 0; face < Peers::faces; ++face)
            neighbour[face] = geometry_.lattice().cut(face / 2) ? neighbour_[face / 2][face % 2] : -1;
        const GpuMessagesFound found =
            try_gpu_messages(device_, ranks_, neighbour, scratch.sent, scratch.received, slot_bytes(), refused);
        gpu_messages_ = found.work;
        why = found.why;
        if (gpu_messages_)
            buffers_.emplace(buffers_in(buffer_bytes(), scratch));
        if (gpu_messages_ && peers_->relays()) {
            const GpuMessagesFound in_steps =
                peers_->try_gpu_messages_in_steps(asked, neighbour, scratch.sent, scratch.received, slot_bytes());
            why += in_steps.work ? "; in the steps of a solve, too, where kernels wait for them"
                                 : "; in the steps of a solve through memory that GPU and host share: " + in_steps.why;
        }
    }
    std::string directions;
    for (int mu = 0; mu < 4; ++mu)
        if (geometry_.cut(mu) && neighbour_[mu][0] != ranks_.rank())
            directions += std::string(directions.empty() ? "" : ", ") + "xyzt"[mu];
    how_messages_travel_ = format("; messages in %s: %s (%s)", directions.c_str(),
                                  gpu_messages_      ? "from GPU memory into GPU memory"
                                  : device_.on_gpu() ? "through pinned memory of the host"
                                                     : "through memory of the host",
                                  why.c_str());
}

std::string Halo::how_it_travels() const {
    const PeerMemory::Reached &reached = peers_->reached();
    const auto listed = [&](const auto &wanted) {
        std::string list;
        for (int mu = 0; mu < 4; ++mu)
            if (geometry_.cut(mu) && wanted(mu))
                list += std::string(list.empty() ? "" : ", ") + "xyzt"[mu];
        return list;
    };
    const std::string cut = "cut in " + listed([](int) { return true; }) + ": ";
    if (!peers_->why_not().empty())
        return cut + "ghosts and sums go over the host: " + peers_->why_not() + how_messages_travel_;
    if (reached.by_host)
        return cut + "kernels store ghosts and sums into memory of the host that the ranks share: " + reached.why;
    if (reached.sums)
        return cut + "kernels store ghosts and sums into the memory of the other ranks";
    const std::string direct = listed([&](int mu) { return reached.direct[mu] == reached.all[mu]; });
    std::string how = direct.empty() ? "" : "ghosts in " + direct + " go straight into the memory of the neighbours; ";
    for (int mu = 0; mu < 4; ++mu)
        if (reached.direct[mu] != 0 && reached.direct[mu] != reached.all[mu])
            how += format("ghosts in %c do so at %d of %d faces; ", "xyzt"[mu], reached.direct[mu], reached.all[mu]);
    return cut + how + (how.empty() ? "ghosts and sums go" : "all else goes") +
           " over the host while kernels work: " + reached.why + how_messages_travel_;
}

Tiles Halo::tiles(Tiles::Which which) const {
    return {which, geometry_.lattice().depth, which == Tiles::Which::inner && by_peers()};
}

// With a smaller share of inner tiles, an exchange of several sources does not run beside D.
constexpr double enough_inner = 0.3;

// A tile has sites that a neighbour needs exactly if it needs sites of that neighbour. Such tiles run after some of the
// other tiles: by then the neighbours' ghosts have arrived, and the rest of the other tiles hides the time of sending.
void Halo::make_orders() {
    // Ghosts that a relay passes on arrive last, ghosts over a bus later than ghosts from GPU to GPU.
    const double others_before = peers_->relays() ? 1 : peers_->reached().by_host ? 0.6 : 0.4;
    const CutLattice &lattice = geometry_.lattice();
    const bool in_t_alone = lattice.cut(3) && !lattice.cut(0) && !lattice.cut(1) && !lattice.cut(2);
    for (int parity = 0; parity < 2; ++parity) {
        std::vector<int> inner, near;
        for (int tile = 0; tile * tile_sites < lattice.sites(parity); ++tile) {
            bool at_boundary = false;
            for (int i = tile * tile_sites; i < std::min((tile + 1) * tile_sites, lattice.sites(parity)); ++i)
                at_boundary |= lattice.near_cut(lattice.site(parity, i));
            (at_boundary ? near : inner).push_back(tile);
        }
        goes_beside_[parity] = device_.on_gpu() && in_t_alone &&
                               lattice.volume() % (2 * tile_sites * lattice.extent[3]) == 0 &&
                               inner.size() > enough_inner * (inner.size() + near.size());
        if (device_.peers() == nullptr)
            continue;
        const int before = static_cast<int>(others_before * inner.size()), near_tiles = static_cast<int>(near.size());
        PeerLaunch &launch = launches_[parity];
        launch = {peers_->map(parity), nullptr, before, before + near_tiles, 0, static_cast<int>(inner.size()), false,
                  peers_->relays()};
        while (launch.low < near_tiles && near[launch.low] == launch.low)
            ++launch.low;
        std::vector<int> order(inner.begin(), inner.begin() + before);
        order.insert(order.end(), near.begin(), near.end());
        order.insert(order.end(), inner.begin() + before, inner.end());
        bool known = true;
        for (size_t turn = 0; turn < order.size(); ++turn)
            known = known && launch.tile(static_cast<int>(turn)) == order[turn];
        if (known)
            continue;
        tiles_[parity] = DeviceArray<int>(device_, order.size(), "order of a box's sites");
        device_.copy_to_device(tiles_[parity].data(), order.data(), tiles_[parity].bytes());
        launch.tiles = tiles_[parity].data();
    }
}

} // namespace milcgpu
