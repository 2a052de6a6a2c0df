#include "milc_glue/routines/rank_start.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/start_context.h"
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace milcgpu {

namespace {

// Variables that all ranks share and that are set, one NAME=value in each line.
std::string shared_environment() {
    std::string text;
    for (const Setting &setting : setting_table()) {
        const char *value = std::getenv(setting.name);
        if (value != nullptr && std::string(setting.name) != "MILCGPU_DEVICE")
            text += format("%s=%s\n", setting.name, value);
    }
    return text;
}

void set_shared_environment(const std::string &text) {
    for (const Setting &setting : setting_table())
        if (std::string(setting.name) != "MILCGPU_DEVICE")
            unsetenv(setting.name);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t at = line.find('=');
        setenv(line.substr(0, at).c_str(), line.c_str() + at + 1, 1);
    }
}

} // namespace

void join_ranks(Plugin &p, const milcgpu_milc &milc) {
    p.collective.join(ranks_of(milc.decisions), time_limit());
    p.end_all = milc.decisions != nullptr ? milc.decisions->abort : nullptr;
    p.end_all_user = milc.decisions != nullptr ? milc.decisions->user : nullptr;
    p.node_rank = milc.decisions != nullptr ? milc.decisions->node_rank : 0;
    p.collective.begin_call();
}

std::string take_settings(Plugin &p) {
    if (p.collective.size() > 1) {
        const std::string mine = shared_environment(), shared = p.collective.of_rank_0(mine);
        const std::vector<int> differ = p.collective.gathered(static_cast<int>(mine != shared));
        const auto first = std::find(differ.begin(), differ.end(), 1);
        if (first != differ.end()) {
            const long others = std::count(differ.begin(), differ.end(), 1) - 1;
            p.log(0, format("settings (MILCGPU_...) of %s%s differ from those of rank 0, which are used on all ranks",
                            p.collective.name(static_cast<int>(first - differ.begin())).c_str(),
                            others > 0 ? format(" and of %ld more", others).c_str() : ""));
        }
        if (mine != shared)
            set_shared_environment(shared);
        p.collective.set_time_limit(time_limit());
    }
    try {
        p.settings = Settings::of_environment();
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

void take_lattice(Plugin &p, const milcgpu_milc &milc) {
    const int *extent = milc.extent, *origin = milc.origin;
    p.precision = milc.precision;
    p.sites = extent[0] * extent[1] * extent[2] * extent[3];
    const int odd_origin = (origin[0] + origin[1] + origin[2] + origin[3]) % 2;
    p.even_sites = (p.sites + 1 - odd_origin) / 2; // with odd extents, one more site of the origin's parity
    p.site_map.assign(milc.site_map, milc.site_map + p.sites);
    p.layout = {};
    p.layout.struct_size = sizeof p.layout;
    std::copy(extent, extent + 4, p.layout.extent);
    if (milc.ranks == 1)
        return;
    std::copy(milc.whole, milc.whole + 4, p.layout.whole);
    std::copy(origin, origin + 4, p.layout.origin);
    std::copy(&milc.neighbour[0][0], &milc.neighbour[0][0] + 8, &p.layout.neighbour[0][0]);
    p.layout.messages = milc.messages;
}

std::array<int, 4> best_cut(const int whole[4], int ranks, int least) {
    std::array<int, 4> best{};
    double fewest = 0;
    for (int x = 1; x <= ranks; ++x)
        for (int y = 1; y <= ranks / x; ++y)
            for (int z = 1; z <= ranks / x / y; ++z) {
                const std::array<int, 4> cuts{x, y, z, ranks / (x * y * z)};
                bool fits = cuts[0] * cuts[1] * cuts[2] * cuts[3] == ranks;
                double faces = 0; // sites on one side of every cut, divided by sites of the box
                for (int mu = 0; mu < 4; ++mu) {
                    fits = fits && whole[mu] % cuts[mu] == 0 && (cuts[mu] == 1 || whole[mu] / cuts[mu] >= least);
                    faces += cuts[mu] > 1 ? static_cast<double>(cuts[mu]) / whole[mu] : 0;
                }
                if (fits && (best[0] == 0 || faces < fewest)) { // x is the outermost loop: few cuts of it come first
                    best = cuts;
                    fewest = faces;
                }
            }
    return best;
}

std::string refusal_of_cut(const milcgpu_milc &milc) {
    int mu = 0;
    while (mu < 4 && (milc.ranks == 1 || milc.extent[mu] == milc.whole[mu] || milc.extent[mu] >= halo_depth))
        ++mu;
    if (mu == 4)
        return "";
    const std::array<int, 4> cut = best_cut(milc.whole, milc.ranks, halo_depth);
    const std::string advice =
        cut[0] == 0 ? format("No cut of this lattice into %d boxes leaves so many: use fewer ranks", milc.ranks)
                    : format("-geom %d %d %d %d (-qmp-geom with QMP) fits", cut[0], cut[1], cut[2], cut[3]);
    return format("a rank has %d x %d x %d x %d sites: a direction that is cut needs %d of them, the reach of the long "
                  "links. %s",
                  milc.extent[0], milc.extent[1], milc.extent[2], milc.extent[3], halo_depth, advice.c_str());
}

std::string rank_table(Plugin &p) {
    struct Line {
        char host[64], device[192];
        int origin[4];
    } line{};
    gethostname(line.host, sizeof line.host - 1);
    const std::string place = p.context->device->place(); // "the GPU at 0000:1a:00, NUMA node 1 of host a"
    std::snprintf(line.device, sizeof line.device, "%s%s%s", milcgpu_context_device_name(p.context),
                  place.empty() ? "" : "; ", place.substr(0, place.rfind(" of host ")).c_str());
    std::copy(p.layout.origin, p.layout.origin + 4, line.origin);
    const int *extent = p.layout.extent;
    std::string text = format("%d ranks, each with %d x %d x %d x %d sites\n%6s  %-20s %-24s %s\n", p.collective.size(),
                              extent[0], extent[1], extent[2], extent[3], "rank", "first site", "host", "device");
    const std::vector<Line> lines = p.collective.gathered(line);
    for (size_t rank = 0; rank < lines.size(); ++rank) {
        const Line &l = lines[rank];
        const std::string first = format("(%d, %d, %d, %d)", l.origin[0], l.origin[1], l.origin[2], l.origin[3]);
        text += format("%6zu  %-20s %-24s %s\n", rank, first.c_str(), l.host, l.device);
    }
    return text;
}

} // namespace milcgpu
