// The plugin for MILC on ranks, one for each process, as in a job.
#include "milc_glue/api/start_context.h"
#include "milc_glue/routines/state.h"
#include "tests/mpi_ranks/parts.h"
#include "tests/sized.h"
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <thread>

using namespace milcgpu;

// MILC's (milc.c), which the linker replaces by the glue's.
extern "C" void initialize_machine(int *argc, char ***argv);
extern "C" void terminate(int status);
extern "C" void milcgpu_describe_ranks(milcgpu_milc *milc);

namespace {

// A MILC with the lattice of 4 x 4 x 4 x 4N, cut in t.
struct Milc {
    std::vector<int> order = std::vector<int>(256);
    milcgpu_milc milc = tests::sized<milcgpu_milc>();

    Milc(const milcgpu_messages &library, const milcgpu_messages &decisions) {
        std::iota(order.begin(), order.end(), 0);
        milc.header_version = MILCGPU_VERSION;
        milc.milc = "a test";
        milc.precision = 2;
        milc.ranks = library.size, milc.rank = library.rank;
        milc.messages = &library, milc.decisions = &decisions;
        for (int mu = 0; mu < 4; ++mu)
            milc.extent[mu] = milc.whole[mu] = 4;
        milc.whole[3] *= library.size;
        milc.origin[3] = 4 * library.rank;
        milc.neighbour[3][0] = (library.rank + library.size - 1) % library.size;
        milc.neighbour[3][1] = (library.rank + 1) % library.size;
        milc.own_routines = 1;
        milc.report_sizes = milcgpu_sizes_of_reports();
        milc.site_map = order.data();
    }
};

} // namespace

int start_as_milc(const milcgpu_messages &library, const milcgpu_messages &decisions) {
    const Milc milc(library, decisions);
    return milcgpu_plugin_start(&milc.milc);
}

void start_plugin(const milcgpu_messages &library, const milcgpu_messages &decisions) {
    const bool is_last = library.rank == library.size - 1;
    Milc milc(library, decisions);
    const auto starts = [&] { return milcgpu_plugin_start(&milc.milc); };

    // If one rank cannot start, none does.
    milc.milc.site_map = is_last ? nullptr : milc.order.data();
    check(starts() == 0, "a rank without a site map");
    milc.milc.site_map = milc.order.data();
    if (is_last)
        setenv("MILCGPU_DEVICE", "first", 1);
    check(starts() == 0, "a rank with a device that is none");
    unsetenv("MILCGPU_DEVICE");
    milc.milc.extent[3] -= 2;
    check(starts() == 0, "boxes that are too small");
    milc.milc.extent[3] += 2;
    milc.milc.messages = milc.milc.decisions = nullptr;
    check(starts() == 0, "ranks without messages");
    milc.milc.messages = &library, milc.milc.decisions = &decisions;

    // All ranks use the settings of rank 0, except for the device, which each rank chooses.
    setenv("MILCGPU_PRECISION", is_last ? "single" : "double-single", 1);
    if (is_last)
        setenv("MILCGPU_COMPARE", "strict", 1);
    setenv("MILCGPU_DEVICE", std::to_string(library.rank).c_str(), 1);
    check(starts() == 1, "the start");
    const Plugin &p = plugin();
    check(p.policy != nullptr && std::string(p.policy->name) == "double-single", "the precision of rank 0");
    check(p.compare == 0 && std::getenv("MILCGPU_COMPARE") == nullptr, "what rank 0 does not set is not set");
    check(p.settings["MILCGPU_DEVICE"] == std::to_string(library.rank), "the device is the rank's own");
    check(p.sites == 256 && p.sites_of(MILCGPU_EVEN) == 128, "sites of this rank");
    check(milcgpu_plugin_active() == 1 && milcgpu_plugin_resident() == 1, "what is taken over");
    check(milcgpu_plugin_agreed(library.rank) == library.size - 1, "the largest answer");
    plugin().ledger[MILCGPU_KS_CONGRAD].calls = 1;
    plugin().ledger[MILCGPU_KS_CONGRAD].seconds = 1 + library.rank;
    plugin().ledger[MILCGPU_KS_CONGRAD].to_host = 1000000;
    milcgpu_plugin_exit(0);
    check(milcgpu_plugin_active() == 0, "the end");
}

void lose_a_rank(const milcgpu_messages &library, const milcgpu_messages &decisions) {
    const Milc milc(library, decisions);
    check(milcgpu_plugin_start(&milc.milc) == 1, "the start");
    if (library.rank == library.size - 1) {
        std::raise(SIGSTOP);
        std::_Exit(4); // when the launcher ends it
    }
    milcgpu_plugin_agreed(0);
    check(false, "the job should have ended");
}

void terminate_ranks(const char *who) {
    initialize_machine(nullptr, nullptr);
    auto job = tests::sized<milcgpu_milc>();
    milcgpu_describe_ranks(&job);
    check(start_as_milc(*job.messages, *job.decisions) == 1, "the start");
    if (std::string(who) == "all" || job.rank == std::atoi(who))
        terminate(4);
    std::this_thread::sleep_for(std::chrono::minutes(1));
    check(false, "the job should have ended");
}
