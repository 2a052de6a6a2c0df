// Shell commands, and prefixes to install the library into.
#pragma once
#include "tests/run_support.h"
#include <string>

namespace tests {

// build/<variant>, where this program and the libraries are.
inline std::filesystem::path build_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }
inline std::filesystem::path source_tree() { return build_folder() / "../.."; }

// A CMake that milcgpu.cmake takes: of a script it refuses no more than the generator.
inline bool cmake_takes_milcgpu() {
    return shell("cmake -P " + (source_tree() / "milc_glue/use_gpu/milcgpu.cmake").string()).says("the generator");
}

// A Python that has these modules, "cffi, numpy": the first in PATH, or the distribution's; "": none.
inline std::string python_with(const std::string &modules) {
    for (const std::string python : {"python3", "/usr/bin/python3"})
        if (shell(python + " -c 'import " + modules + "'").status == 0)
            return python;
    return "";
}

// As `make install` does it, without the programs. settings: NAME=VALUE, of the environment.
inline Run install(const std::filesystem::path &prefix, const std::string &version, const std::string &settings = "") {
    return shell("cd " + source_tree().string() + " && env PREFIX=" + prefix.string() +
                 " LIBDIR=" + (prefix / "lib").string() + " " + settings + " sh milc_glue/install/install.sh " +
                 build_folder().string() + " " + version);
}

} // namespace tests
