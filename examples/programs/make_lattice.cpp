// make_lattice: a thermalized quenched SU(3) gauge field, written as a file of MILC's version 5 or of NERSC's format.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "examples/lib/arguments.h"
#include "examples/lib/heatbath.h"
#include "examples/lib/lattice_file.h"
#include "examples/lib/output_file.h"
#include "examples/lib/system.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "tests/reference/gauge.h"

namespace {

using examples::Arguments;

struct Settings {
    std::array<int, 4> size{8, 8, 8, 16}, grid{1, 1, 1, 1};
    double beta = 6.0;
    int sweeps = 60;
    int overrelax = 4;
    std::uint64_t seed = 1;
    std::string out, format = "milc";
};

void make(const Settings &settings, const examples::Job &ranks) {
    milcgpu::wait_passively();
    const reference::Lattice lattice{settings.size};
    ranks.on_first([&] { examples::check_writable("--out", settings.out, examples::milc_gauge_bytes(lattice)); });
    const auto start = std::chrono::steady_clock::now();
    const auto report = [&](int sweep, const examples::LinkBox &box) {
        const auto [space, time] = examples::plaquettes(ranks, lattice, box);
        std::printf("sweep %4d of %d  plaquette %.6f  %.1f s\n", sweep, settings.sweeps, (space + time) / 2,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        std::fflush(stdout);
    };
    examples::LinkBox box = examples::link_box(ranks, lattice);
    examples::thermalize(box, settings.beta, settings.seed, settings.sweeps, settings.overrelax, report);
    const auto [space, time] = examples::plaquettes(ranks, lattice, box);
    std::printf("final plaquette %.8f (space-space %.8f, space-time %.8f)\n", (space + time) / 2, space, time);
    if (!settings.out.empty()) {
        examples::write_box(ranks, lattice, box.own(), settings.out, settings.format);
        std::printf("written: %s\n", milcgpu::quoted_name(settings.out).c_str());
    }
}

} // namespace

int main(int argc, char **argv) {
    Settings settings;
    Arguments arguments("make_lattice",
                        "makes a quenched SU(3) gauge field by heat bath and over-relaxation (Wilson action)");
    arguments.add_size(settings.size, "extents");
    arguments.add("beta", "B", settings.beta, "coupling 6/g^2", examples::above(0, 1e6));
    arguments.add("sweeps", "N", settings.sweeps, "heat-bath sweeps from a unit start", examples::whole(0));
    arguments.add("overrelax", "N", settings.overrelax, "over-relaxation sweeps after each heat-bath sweep",
                  examples::whole(0));
    arguments.add("seed", "S", settings.seed, "the same seed gives the same field");
    arguments.add("out", "FILE", settings.out, "file to write; without it only the plaquette is printed",
                  examples::file_name());
    arguments.add("format", "NAME", settings.format, "of the file: MILC's version 5, or NERSC's archive format",
                  examples::one_of({"milc", "nersc"}));
    examples::Job::add_grid(arguments, settings.grid);
    return examples::run_on_ranks([&](examples::Job &ranks) {
        if (!arguments.parse(argc, argv))
            return 0;
        ranks.start(settings.grid);
        examples::check_lattice(ranks, {settings.size}, 2 * examples::gauge_bytes / ranks.size());
        make(settings, ranks);
        return 0;
    });
}
