// The word on MILC's make line (milc_glue/use_gpu): it breaks no program, and where it cannot do its work make stops.
// On a makefile of a few lines in the shape of MILC's.
#include "tests/run_support.h"
#include "tests/support.h"
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>

namespace fs = std::filesystem;
using tests::Folder;

namespace {

struct Run {
    int status;
    std::string output; // both streams
    bool says(const std::string &text) const { return output.find(text) != std::string::npos; }
};

Run run(const std::string &command) {
    Run result{-1, ""};
    // Of the make that runs the tests, nothing is for MILC's.
    FILE *pipe = popen(("unset MAKEFLAGS MFLAGS MAKELEVEL; { " + command + "; } 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr;)
        result.output += line;
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

// build/<variant>/milcgpu_tests, beside the libraries.
fs::path build_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }
fs::path source_tree() { return build_folder() / "../.."; }

void write(const fs::path &file, const std::string &text) { std::ofstream(file) << text; }

// A program without fermions: no quark_action.h, none of MILC's staggered headers.
void make_program(const fs::path &folder) {
    write(folder / "main.c", "int main(void) { return 0; }\n");
    write(folder / "layout_hyper_prime.c", "int layout;\n");
    write(folder / "Makefile", "CFLAGS = -O0 -I. $(DEFINES)\n"
                               "MYTARGET = su3_ora\n"
                               "LAYOUT = layout_hyper_prime.o\n"
                               "OBJECTS = main.o $(LAYOUT)\n"
                               "ILIB = $(LMPI)\n"
                               "su3_ora: $(OBJECTS)\n"
                               "\t$(CC) -o $@ $(OBJECTS) $(ILIB)\n"
                               "\t@echo MILC is built\n");
}

// An installed milcgpu, or one that lost a file.
void make_prefix(const fs::path &prefix, const std::string &without) {
    const auto place = [&](const fs::path &from, const fs::path &to) {
        fs::create_directories((prefix / to).parent_path());
        if (to.filename() != without)
            fs::copy_file(from, prefix / to);
    };
    const fs::path glue = source_tree() / "milc_glue/use_gpu";
    for (const fs::directory_entry &file : fs::directory_iterator(glue))
        if (file.path().filename() != "milcgpu-config")
            place(file.path(), fs::path("share/milcgpu") / file.path().filename());
    place(glue / "milcgpu-config", "bin/milcgpu-config");
    for (const char *header : {"milcgpu.h", "milcgpu_md.h", "milcgpu_milc.h", "milcgpu_mpi.h", "plugin.h"})
        place(source_tree() / "milc_glue" / header, fs::path("include") / header);
    place(build_folder() / "libmilcgpu.so", "lib/libmilcgpu.so");
}

Run build(const fs::path &program, const fs::path &prefix, const std::string &words = "") {
    return run("cd " + program.string() + " && make su3_ora " + words + " $(" + prefix.string() +
               "/bin/milcgpu-config --milc)");
}

} // namespace

TEST_CASE("milc_build: a program without a staggered solver is built as without the word", "[milc]") {
    for (const char *words : {"", "DEFINES=-DFN"}) { // some name FN without having the action's header
        Folder program, prefix;
        make_program(program.path);
        make_prefix(prefix.path, "");
        const Run r = build(program.path, prefix.path, words);
        INFO(r.output);
        CHECK(r.status == 0);
        CHECK(r.says("milcgpu: su3_ora has no asqtad or HISQ solver to take over: it is built as without milcgpu"));
        CHECK(r.says("MILC is built"));
        CHECK(run("cd " + program.path.string() + " && ldd su3_ora && ./su3_ora").status == 0);
        CHECK_FALSE(run("ldd " + program.path.string() + "/su3_ora").says("milcgpu"));
    }
}

TEST_CASE("milc_build: another fermion action is left alone; the right one never in silence", "[milc]") {
    Folder program, prefix;
    make_program(program.path);
    make_prefix(prefix.path, "");
    write(program.path / "quark_action.h", "#define HISQ 1\n#define EO_TYPE 2\n#define FN_TYPE 3\n"
                                           "#define FERM_ACTION EO_TYPE\n");
    CHECK(build(program.path, prefix.path, "DEFINES=-DFN").status == 0);
    // With the right action the glue is compiled, and says if it cannot be: here MILC's headers are missing.
    write(program.path / "quark_action.h", "#define HISQ 1\n#define FERM_ACTION HISQ\n");
    const Run r = build(program.path, prefix.path, "DEFINES=-DFN");
    INFO(r.output);
    CHECK(r.status != 0);
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: where a file of milcgpu is missing, make stops and says so", "[milc]") {
    for (const char *file : {"libmilcgpu.so", "milc_gpu.mk"}) {
        Folder program, prefix;
        make_program(program.path);
        make_prefix(prefix.path, file);
        const Run r = build(program.path, prefix.path);
        INFO(file << "\n" << r.output);
        CHECK(r.status != 0);
        CHECK_FALSE(r.says("MILC is built"));
        CHECK(r.says(std::string(file) + " is missing"));
        CHECK(r.says("milcgpu-stops-this-make"));
        CHECK(run(prefix.path.string() + "/bin/milcgpu-config --milc").status == 1);
    }
    // The word was written down while the library was there.
    Folder program, prefix;
    make_program(program.path);
    make_prefix(prefix.path, "libmilcgpu.so");
    const Run r = run("make -C " + program.path.string() + " su3_ora MAKEFILES=" + prefix.path.string() +
                      "/share/milcgpu/milc_gpu.mk");
    INFO(r.output);
    CHECK(r.status != 0);
    CHECK(r.says("libmilcgpu.so or milcgpu.h is missing"));
    CHECK_FALSE(r.says("MILC is built"));
}
