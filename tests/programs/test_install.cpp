// What make install puts into a prefix: the exported names of the libraries, programs built with it in each way, both
// doors side by side. Uninstall leaves nothing.
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/source_text.h"
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace fs = std::filesystem;
using tests::build_folder;
using tests::Folder;
using tests::Run;
using tests::shell;
using tests::source_tree;
using tests::succeeded;

namespace {

void write(const fs::path &file, const std::string &text) { std::ofstream(file) << text; }

// Names that nm lists, without versions.
std::set<std::string> names(const std::string &which, const fs::path &library) {
    const Run r = succeeded(shell("nm -D " + which + " " + library.string()));
    std::set<std::string> found;
    std::istringstream lines(r.output);
    for (std::string line; std::getline(lines, line);)
        found.insert(line.substr(line.rfind(' ') + 1));
    return found;
}

bool begins(const std::string &name, const std::string &with) { return name.rfind(with, 0) == 0; }

// All files and folders below.
std::set<std::string> tree(const fs::path &folder) {
    std::set<std::string> found;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
        found.insert(fs::relative(entry.path(), folder).string());
    return found;
}

// Opens a context with headers by both of their names.
const char *const program = R"(
#include <milcgpu/milcgpu.h>
#include "milcgpu_md.h"
#include <stdio.h>
int main(void) {
    milcgpu_layout layout = {.struct_size = sizeof layout, .extent = {4, 4, 4, 4}};
    milcgpu_context *context = NULL;
    milcgpu_gauge *gauge = NULL;
    if (milcgpu_context_create(&layout, NULL, &context) != MILCGPU_OK ||
        milcgpu_gauge_create(context, MILCGPU_DOUBLE, &gauge) != MILCGPU_OK)
        puts(milcgpu_last_error());
    else
        printf("works with %s\n", milcgpu_version());
    milcgpu_gauge_destroy(gauge);
    milcgpu_context_destroy(context);
    return 0;
}
)";
const std::string works = "works with " MILCGPU_VERSION "\n";
const std::string run = " && MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 OMP_NUM_THREADS=1 ./program";

struct Installed {
    explicit Installed(const std::string &libdir = "lib") {
        write(folder.path / "program.c", program);
        succeeded(tests::install(prefix, MILCGPU_VERSION, "LIBDIR=" + (prefix / libdir).string()));
    }
    Run in_folder(const std::string &command) const { return shell("cd " + folder.path.string() + " && " + command); }
    Folder folder;
    fs::path prefix = folder.path / "prefix";
};

bool has(const std::string &program) { return shell("command -v " + program).status == 0; }

} // namespace

TEST_CASE("install: the libraries export the C interface and no other name", "[install][smoke]") {
    const auto shown = names("--defined-only", build_folder() / "libmilcgpu.so");
    CHECK(shown.size() > 140);
    CHECK(shown.count("milcgpu_context_create") == 1);
    CHECK(shown.count("milcgpu_plugin_start") == 1);
    for (const std::string &name : shown)
        if (!begins(name, "milcgpu_"))
            FAIL_CHECK(name << " is exported by libmilcgpu.so");
    const auto door = names("--defined-only", build_folder() / "libquda.so");
    CHECK(door.count("qudaInvert") == 1);
    for (const std::string &name : door)
        if (!begins(name, "quda") && !begins(name, "milcgpu_quda_") && !begins(name, "performWFlow"))
            FAIL_CHECK(name << " is exported by libquda.so");
    for (const std::string &name : names("--undefined-only", build_folder() / "libquda.so")) {
        if (name.find("7milcgpu") != std::string::npos)
            FAIL_CHECK("libquda.so asks for " << name);
        if (begins(name, "milcgpu_"))
            CHECK(shown.count(name) == 1);
    }
    const std::string interface = std::string(MILCGPU_VERSION).substr(0, std::string(MILCGPU_VERSION).rfind('.'));
    CHECK(shell("readelf -d " + (build_folder() / "libmilcgpu.so").string())
              .says("soname: [libmilcgpu.so." + interface + "]"));
}

TEST_CASE("install: programs are built by milcgpu-config, in the prefix and in the source tree", "[install]") {
    const Installed i("lib64/deep");
    const fs::path config = i.prefix / "bin/milcgpu-config";
    for (const std::string &by : {config.string(), (source_tree() / "milc_glue/use_gpu/milcgpu-config").string()}) {
        const Run r = succeeded(i.in_folder("cc program.c -o program $(" + by + " --cflags --libs)" + run));
        CHECK(r.says(works));
        CHECK(shell(by + " --version").output == MILCGPU_VERSION "\n");
        CHECK(shell(by + " --help").says("--milc"));
    }
    CHECK(i.in_folder("ldd program").says("libmilcgpu.so."));
    CHECK(begins(shell(config.string() + " --variant").output, build_folder().filename().string()));
    CHECK(shell(config.string() + " --prefix").output == i.prefix.string() + "\n");
    // If two variants are built, it takes the newer and tells which.
    const fs::path tree = i.folder.path / "tree";
    fs::create_directories(tree / "milc_glue");
    fs::copy(source_tree() / "milc_glue/use_gpu", tree / "milc_glue/use_gpu");
    for (const char *variant : {"cuda", "host-sanitize", "host"}) {
        fs::create_directories(tree / "build" / variant);
        write(tree / "build" / variant / "libmilcgpu.so", "");
        write(tree / "build" / variant / "built", "milcgpu_arch='sm_90'\n");
    }
    const auto newest = fs::last_write_time(tree / "build/host/libmilcgpu.so");
    fs::last_write_time(tree / "build/cuda/libmilcgpu.so", newest + std::chrono::seconds(2));
    fs::last_write_time(tree / "build/host-sanitize/libmilcgpu.so", newest + std::chrono::seconds(4));
    const std::string in_tree = (tree / "milc_glue/use_gpu/milcgpu-config").string();
    CHECK(shell(in_tree + " --libs").says("the newest of this source tree: " + (tree / "build/cuda").string() + "\n"));
    CHECK(shell(in_tree + " --libs 2>/dev/null").says("-L" + (tree / "build/cuda").string() + " "));
    CHECK(shell(in_tree + " --variant").output == "cuda sm_90\n");
    const std::string spaced = (tree / "with a space").string();
    CHECK(shell("mkdir '" + spaced + "' && cp -r '" + (tree / "milc_glue").string() + "' '" + spaced + "/' && '" +
                spaced + "/milc_glue/use_gpu/milcgpu-config' --milc 2>/dev/null")
              .output == "--milcgpu-stops-this-make:-there-is-a-space-in-its-folder\n");
    CHECK(shell(in_tree + " --mlic 2>/dev/null").output ==
          "--milcgpu-stops-this-build:-milcgpu-config-has-no-option---mlic\n");
    CHECK(shell(in_tree + " --quda-home").says("make install"));
}

TEST_CASE("install: programs are built by pkg-config, with the shared and the static library", "[install]") {
    if (!has("pkg-config"))
        SKIP_TEST("no pkg-config");
    const Installed i("lib64/deep");
    const std::string path = (i.prefix / "lib64/deep").string(),
                      ask = "PKG_CONFIG_PATH=" + path + "/pkgconfig pkg-config ";
    Run r = i.in_folder("cc program.c -o program $(" + ask + "--cflags --libs milcgpu) -Wl,-rpath," + path + run);
    CHECK(r.says(works));
    r = i.in_folder("cc program.c -o program $(" + ask + "--static --cflags --libs milcgpu | " +
                    "sed 's/-lmilcgpu/-l:libmilcgpu.a/')" + run);
    CHECK(r.says(works));
    CHECK_FALSE(i.in_folder("ldd program").says("libmilcgpu.so"));
    CHECK(shell(ask + "--modversion milcgpu").output == MILCGPU_VERSION "\n");
}

TEST_CASE("install: programs are built by CMake, after the prefix was moved", "[install]") {
    LONG_TEST;
    if (!has("cmake"))
        SKIP_TEST("no cmake");
    const Installed i;
    fs::rename(i.prefix, i.folder.path / "moved");
    const auto built = [&](const std::string &version, const std::string &target) {
        write(i.folder.path / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.13)\nproject(program C)\n"
                                                "find_package(milcgpu " +
                                                    version + " REQUIRED HINTS ${CMAKE_SOURCE_DIR}/moved)\n" +
                                                    "add_executable(program program.c)\n"
                                                    "target_link_libraries(program PRIVATE milcgpu::" +
                                                    target + ")\n");
        return i.in_folder("rm -rf build && cmake -B build . && cmake --build build && cd build" + run);
    };
    for (const char *target : {"milcgpu", "static"}) {
        const Run r = built(MILCGPU_VERSION, target);
        CHECK(r.says(works));
    }
    const Run other = built("0.2.0", "milcgpu"); // of another interface
    CHECK(other.status != 0);
    CHECK(other.says("0.2.0"));
}

TEST_CASE("install: the cookbook is built by CMake and by pkg-config, and the checks of its programs hold",
          "[install]") {
    const Installed i;
    const std::string cookbook = (i.prefix / "share/doc/milcgpu/examples/cookbook").string(),
                      quiet = "export MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 OMP_NUM_THREADS=1; ",
                      ranks = std::string(tests::run_environment) + " mpirun -n 2 ";
    std::vector<std::string> programs;
    for (const auto &file : fs::directory_iterator(cookbook))
        if (file.path().extension() == ".c")
            programs.push_back(file.path().stem());
    CHECK(programs.size() == 10);
    const auto holds = [&](const std::string &command) { succeeded(i.in_folder(quiet + command)); };
    std::string missing;
    if (has("cmake")) {
        holds("cmake -B build -DCMAKE_PREFIX_PATH=" + i.prefix.string() + " " + cookbook + " && cmake --build build");
        for (const std::string &program : programs)
            if (program != "two_ranks")
                holds("build/" + program);
        holds("build/handles");
        if (has("mpicc"))
            holds(ranks + "build/two_ranks");
    } else
        missing += " cmake";
    if (!has("mpicc"))
        missing += " mpicc";
    if (has("pkg-config")) {
        for (const std::string &program : programs)
            if (program != "two_ranks" || has("mpicc"))
                holds("export PKG_CONFIG_PATH=" + (i.prefix / "lib/pkgconfig").string() + "; " +
                      (program == "two_ranks" ? "mpicc" : "cc") + " -std=c99 -Wall -Wextra -Werror " + cookbook + "/" +
                      program + ".c -o by_pkg_config $(pkg-config --cflags --libs milcgpu) -lm -Wl,-rpath," +
                      (i.prefix / "lib").string() +
                      (program == "propagator" || !has("cmake")
                           ? " && " + (program == "two_ranks" ? ranks : "") + "./by_pkg_config"
                           : ""));
    } else
        missing += " pkg-config";
    if (!missing.empty())
        SKIP_TEST("no" + missing);
}

TEST_CASE("install: the program of README.md compiles", "[install]") {
    const Installed i;
    const std::string readme = tests::text_of(source_tree() / "README.md"),
                      begin = "    #include <milcgpu/milcgpu.h>\n";
    const size_t at = readme.find(begin), end = readme.find("\n\n[", at);
    REQUIRE(end != std::string::npos);
    write(i.folder.path / "readme.c",
          "#include <milcgpu/milcgpu.h>\n#include <stdio.h>\nint main(void) {\n    enum { nx = 4, ny = 4, nz = 4, nt = "
          "4 };\n"
          "    static double fatlinks[72 * 256], longlinks[72 * 256], source[6 * 256], solution[6 * 256];\n" +
              readme.substr(at + begin.size(), end - at - begin.size()) + "\n    return 0;\n}\n");
    succeeded(i.in_folder("cc -std=c99 -Wall -Wextra -Werror -fsyntax-only -I" + (i.prefix / "include").string() +
                          " readme.c"));
}

TEST_CASE("install: the cookbook's program in Python, by cffi", "[install]") {
    const std::string python = tests::python_with("cffi");
    if (python.empty())
        SKIP_TEST("no python3-cffi");
    const Installed i;
    const Run r = succeeded(i.in_folder("MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 OMP_NUM_THREADS=1 " + python + " " +
                                        (i.prefix / "share/doc/milcgpu/examples/cookbook/propagator.py ").string() +
                                        i.prefix.string()));
    CHECK(r.says("true residual"));
}

TEST_CASE("install: both doors from one prefix, and QUDA's names in one folder alone", "[install]") {
    const Installed i;
    for (const std::string &path : tree(i.prefix))
        if (path.find("quda") != std::string::npos && !begins(path, "quda-compat") &&
            !begins(path, "share/doc/milcgpu/docs"))
            FAIL_CHECK(path);
    // MILC's make words for the second door. The header's macro needs names of MILC's, so this program does not use it.
    write(i.folder.path / "program.c", "#include <quda.h>\n#include <quda_milc_interface.h>\n#include <stdio.h>\n"
                                       "int main(void) {\n"
                                       "    void *room = qudaAllocatePinned(64);\n"
                                       "    printf(\"door 2 %s\\n\", room != NULL ? \"works\" : \"fails\");\n"
                                       "    qudaFreePinned(room);\n"
                                       "    return 0;\n}\n");
    const std::string home = shell((i.prefix / "bin/milcgpu-config").string() + " --quda-home").output;
    CHECK(home == (i.prefix / "quda-compat").string() + "\n");
    const Run r = succeeded(i.in_folder("H=" + home.substr(0, home.size() - 1) +
                                        " && cc -I$H/include program.c -o program -Wl,-rpath $H/lib -L$H/lib -lquda" +
                                        run + " && ldd program"));
    CHECK(r.says("door 2 works\n"));
    CHECK(r.says("quda-compat/lib/libmilcgpu-quda.so."));
    CHECK(r.says("quda-compat/lib/libmilcgpu.so.")); // a link to the one in lib
    CHECK_FALSE(r.says("libquda"));
    CHECK_FALSE(r.says("not found"));
    CHECK(fs::equivalent(i.prefix / "quda-compat/lib/libquda.so", i.prefix / "quda-compat/lib/libmilcgpu-quda.so.0.4"));
    // MILC's CMake finds the package QUDA.
    if (!has("cmake"))
        SKIP_TEST("no cmake");
    write(i.folder.path / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)\nproject(program C)\n"
                                            "find_package(QUDA REQUIRED)\nadd_executable(program program.c)\n"
                                            "target_link_libraries(program PRIVATE QUDA::quda)\n");
    const Run by_cmake = i.in_folder("cmake -B build -DQUDA_ROOT=" + home.substr(0, home.size() - 1) +
                                     " . && cmake --build build && cd build" + run);
    CHECK(by_cmake.says("door 2 works\n"));
}

TEST_CASE("install: uninstall removes what was installed, and nothing else", "[install]") {
    const Folder stage;
    const fs::path prefix = "/opt/milcgpu tree/p";
    const std::string here = "'DESTDIR=" + stage.path.string() + "' 'PREFIX=" + prefix.string() +
                             "' 'LIBDIR=" + (prefix / "lib").string() + "'";
    const auto install = [&](const std::string &version) {
        return shell("umask 077; cd " + source_tree().string() + " && env " + here +
                     " sh milc_glue/install/install.sh " + build_folder().string() + " " + version + " " +
                     (build_folder() / "program_tests").string() + " no_such");
    };
    const fs::path root = stage.path.string() + prefix.string();
    fs::create_directories(root / "share");
    write(root / "share/of_another", "stays");
    const auto before = tree(root);
    // An older version, then this version, which does not have one of the older files. The older library stays for
    // older programs.
    REQUIRE(install("0.2.7").status == 0);
    write(root / "share/milcgpu/manifest",
          std::string(std::istreambuf_iterator<char>(std::ifstream(root / "share/milcgpu/manifest").rdbuf()), {}) +
              "f bin/milcgpu-of-before\n");
    write(root / "bin/milcgpu-of-before", "");
    const Run again = succeeded(install(MILCGPU_VERSION));
    CHECK(again.says("milcgpu-no-such"));
    CHECK(again.says("make uninstall PREFIX='" + prefix.string() + "' DESTDIR=" + stage.path.string() + "\n"));
    for (const auto &place : fs::recursive_directory_iterator(root / "share/milcgpu")) // umask 077 below
        CHECK((fs::status(place).permissions() & fs::perms::others_read) != fs::perms::none);
    CHECK((fs::status(root / "lib").permissions() & fs::perms::others_exec) != fs::perms::none);
    CHECK(fs::exists(root / "lib/libmilcgpu.so.0.2.7"));
    CHECK(fs::exists(root / "quda-compat/lib/libmilcgpu-quda.so.0.2"));
    CHECK(fs::read_symlink(root / "lib/libmilcgpu.so") == "libmilcgpu.so." MILCGPU_VERSION);
    CHECK_FALSE(fs::exists(root / "bin/milcgpu-of-before"));
    CHECK_FALSE(fs::exists(root / "share/modulefiles/milcgpu/0.2.7"));
    CHECK(fs::exists(root / "bin/milcgpu-program-tests"));
    if (tests::has_gnuplot()) {
        fs::copy(source_tree() / "docs/scaling.csv", stage.path);
        const Run drawn =
            shell("cd " + stage.path.string() + " && '" + (root / "bin/milcgpu-draw").string() + "' scaling.csv");
        CHECK(drawn.output == "picture: scaling.png\n");
        fs::remove(stage.path / "scaling.csv"), fs::remove(stage.path / "scaling.png");
    }
    CHECK(fs::exists(root / "share/doc/milcgpu/LICENSE"));
    CHECK(fs::exists(root / "share/doc/milcgpu/docs/design.md"));
    CHECK_FALSE(fs::exists(root / "share/doc/milcgpu/docs/layers.sh")); // only for the source tree
    CHECK(fs::exists(root / "share/milcgpu/plugin.h"));                 // beside the glue, which alone includes it
    CHECK_FALSE(fs::exists(root / "include/milcgpu/plugin.h"));
    for (const auto &file : fs::recursive_directory_iterator(root / "share/doc/milcgpu"))
        if (file.path().extension() == ".md")
            for (const auto &link : tests::links_of(file.path())) {
                INFO(file.path() << ": " << link.file << link.heading);
                CHECK(tests::leads(file.path(), link));
            }
    CHECK(tree(root).size() > before.size() + 60);
    fs::create_directories(root / "share/milcgpu/python/milcgpu/__pycache__"); // Python makes it
    write(root / "share/milcgpu/python/milcgpu/__pycache__/lattice.cpython-311.pyc", "");
    // Paths in files have the prefix, without DESTDIR.
    CHECK(shell("grep -rI '" + stage.path.string() + "' '" + root.string() + "'").status == 1);
    CHECK(shell("grep 'prepend-path PATH' '" + root.string() + "/share/modulefiles/milcgpu/" MILCGPU_VERSION "'")
              .status == 0);
    CHECK(
        shell("grep 'proc ModulesHelp' '" + root.string() + "/share/modulefiles/milcgpu/" MILCGPU_VERSION "'").status ==
        0);
    const std::string uninstall =
        "cd " + source_tree().string() + " && env " + here + " sh milc_glue/install/uninstall.sh";
    succeeded(shell(uninstall));
    CHECK(tree(root) == before);
    const Run nothing = shell(uninstall);
    CHECK(nothing.status == 1);
    CHECK(nothing.says("nothing to remove"));
    // Uninstall also removes a folder that install created.
    const Folder other;
    const fs::path own = other.path / "own";
    REQUIRE(tests::install(own, MILCGPU_VERSION).status == 0);
    const std::string of_own =
        "cd " + source_tree().string() + " && PREFIX=" + own.string() + " sh milc_glue/install/uninstall.sh";
    write(own / "lib/of_another", "stays");
    const Run kept = succeeded(shell(of_own));
    CHECK(kept.says("lib stays: it has other files\n"));
    CHECK(kept.says("removed from " + own.string() + " ("));
    CHECK(tree(own).size() == 2);
    fs::remove_all(own);
    REQUIRE(tests::install(own, MILCGPU_VERSION).status == 0);
    CHECK_FALSE(succeeded(shell(of_own)).says("stays"));
    CHECK(fs::is_empty(other.path));
    // Folders that cannot be installed into are refused.
    CHECK(tests::install("relative", MILCGPU_VERSION).says("absolute"));
    for (const char *name : {"a&b", "a|b", "a\\b"}) {
        const std::string path = own.string() + name;
        CHECK(tests::install(own, MILCGPU_VERSION, "'PREFIX=" + path + "'").says(path + ": must not contain"));
    }
    CHECK(fs::is_empty(other.path));
    CHECK(tests::install(own, MILCGPU_VERSION, "LIBDIR=/usr/lib").says("LIBDIR"));
    write(own, "a file");
    const Run refused = tests::install(own, MILCGPU_VERSION);
    CHECK(refused.status != 0);
    CHECK(refused.says(own.string() + " cannot be created"));
}

TEST_CASE("install: make install copies a finished build, and builds nothing", "[install][smoke]") {
    const Folder folder;
    const std::string unset = "unset CUDA ARCH SANITIZE STRIPED; cd "; // of the make that runs the tests
    const std::string which = build_folder().filename() == "cuda" ? " CUDA=1" : " CUDA=0"; // both may be built here
    const fs::path prefix = folder.path / "it's p";
    const std::string in = " PREFIX=\"" + prefix.string() + "\"" + which,
                      make = unset + source_tree().string() + " && make install" + in;
    const Run r = succeeded(shell(make + " programs= O=" + build_folder().string()));
    CHECK(r.says("installed " + build_folder().filename().string()));
    fs::create_directory_symlink(build_folder(), folder.path / "any_name"); // O may have any name
    CHECK(succeeded(shell(make + " programs= O=" + (folder.path / "any_name").string()))
              .says("installed " + build_folder().filename().string()));
    CHECK(r.says("make uninstall PREFIX='" + folder.path.string() + "/it'\\''s p'\n"));
    CHECK(fs::exists(prefix / "lib/libmilcgpu.so." MILCGPU_VERSION));
    succeeded(shell(unset + source_tree().string() + " && make uninstall" + in));
    CHECK_FALSE(fs::exists(prefix));
    const Run nothing = shell(make + " O=" + (folder.path / "nothing").string());
    CHECK(nothing.status != 0);
    CHECK(nothing.says("make all"));
    CHECK_FALSE(fs::exists(folder.path / "nothing"));
    fs::create_directories(folder.path / "no/compiled"); // stands for a folder that the caller cannot write to
    fs::copy(build_folder() / "flags", folder.path / "no");
    const Run unwritable = shell(make + " O=" + (folder.path / "no").string());
    CHECK(unwritable.says("make all"));
    CHECK_FALSE(unwritable.says("cannot create"));
    // If two variants are built, the caller must choose.
    const fs::path tree = folder.path / "tree";
    fs::create_directories(tree / "build/cuda");
    fs::create_directories(tree / "build/host");
    REQUIRE(shell("cd " + source_tree().string() +
                  " && cp --parents Makefile milc_glue/api/milcgpu.h */*.mk */*/*.mk " + tree.string())
                .status == 0);
    write(tree / "build/host/libmilcgpu.so", "");
    const std::string in_tree = unset + tree.string() + " && make install";
    CHECK(shell(in_tree).says("build/host is not built"));
    CHECK(shell(in_tree + " CUDA=1").says("build/cuda is not built"));
    write(tree / "build/cuda/libmilcgpu.so", "");
    CHECK(shell(in_tree).says("build/cuda and build/host are both built"));
    CHECK(shell(in_tree + " CUDA=0").says("build/host is not built"));
}

TEST_CASE("install: clang compiles what it has refused before, without warnings", "[install]") {
    LONG_TEST;
    if (shell("clang++ -fopenmp -fsyntax-only -x c++ -include omp.h /dev/null").status != 0)
        SKIP_TEST("no clang with OpenMP");
    for (const char *source : {"gpu_kernels/halo/halo.cu", "gpu_kernels/fields/lane_links.cpp",
                               "gpu_kernels/algebra/gram.cu", "reorder/link_reorder.cu", "examples/lib/arguments.cpp"})
        succeeded(shell("cd " + source_tree().string() +
                        " && clang++ -std=c++17 -fopenmp -march=x86-64-v3 -Wall -Wextra -Werror -fsyntax-only -I. "
                        "-Imilc_glue/api -x c++ " +
                        source));
}

TEST_CASE("install: warnings stop the build with the gcc versions of CI, not with others or clang", "[install]") {
    const Folder folder;
    const std::string compiler = (folder.path / "compiler").string();
    const auto line_of = [&](const char *version) { // __GNUC__
        write(folder.path / "compiler", std::string("#!/bin/sh\necho ") + version + "\n");
        return shell("chmod +x " + compiler + " && unset CUDA ARCH SANITIZE STRIPED CXXFLAGS; cd " +
                     source_tree().string() + " && make -n CUDA=0 MPI=0 CXX=" + compiler +
                     " O=" + (folder.path / "o").string() + " lib");
    };
    for (const char *tried : {"12", "13", "14"})
        CHECK(line_of(tried).says(" -Werror"));
    for (const char *other : {"99", "4"}) { // 4: every clang's
        const Run r = line_of(other);
        CHECK(r.says(compiler + " -std=c++17"));
        CHECK_FALSE(r.says("-Werror"));
    }
    CHECK(line_of("10").says(" -march=haswell ")); // it does not know x86-64-v3
    CHECK(line_of("12").says(" -march=x86-64-v3 "));
    CHECK(shell("cd " + source_tree().string() + " && make CUDA=0 CXX=/no/compiler O=" + (folder.path / "o").string() +
                " lib")
              .says("no C++ compiler: CXX=/no/compiler cannot be run. Install g++ 10 or newer"));
}

TEST_CASE("make: if a GPU is too old, make names it and builds the host backend", "[install]") {
    const Folder fake;
    const auto help = [&](const std::string &capabilities, const std::string &more = "") {
        write(fake.path / "nvidia-smi", "#!/bin/sh\nprintf '" + capabilities + "'\n");
        const Run r =
            shell("chmod +x " + fake.path.string() + "/nvidia-smi && cd " + source_tree().string() +
                  " && env -u CUDA -u ARCH PATH=" + fake.path.string() + ":$PATH make help NVCC=true " + more);
        return r;
    };
    const Run old = help("7.5\\n");
    CHECK(old.says(
        "  the GPU here is sm_75 and milcgpu needs sm_80 or newer, so this is built for the host backend alone"));
    CHECK(old.says("this build:   build/host, "));
    CHECK(help("7.5\\n", "ARCH=sm_80").says("this build:   build/cuda, true for sm_80\n"));
    CHECK(help("7.5\\n9.0\\n").says("this build:   build/cuda, true for sm_90\n"));
    CHECK(help("12.0\\n").says("this build:   build/cuda, true for sm_120\n"));
}

TEST_CASE("make: as many compilers as cores, for any OpenMP settings", "[install]") {
    const Folder folder;
    write(folder.path / "jobs.mk", "jobs:\n\t@echo $(filter -j%,$(MAKEFLAGS))\n");
    const auto jobs = [&](const std::string &threads) {
        return shell("cd " + source_tree().string() + " && env -u MAKEFLAGS -u MAKELEVEL OMP_NUM_THREADS=" + threads +
                     " OMP_THREAD_LIMIT=" + threads + " make -s -f Makefile -f " + (folder.path / "jobs.mk").string() +
                     " jobs")
            .output;
    };
    CHECK(jobs("1").find("-j") == 0);
    CHECK(jobs("1") == jobs("999"));
}
