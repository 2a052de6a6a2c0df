// Programs in the shape of MILC's, built by make with an installed milcgpu.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/reference/su3.h"
#include "tests/source_text.h"
#include "tests/support.h"
#include <fstream>
#include <string>
#include <vector>

namespace tests::milc_build {

namespace fs = std::filesystem;
using tests::Run, tests::shell;

// An installed milcgpu, or one that lost a file.
inline void make_prefix(const fs::path &prefix, const std::string &without) {
    succeeded(tests::install(prefix, MILCGPU_VERSION));
    if (!without.empty())
        REQUIRE((fs::remove(prefix / "lib" / without) || fs::remove(prefix / "share/milcgpu" / without)));
}
// One for all tests that change nothing in it.
inline const fs::path &installed() {
    static const Folder prefix;
    static const bool made = (make_prefix(prefix.path, ""), true);
    REQUIRE(made);
    return prefix.path;
}

inline Run build(const fs::path &program, const fs::path &prefix, const std::string &words = "",
                 const std::string &target = "su3_ora") {
    return shell("cd " + program.string() + " && make " + target + " " + words + " $(" + prefix.string() +
                 "/bin/milcgpu-config --milc)");
}

// A program of tests/milc_host that works on links in a file, with the glue in it.
struct LinksProgram {
    const reference::Lattice lattice{{4, 2, 6, 4}};
    const reference::Gauge links = reference::near_unit_gauge(lattice, 0.3, 71);
    Folder program;
    const fs::path &prefix = installed();
    // The files of a program, and those that all of them have.
    static void copy(const std::string &name, const fs::path &to) {
        for (const std::string &from : {name, std::string("one_rank")})
            fs::copy(source_tree() / "tests/milc_host" / from, to);
    }
    std::string name; // of the program, below the folder
    // HYP smearing. Returns its folder.
    fs::path copy_hyp() const {
        const fs::path folder = program.path / "hvy_qpot", include = program.path / "include";
        copy("hyp", folder);
        fs::create_directory(include);
        fs::copy(folder / "hvy_qpot_includes.h", include / "hyp_coeff.h"); // one header with two names
        return folder;
    }
    // The library must take the program over.
    void build_served(const fs::path &folder, const std::string &words, const std::string &target) {
        const Run built = succeeded(build(folder, prefix, words, target));
        CHECK(matches(built.output, "milcgpu: .* of " + target + " goe?s? to ").size() == 1);
        CHECK_FALSE(built.says("warning"));
        name = fs::relative(folder, program.path) / target;
    }
    // The file is written anew, and the program run on it, with these parameters after the lattice.
    Run on_links(const std::string &environment, const std::string &parameters) const {
        std::ofstream(program.path / "links", std::ios::binary)
            << bytes(reference::links_to_milc<double>(lattice, links));
        return shell("cd " + program.path.string() + " && MILCGPU_BACKEND=host " + environment + " ./" + name +
                     " links 4 2 6 4 " + parameters);
    }
    reference::Gauge made() const {
        std::vector<double> milc(72 * lattice.volume());
        std::ifstream(program.path / "links", std::ios::binary)
            .read(reinterpret_cast<char *>(milc.data()), std::streamsize(milc.size() * sizeof(double)));
        return reference::links_from_milc<double>(lattice, milc);
    }

  private:
    static std::string bytes(const std::vector<double> &numbers) {
        return {reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(double)};
    }
};

} // namespace tests::milc_build
