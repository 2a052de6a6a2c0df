// make_lattice: a thermalized quenched SU(3) gauge field, written as a MILC version-5 file.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "examples/arguments.h"
#include "examples/heatbath.h"
#include "examples/lattice_file.h"
#include "examples/ranks.h"
#include "tests/reference/gauge.h"

namespace {

using examples::ArgumentError;
using examples::Arguments;

struct Settings {
    std::array<int, 4> size{8, 8, 8, 16}, grid{1, 1, 1, 1};
    double beta = 6.0;
    int sweeps = 60;
    int overrelax = 4;
    std::uint64_t seed = 1;
    std::string out;
};

void check(const Settings &settings, const Arguments &arguments) {
    double volume = 1;
    for (const int extent : settings.size) {
        if (extent < 2 || extent % 2 != 0)
            throw ArgumentError("--size: extent " + std::to_string(extent) +
                                " must be even and at least 2 (the heat bath updates even and odd sites in turn)" +
                                arguments.hint());
        volume *= extent;
    }
    if (volume > double(1 << 28))
        throw ArgumentError("--size: more than 2^28 sites" + arguments.hint());
    if (!(settings.beta > 0) || settings.beta > 1e6)
        throw ArgumentError("--beta must be greater than 0, at most 1e6" + arguments.hint());
    if (settings.sweeps < 0 || settings.overrelax < 0)
        throw ArgumentError("--sweeps and --overrelax must not be negative" + arguments.hint());
}

void make(const Settings &settings) {
    const reference::Lattice lattice{settings.size};
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const auto report = [&](int sweep, const reference::Gauge &links) {
        std::printf("sweep %4d of %d  plaquette %.6f  %.1f s\n", sweep, settings.sweeps,
                    reference::plaquette(lattice, links), seconds());
        std::fflush(stdout);
    };
    const reference::Gauge links =
        examples::thermalized(lattice, settings.beta, settings.seed, settings.sweeps, settings.overrelax, report);
    const reference::PlaquetteParts parts = reference::plaquette_parts(lattice, links);
    std::printf("final plaquette %.8f (space-space %.8f, space-time %.8f)\n",
                (parts.space_space + parts.space_time) / 2, parts.space_space, parts.space_time);
    if (!settings.out.empty()) {
        examples::write_milc_gauge(settings.out, lattice, links);
        std::printf("written: %s\n", settings.out.c_str());
    }
}

} // namespace

int main(int argc, char **argv) {
    Settings settings;
    Arguments arguments("make_lattice",
                        "a quenched SU(3) gauge field by heat bath and over-relaxation (Wilson action)");
    arguments.add("size", "X Y Z T", settings.size, "extents, all even");
    arguments.add("beta", "B", settings.beta, "coupling 6/g^2");
    arguments.add("sweeps", "N", settings.sweeps, "heat-bath sweeps from a unit start");
    arguments.add("overrelax", "N", settings.overrelax, "over-relaxation sweeps after each of them");
    arguments.add("seed", "S", settings.seed, "the same seed gives the same field");
    arguments.add("out", "FILE", settings.out, "MILC version-5 file to write; none: only the plaquette is printed");
    examples::Job::add_grid(arguments, settings.grid);
    return examples::run_on_ranks([&](examples::Job &ranks) {
        if (!arguments.parse(argc, argv))
            return 0;
        check(settings, arguments);
        ranks.start(settings.grid);
        ranks.on_first([&] { make(settings); }); // by its host's cores
        return 0;
    });
}
