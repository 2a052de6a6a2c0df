// The word on MILC's make line (milc_glue/use_gpu): it breaks no program, and where it cannot do its work make stops.
// On a makefile of a few lines in the shape of MILC's.
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/reference/flow.h"
#include "tests/reference/gauge_fix.h"
#include "tests/reference/gauge_force.h"
#include "tests/source_text.h"
#include "tests/support.h"
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace fs = std::filesystem;
using tests::Folder;
using tests::source_tree;
using Run = tests::Said;

namespace {

Run run(const std::string &command) { return tests::shell(command); }

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
    const Run r = tests::install(prefix, MILCGPU_VERSION);
    INFO(r.output);
    REQUIRE(r.status == 0);
    if (!without.empty())
        REQUIRE((fs::remove(prefix / "lib" / without) || fs::remove(prefix / "share/milcgpu" / without)));
}
// One for all tests that change nothing in it.
const fs::path &installed() {
    static const Folder prefix;
    static const bool made = (make_prefix(prefix.path, ""), true);
    REQUIRE(made);
    return prefix.path;
}

Run build(const fs::path &program, const fs::path &prefix, const std::string &words = "",
          const std::string &target = "su3_ora") {
    return run("cd " + program.string() + " && make " + target + " " + words + " $(" + prefix.string() +
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
    // The file is written anew, and the program run on it, with these parameters after the lattice.
    Run on_links(const std::string &environment, const std::string &name, const std::string &parameters) const {
        std::ofstream(program.path / "links", std::ios::binary)
            << bytes(reference::links_to_milc<double>(lattice, links));
        return run("cd " + program.path.string() + " && MILCGPU_BACKEND=host " + environment + " ./" + name +
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

struct FlowProgram : LinksProgram {
    explicit FlowProgram(const std::string &integrator) {
        copy("flow", program.path);
        const Run r = build(program.path, prefix, "DEFINES=-DGF_INTEGRATOR=INTEGRATOR_" + integrator, "wilson_flow");
        INFO(r.output);
        REQUIRE(r.status == 0);
        CHECK(r.says("milcgpu: the gradient flow of wilson_flow goes to "));
        CHECK_FALSE(r.says("warning"));
    }
    // Of action, exp_order, stepsize, stoptime, local_tol.
    Run flow(const std::string &environment, const std::string &parameters) const {
        return on_links(environment, "wilson_flow", parameters);
    }
    reference::Gauge flown() const { return made(); }
};

// The numbers of all lines that begin so.
std::vector<std::vector<double>> lines(const Run &r, const std::string &first) {
    std::vector<std::vector<double>> found;
    std::istringstream text(r.output);
    for (std::string line; std::getline(text, line);)
        if (line.rfind(first, 0) == 0) {
            found.emplace_back();
            std::istringstream numbers(line.substr(first.size()));
            for (double x; numbers >> x;)
                found.back().push_back(x);
        }
    return found;
}

double differs(const std::vector<double> &line, double time, const reference::FlowObservables &o) {
    const std::vector<double> wanted = {time,          o.clover_t,    o.clover_s,    o.plaquette_t,
                                        o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge};
    REQUIRE(line.size() == wanted.size());
    double most = 0;
    for (size_t k = 0; k < wanted.size(); ++k)
        most = tests::worse(most, std::abs(line[k] - wanted[k]));
    return most;
}

} // namespace

TEST_CASE("milc_build: a program without a staggered solver is built as without the word", "[milc]") {
    for (const char *words : {"", "DEFINES=-DFN"}) { // some name FN without having the action's header
        Folder program;
        make_program(program.path);
        const Run r = build(program.path, installed(), words);
        INFO(r.output);
        CHECK(r.status == 0);
        CHECK(r.says("milcgpu: su3_ora has no asqtad or HISQ solver to take over: it is built as without milcgpu"));
        CHECK(r.says("MILC is built"));
        CHECK(run("cd " + program.path.string() + " && ldd su3_ora && ./su3_ora").status == 0);
        CHECK_FALSE(run("ldd " + program.path.string() + "/su3_ora").says("milcgpu"));
    }
}

TEST_CASE("milc_build: another fermion action is left alone; the right one never in silence", "[milc]") {
    Folder program;
    make_program(program.path);
    write(program.path / "quark_action.h", "#define HISQ 1\n#define EO_TYPE 2\n#define FN_TYPE 3\n"
                                           "#define FERM_ACTION EO_TYPE\n");
    CHECK(build(program.path, installed(), "DEFINES=-DFN").status == 0);
    // With the right action the glue is compiled, and says if it cannot be: here MILC's headers are missing.
    write(program.path / "quark_action.h", "#define HISQ 1\n#define FERM_ACTION HISQ\n");
    const Run r = build(program.path, installed(), "DEFINES=-DFN");
    INFO(r.output);
    CHECK(r.status != 0);
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: a compiler that is not there stops make, and is no missing solver", "[milc]") {
    Folder program;
    make_program(program.path);
    const Run r = build(program.path, installed(), "-k CC=no-such-compiler");
    INFO(r.output);
    CHECK(r.status != 0);
    CHECK(r.says("milcgpu: the compiler of this make cannot be run: no-such-compiler (MY_CC=... names another"));
    CHECK_FALSE(r.says("has no asqtad or HISQ solver"));
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: a routine that MILC calls and does not have stops make, as without milcgpu", "[milc]") {
    const LinksProgram p;
    const fs::path folder = p.program.path / "hvy_qpot";
    LinksProgram::copy("hyp", folder);
    fs::copy(source_tree() / "tests/milc_host/hyp/include", p.program.path / "include");
    const std::string defines = "DEFINES='-DHYP_3D_SMEARING -DMILC_HOST_WITHOUT' ", target = "su3_hqp_hyp";
    const std::string undefined = "undefined reference to `load_hyp_links'";
    const Run without = run("cd " + folder.string() + " && make " + target + " " + defines);
    INFO(without.output);
    CHECK(without.status != 0);
    CHECK(without.says(undefined));
    const Run with = build(folder, p.prefix, defines, target);
    INFO(with.output);
    CHECK(with.status != 0);
    CHECK(with.says(undefined));
    CHECK(with.says("milcgpu: su3_hqp_hyp calls load_hyp_links, which none of its objects has"));
    CHECK_FALSE(with.says("calls malloc"));
    // Where that cannot be seen, the program is linked, and ends in words when MILC's own is to be called.
    REQUIRE(build(folder, p.prefix, defines + "milcgpu_nm=false", target).status == 0);
    const Run own = p.on_links("MILCGPU_OFF=1", "hvy_qpot/su3_hqp_hyp", "3 2 9 0.75 0.6 0.3");
    INFO(own.output);
    CHECK(own.says("milcgpu: MILC's own load_hyp_links is to be called, but is not in this program: the run ends"));
    CHECK(own.status == 1);
}

// The linker makes 0 of a weak routine that is not in the program.
TEST_CASE("milc_build: every weak routine is called by way of what looks for it", "[milc]") {
    const fs::path glue = source_tree() / "milc_glue/use_gpu";
    const std::string table = tests::text_of(glue / "routines.def");
    const auto wrapped = tests::names_in(table, R"(\nMILCGPU_(?:WRAPPED|OF_PROGRAM)\([^,]+, (\w+),)"),
               called = tests::names_in(table, R"(\nMILCGPU_CALLED\([^,]+, (\w+),)");
    CHECK(wrapped.size() > 60);
    CHECK(called.size() > 10);
    std::set<std::string> defined;
    for (const auto &file : fs::directory_iterator(glue)) {
        const std::string name = file.path().filename().string();
        if (file.path().extension() != ".c")
            continue;
        const std::string text = tests::text_of(file.path());
        INFO(name);
        // memory.c has the routines of the C library, which are not weak; program.c declares all, to ask for them.
        const std::string once = "__real_##routine(void)";
        const size_t declared = name == "program.c" ? text.find(once) : std::string::npos;
        CHECK((text.find("__real_") == declared || name == "memory.c"));
        if (declared != std::string::npos)
            CHECK(text.find("__real_", declared + 1) == std::string::npos);
        for (const std::string &weak : called)
            for (size_t at = text.find(weak + "("); at != std::string::npos; at = text.find(weak + "(", at + 1)) {
                INFO(weak);
                const bool whole = std::isalnum(text[at - 1]) == 0 && text[at - 1] != '_';
                CHECK_FALSE((whole && text[text.rfind('\n', at) + 1] == ' ')); // within a function
            }
        defined.merge(tests::names_in(text, R"(\n\w[\w \*]*\b__wrap_(\w+)\()"));
        defined.merge(tests::names_in(text, R"(\n#define \w+ __wrap_(\w+)\n)")); // one of two names, by tree
    }
    for (const std::string &routine : wrapped) { // mesons.h gives master's name to one
        INFO(routine);
        CHECK((defined.count(routine) == 1 || routine == "spin_taste_op_fn"));
    }
}

namespace {

// The program of tests/milc_host with headers that a test changes, of which the glue alone is built.
struct ChangedHeaders {
    Folder program;
    ChangedHeaders() { fs::copy(source_tree() / "tests/milc_host", program.path, fs::copy_options::recursive); }
    void change(const std::string &header, const std::string &from, const std::string &to) const {
        std::stringstream read;
        read << std::ifstream(program.path / header).rdbuf();
        std::string text = read.str();
        const size_t at = text.find(from);
        REQUIRE(at != std::string::npos);
        write(program.path / header, text.replace(at, from.size(), to));
    }
    Run make(const std::string &objects) const { return build(program.path, installed(), "ACTION=hisq", objects); }
};

} // namespace

TEST_CASE("milc_build: where MILC declares a routine otherwise, make stops and names it and both types", "[milc]") {
    const ChangedHeaders milc;
    struct Change {
        std::string header, from, to, routine, expected;
    };
    for (const Change &c :
         {Change{"include/imp_ferm_links.h", "ks_param *ksp, int num_masses", "ks_param *ksp, long num_masses",
                 "mat_invert_multi", "ks_param *, int, quark_invert_control *, imp_ferm_links_t **)"},
          Change{"generic_ks/generic_ks_includes.h", "d_plaquette(double *space", "d_plaquette(float *space",
                 "d_plaquette", "void d_plaquette (double *, double *)"},
          Change{"include/fermion_links.h", "fn_links_t **fn, fn_links_t *fn_deps",
                 "fn_links_t *fn, fn_links_t *fn_deps", "destroy_hisq_links_milc",
                 "hisq_auxiliary_t *, fn_links_t **, fn_links_t *)"}}) {
        milc.change(c.header, c.from, c.to);
        const Run r = milc.make("milcgpu_start.o");
        milc.change(c.header, c.to, c.from);
        INFO(r.output);
        CHECK(r.status != 0);
        const size_t first = r.output.find("milcgpu: MILC declares " + c.routine + " otherwise than milcgpu expects");
        CHECK(first < r.output.find("conflicting types"));
        CHECK(r.says("milcgpu: expected: "));
        CHECK(r.says(c.expected));
        CHECK(r.says("milcgpu: MILC's: "));
        CHECK(r.says(fs::path(c.header).filename().string()));
        CHECK(r.says("milcgpu knows MILC's master"));
        CHECK(r.says("milcgpu: make stops."));
        CHECK_FALSE(r.says("solves and links of"));
    }
    // A MILC between two of them: a file that has no part in another's is compiled for the generation that it fits.
    milc.change("include/imp_ferm_links.h", "links_multi fn_multi);", "imp_ferm_links_t *fn_multi);");
    const Run between = milc.make("milcgpu_start.o");
    INFO(between.output);
    CHECK(between.status == 0);
    const Run glue = run("cat " + milc.program.path.string() + "/milcgpu_glue");
    CHECK(glue.says("invert -DMILCGPU_MILC=3"));
    CHECK(glue.says("solve -DMILCGPU_MILC=2"));
}

TEST_CASE("milc_build: without momenta, smeared links or sets of propagators the glue is whole", "[milc]") {
    const ChangedHeaders milc;
    milc.change("generic_ks/generic_ks_includes.h", "anti_hermitmat mom[4]", "anti_hermitmat other_mom[4]");
    milc.change("include/imp_ferm_links.h", "su3_matrix *ape_links;", "su3_matrix *other_links;");
    milc.change("include/imp_ferm_links.h", "ape_links_ks_phases", "other_phases");
    milc.change("include/imp_ferm_links.h", "ks_eigen_param eigen_param;", "ks_eigen_param other_param;");
    std::string objects;
    for (const auto &file : fs::directory_iterator(installed() / "share/milcgpu"))
        if (const fs::path name = file.path().filename();
            name.extension() == ".c" && name != "check.c" && name != "probe.c")
            objects += " milcgpu_" + name.stem().string() + ".o";
    const Run r = milc.make(objects);
    INFO(r.output);
    REQUIRE(r.status == 0);
    CHECK_FALSE(r.says("warning"));
    CHECK_FALSE(r.says("own routines")); // a program may be without them
    const std::string folder = milc.program.path.string();
    const Run glue = run("cat " + folder + "/milcgpu_glue " + folder + "/milcgpu_link");
    CHECK(glue.says("MILCGPU_GLUE_solve"));
    for (const char *absent : {"GLUE_md", "GLUE_updates", "GLUE_mesons", "GLUE_invert", "propagators", "wrap=update_u"})
        CHECK_FALSE(glue.says(absent));
    // What its files call of one another is there, or in the library.
    const Run undefined = run("cd " + folder + " && { nm -P milcgpu_*.o; nm -P -D " + installed().string() +
                              "/lib/libmilcgpu.so; } | awk '$2 == \"U\" { asked[$1] } $2 ~ /[TDBR]/ { has[$1] } "
                              "END { for (n in asked) if (n ~ /^milcgpu_/ && !(n in has)) print n; print \"end\" }'");
    CHECK(undefined.output == "end\n");
}

TEST_CASE("milc_build: a member or a routine that MILC has under another name is said", "[milc]") {
    const ChangedHeaders milc;
    const Run known = milc.make("milcgpu_start.o");
    INFO(known.output);
    CHECK_FALSE(known.says("own routines"));
    CHECK_FALSE(known.says("do not declare ks_congrad_parity_cpu:"));
    milc.change("include/imp_ferm_links.h", "Nvecs", "Nvecs_of_another_name");
    milc.change("include/imp_ferm_links.h", "su3_matrix *ape_links;", "su3_matrix *other_links;");
    milc.change("generic_ks/generic_ks_includes.h", "ks_congrad_parity_cpu", "ks_congrad_parity_host");
    const Run r = milc.make("milcgpu_start.o");
    INFO(r.output);
    CHECK(r.status == 0);
    for (const char *part :
         {"stay with MILC's own routines, because MILC's headers do not have what invert.c reads",
          "do not have what propagators.c reads", "do not have what mesons.c reads", "error: 'ape_links' undeclared",
          "no member named", "'Nvecs'", "Take a milcgpu that knows this MILC",
          "MILC's headers do not declare ks_congrad_parity_cpu: ", "milcgpu knows MILC's master"}) {
        INFO(part);
        CHECK(r.says(part));
    }
}

// On a tree of one program with three targets; of the last one MILC's headers are missing when the glue wants them.
TEST_CASE("milc_build: the probe of a MILC tree says what builds without the word, and with it", "[milc]") {
    Folder tree;
    const fs::path folder = tree.path / "pure_gauge";
    fs::create_directory(folder);
    write(folder / "main.c", "int main(void) { return 0; }\n");
    write(folder / "layout_hyper_prime.c", "int layout;\n");
    write(folder / "quark_action.h", "#define HISQ 1\n#define FERM_ACTION HISQ\n");
    write(tree.path / "Makefile", "CC = ${MY_CC}\nCFLAGS = ${OPT} -I. ${DEFINES}\nLAYOUT = layout_hyper_prime.o\n"
                                  "include Make_template\n"
                                  "localmake: main.o ${LAYOUT}\n\t${CC} -o ${MYTARGET} main.o ${LAYOUT} ${LMPI}\n");
    std::string targets;
    for (const auto &[target, defines] :
         {std::pair("su3_ora", ""), {"broken", "-Dreturn=nothing"}, {"su3_rhmc", "-DFN"}})
        targets +=
            std::string(target) + "::\n\t${MAKE} localmake \"MYTARGET= " + target + "\" \"DEFINES= " + defines + "\"\n";
    write(folder / "Make_template", targets);
    const Run r = run("MILCGPU_LIB=" + (installed() / "lib").string() + " sh " +
                      (source_tree() / "tests/probe_milc.sh").string() + " " + tree.path.string());
    INFO(r.output);
    CHECK(tests::matches(r.output, "pure_gauge +su3_ora +yes +yes +not served\n").size() == 1);
    CHECK(tests::matches(r.output, "pure_gauge +broken +no +- +.*'nothing' undeclared").size() == 1);
    CHECK(tests::matches(r.output, "pure_gauge +su3_rhmc +yes +NO +.*generic_ks_includes.h").size() == 1);
    CHECK(r.status == 1);
    CHECK_FALSE(fs::exists(folder / "main.o")); // it works on a copy
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

TEST_CASE("milc_build: CMake stops in words where it cannot take milcgpu", "[milc]") {
    if (!tests::cmake_takes_milcgpu())
        SKIP_TEST("no cmake of version 3.21 or newer");
    Folder folder, prefix;
    make_prefix(prefix.path, "");
    const std::string argument = "-DCMAKE_PROJECT_INCLUDE=" + (prefix.path / "share/milcgpu/milcgpu.cmake").string(),
                      config = prefix.path.string() + "/bin/milcgpu-config --cmake";
    CHECK(run(config).output == argument + "\n");
    write(folder.path / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)\nproject(milc C)\n");
    const auto stops = [&](const std::string &words, const std::string &said) {
        const Run r = run("cd " + folder.path.string() + " && cmake " + words);
        INFO(words << "\n" << r.output);
        CHECK(r.status != 0);
        std::string line;
        for (const auto &word : tests::matches(r.output, "\\S+"))
            line += word[0] + " ";
        CHECK(line.find(said) != std::string::npos);
        CHECK_FALSE(r.says("Build files have been written"));
    };
    const auto with = [&](const std::string &setting) {
        write(folder.path / "set.cmake",
              "set(" + setting + ")\ninclude(" + prefix.path.string() + "/share/milcgpu/milcgpu.cmake)\n");
        return "-P set.cmake";
    };
    stops(with("CMAKE_VERSION 3.20.6"), "milcgpu: CMake 3.20.6 is too old, 3.21 is needed.");
    stops(with("CMAKE_GENERATOR Xcode"),
          "milcgpu: the generator Xcode cannot be used: say -G 'Unix Makefiles' or -G Ninja");
    stops("-B build -DCMAKE_PROJECT_INCLUDE=/nowhere/milcgpu.cmake .",
          "could not find requested file: /nowhere/milcgpu.cmake");
    stops("-B 'the build' " + argument + " .", "milcgpu: make cannot have a space in the name of a folder: ");
    fs::remove(prefix.path / "lib/libmilcgpu.so"); // the argument was written down while it was there
    stops("-B build " + argument + " .", "libmilcgpu.so or milcgpu.h is missing");
    stops("-B build $(" + config + ") .", "Unknown argument --milcgpu-stops-this-cmake");
    CHECK(run(config).status == 1);
}

TEST_CASE("milc_build: the gradient flow of MILC's program, its lines, its links", "[milc][measurements]") {
    const FlowProgram p("LUSCHER");
    // Twice 0.04 and what is left; the library's step ends where MILC's does.
    const Run r = p.flow("MILCGPU_VERBOSE=1", "0 16 0.04 0.1 0");
    INFO(r.output);
    REQUIRE(r.status == 0);
    reference::Gauge u = p.links;
    const auto printed = lines(r, "GFLOW:");
    REQUIRE(printed.size() == 5);
    const double steps[] = {0, 0.04, 0.04, 0.1 - 0.08};
    double time = 0;
    for (int k = 0; k < 4; ++k) {
        if (k > 0)
            u = reference::luescher_step(p.lattice, u, reference::wilson_flow(), steps[k]);
        time += steps[k];
        CHECK(differs(printed[k], time, reference::flow_observables(p.lattice, u)) < 1e-13);
    }
    CHECK(reference::relative_difference(p.flown(), u) < 1e-14);
    CHECK(differs(printed[4], 0, reference::flow_observables(p.lattice, u)) < 1e-13); // of a flow without a step
    CHECK(r.says("#LABEL time Clover_t Clover_s Plaq_t Plaq_s Rect_t Rect_s charge\nGFLOW: 0 "));
    CHECK(r.says("Number of steps = 3\nglobals: 3 steps, 0 rejected, last step 0.02\n"));
    CHECK(r.says("Number of steps = 0\n"));
    CHECK_FALSE(r.says("rejected steps"));
    CHECK_FALSE(r.says("ADAPT"));
    CHECK_FALSE(r.says("MILC's own flow"));
    // Tables without what staggered fermions have.
    CHECK(r.says("MILC 7, wilson_flow, sizeof(site) "));
    CHECK(r.says("milcgpu: run_gradient_flow        double        host"));
    CHECK_FALSE(r.says("ks_congrad"));
    CHECK_FALSE(r.says("precision of solves"));
    CHECK(lines(r, "milcgpu: run_gradient_flow ").back().front() == 2); // calls, in the table at exit
    // MILC's loop: ten steps of 0.1 do not add up to 1, so there is an eleventh of no length.
    const Run exact = p.flow("MILCGPU_VERBOSE=0", "1 8 0.1 1 0");
    CHECK(exact.says("Number of steps = 11\n"));
    CHECK(lines(exact, "GFLOW:").size() == 13);
    // By MILC: asked for, or because the library cannot.
    for (const auto &[environment, parameters] : {std::pair("MILCGPU_OFF=1", "0 8 0.04 0.1 0"),
                                                  {"MILCGPU_VERBOSE=0", "0 0 0.04 0.1 0"},
                                                  {"MILCGPU_VERBOSE=0", "0 17 0.04 0.1 0"},
                                                  {"MILCGPU_VERBOSE=0", "0 8 -1 0.1 0"}}) {
        const Run own = p.flow(environment, parameters);
        INFO(own.output);
        CHECK(own.status == 0);
        CHECK(own.says("MILC's own flow: step "));
        CHECK_FALSE(own.says("#LABEL"));
        CHECK(reference::relative_difference(p.flown(), p.links) == 0);
    }
    // Compared with a flow that does nothing; the device's links stay.
    const Run compared = p.flow("MILCGPU_COMPARE=1", "0 16 0.04 0.1 0");
    INFO(compared.output);
    CHECK(compared.says("MILC's own flow: step 0.04 stop 0.1"));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(compared.says("last step 0.02"));
    CHECK(reference::relative_difference(p.flown(), u) < 1e-14);
    CHECK(p.flow("MILCGPU_COMPARE=strict", "0 16 0.04 0.1 0").status != 0);
}

TEST_CASE("milc_build: the gradient flow of a wilson_flow that calls its steps one by one", "[milc][measurements]") {
    LONG_TEST;
    const LinksProgram p;
    const fs::path from = source_tree() / "tests/milc_host/pure_gauge", folder = p.program.path / "pure_gauge";
    LinksProgram::copy("pure_gauge", folder);
    for (const char *headers : {"generic", "include"})
        fs::copy(from / headers, p.program.path / headers);
    const Run built = build(folder, p.prefix, "FLOW=1", "wilson_flow");
    INFO(built.output);
    REQUIRE(built.status == 0);
    CHECK(built.says("milcgpu: the gradient flow of wilson_flow goes to "));
    CHECK_FALSE(built.says("warning"));
    const auto flows = [&](const std::string &environment, const std::string &parameters) {
        return p.on_links(environment, "pure_gauge/wilson_flow", parameters);
    };
    const Run r = flows("MILCGPU_VERBOSE=1", "0 16 0.04");
    INFO(r.output);
    REQUIRE(r.status == 0);
    CHECK_FALSE(r.says("MILC's own step"));
    CHECK(lines(r, "milcgpu: run_gradient_flow ").back().front() == 5); // calls, in the table at exit
    const auto printed = lines(r, "WFLOW");
    REQUIRE(printed.size() == 3);
    reference::Gauge u = p.links;
    for (int k = 0; k < 3; ++k) {
        if (k > 0)
            u = reference::luescher_step(p.lattice, u, reference::wilson_flow(), 0.04);
        const reference::FlowObservables o = reference::flow_observables(p.lattice, u);
        CHECK(printed[k][1] == Approx(o.clover_t).epsilon(1e-12));
        CHECK(printed[k][2] == Approx(o.clover_s).epsilon(1e-12));
        CHECK(std::abs(printed[k][3] - o.charge) < 1e-12);
    }
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
    for (const char *environment : {"MILCGPU_OFF=1", "MILCGPU_VERBOSE=0"}) {
        const bool off = std::string(environment) == "MILCGPU_OFF=1";
        const Run own = flows(environment, off ? "0 8 0.04" : "1 0 0.04"); // the library has no order 0
        CHECK(own.says("MILC's own step"));
        CHECK(reference::relative_difference(p.made(), p.links) == 0);
    }
    // MILC's own, which does nothing, is found out; the device's links stay.
    const Run compared = flows("MILCGPU_COMPARE=1", "0 16 0.04");
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
}

TEST_CASE("milc_build: MILC's adaptive flow has its lines of steps", "[milc][measurements]") {
    LONG_TEST;
    const FlowProgram p("ADAPT_BS");
    const Run r = p.flow("MILCGPU_VERBOSE=0", "1 8 0.3 0.5 1e-4");
    INFO(r.output);
    REQUIRE(r.status == 0);
    const auto flow = lines(r, "GFLOW:"), adapt = lines(r, "ADAPT:");
    REQUIRE(adapt.size() == flow.size());
    REQUIRE(adapt.size() >= 4);
    CHECK(r.says("#LABEL2 time stepsize distance local_tol/distance\nGFLOW: 0 "));
    CHECK(adapt[0] == std::vector<double>{0, 0.3, 0, 0});
    double time = 0;
    const size_t end = adapt.size() - 1; // the flow without a step
    for (size_t k = 1; k < end; ++k) {
        time += adapt[k][1];
        CHECK(flow[k][0] == Approx(time).epsilon(1e-13));
        CHECK(adapt[k][3] == Approx(1e-4 / adapt[k][2]).epsilon(1e-12));
        if (k + 1 < end)
            CHECK(adapt[k][2] <= 1e-4);
    }
    CHECK(time == Approx(0.5).epsilon(1e-14));
    const int rejected = static_cast<int>(lines(r, "Number of rejected steps =")[0][0]);
    CHECK(rejected > 0);
    CHECK(r.says("globals: " + std::to_string(end - 1) + " steps, " + std::to_string(rejected) + " rejected"));
}

TEST_CASE("milc_build: HYP smearing of MILC's program, in space and in all directions", "[milc][measurements]") {
    const LinksProgram p;
    const fs::path folder = p.program.path / "hvy_qpot";
    LinksProgram::copy("hyp", folder);
    fs::copy(source_tree() / "tests/milc_host/hyp/include", p.program.path / "include");
    const Run built = build(folder, p.prefix, "DEFINES=-DHYP_3D_SMEARING", "su3_hqp_hyp");
    INFO(built.output);
    REQUIRE(built.status == 0);
    CHECK(built.says("milcgpu: HYP smearing of su3_hqp_hyp goes to "));
    CHECK_FALSE(built.says("warning"));
    // The direction left out (-1: none), the projection (2: by hits), hits, weights.
    const auto smear = [&](const std::string &environment, const std::string &parameters) {
        return p.on_links(environment, "hvy_qpot/su3_hqp_hyp", parameters);
    };
    for (const bool in_space : {true, false}) {
        const Run r = smear("MILCGPU_VERBOSE=1", std::string(in_space ? "3" : "-1") + " 2 9 0.75 0.6 0.3");
        INFO(r.output);
        REQUIRE(r.status == 0);
        CHECK(reference::relative_difference(
                  p.made(), reference::hyp_smear(p.lattice, p.links, {0.75, 0.6, 0.3}, in_space, 9)) < 1e-14);
        CHECK_FALSE(r.says("MILC's own smearing"));
        CHECK(r.says("MILC 7, hvy_qpot, sizeof(site) "));
        CHECK(r.says("milcgpu: load_hyp_links           double        host"));
        CHECK_FALSE(r.says("ks_congrad"));
        CHECK(lines(r, "milcgpu: load_hyp_links ").back().front() == 1); // calls, in the table at exit
    }
    // By MILC: asked for, or because the library does something else.
    for (const auto &[environment, parameters] : {std::pair("MILCGPU_OFF=1", "3 2 9 0.75 0.6 0.3"),
                                                  {"MILCGPU_VERBOSE=0", "0 2 9 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 1 9 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 2 0 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 2 9 0.75 1.6 0.3"}}) {
        const Run own = smear(environment, parameters);
        INFO(own.output);
        CHECK(own.status == 0);
        CHECK(own.says("MILC's own smearing"));
        CHECK(reference::relative_difference(p.made(), p.links) == 0);
    }
    // Compared with a smearing that does nothing; the device's links stay.
    const Run compared = smear("MILCGPU_COMPARE=1", "3 2 9 0 0.6 0.3");
    INFO(compared.output);
    CHECK(compared.says("MILC's own smearing: without 3, alpha2 0.6"));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(reference::relative_difference(p.made(), p.links) > 0.01);
    CHECK(smear("MILCGPU_COMPARE=strict", "3 2 9 0 0.6 0.3").status != 0);
}

namespace {

// A program of pure_gauge, which is built.
struct PureGauge : LinksProgram {
    PureGauge(const std::string &defines, const std::string &target, const std::string &says) {
        const fs::path from = source_tree() / "tests/milc_host/pure_gauge", folder = program.path / "pure_gauge";
        copy("pure_gauge", folder);
        for (const char *headers : {"generic", "include"})
            fs::copy(from / headers, program.path / headers);
        const Run built = build(folder, prefix, defines, target);
        INFO(built.output);
        REQUIRE(built.status == 0);
        CHECK(built.says(says));
        CHECK_FALSE(built.says("warning"));
    }
};

} // namespace

TEST_CASE("milc_build: over-relaxation and heat bath of MILC's pure gauge program, with MILC's random numbers",
          "[milc][heatbath]") {
    LONG_TEST;
    const PureGauge p("SWEEPS=1", "su3_ora", "milcgpu: over-relaxation and heat bath of su3_ora go to ");
    const auto runs = [&](const std::string &environment) {
        return p.on_links(environment, "pure_gauge/su3_ora", "update");
    };
    const Run own = runs("MILCGPU_OFF=1");
    REQUIRE(own.status == 0);
    CHECK(own.says("MILC's own relax\nMILC's own monte\n"));
    const reference::Gauge wanted = p.made();
    CHECK(reference::relative_difference(wanted, p.links) > 0.1);
    for (const char *environment : {"MILCGPU_VERBOSE=1", "MILCGPU_AUTO=0", "MILCGPU_TEST=nan"}) {
        const Run r = runs(environment);
        INFO(r.output);
        REQUIRE(r.status == 0);
        CHECK_FALSE(r.says("MILC's own relax"));
        CHECK_FALSE(r.says("MILC's own monte\n"));
        CHECK(reference::relative_difference(p.made(), wanted) < 1e-13);
        CHECK(lines(r, "generators: ") == lines(own, "generators: "));
    }
    const Run compared = runs("MILCGPU_COMPARE=strict");
    INFO(compared.output);
    CHECK(compared.status == 0);
    CHECK(compared.says("compare relax: links"));
    CHECK(compared.says("compare monte: links"));
    CHECK(lines(compared, "generators: ") == lines(own, "generators: "));
}

TEST_CASE("milc_build: molecular dynamics and gauge fixing of MILC's pure gauge program", "[milc][measurements]") {
    const PureGauge p("", "su3_hmc", "milcgpu: molecular dynamics of su3_hmc goes to ");
    const auto runs = [&](const std::string &environment, const std::string &what) {
        return p.on_links(environment, "pure_gauge/su3_hmc", what);
    };
    // Momenta are 0.1 i n times diag(1, -1, 0), n the number of the direction; the step is 0.1.
    reference::Gauge momenta(p.links.size());
    for (size_t k = 0; k < momenta.size(); ++k) {
        momenta[k].e[0][0] = {0, 0.1 * double(k % 4 + 1)};
        momenta[k].e[1][1] = -momenta[k].e[0][0];
    }
    const auto plaquettes = std::vector<reference::Loops>{{1, reference::plaquettes()}};
    reference::Gauge moved = reference::update_links(p.links, momenta, 0.05, 6);
    momenta = reference::add_gauge_force(p.lattice, moved, plaquettes, 0.1 * 5.7 / 3, momenta);
    moved = reference::update_links(moved, momenta, 0.05, 6);
    for (reference::Matrix &link : moved)
        link = reference::reunitarize(link);
    for (const char *environment : {"MILCGPU_VERBOSE=1", "MILCGPU_AUTO=0", "MILCGPU_TEST=nan"}) {
        const Run r = runs(environment, "update");
        INFO(r.output);
        REQUIRE(r.status == 0);
        CHECK(reference::relative_difference(p.made(), moved) < 1e-14);
        CHECK_FALSE(r.says("MILC's own "));
        const auto actions = lines(r, "ACTION: g,h = ");
        REQUIRE(actions.size() == 2);
        const double three_planes = reference::plaquette_parts(p.lattice, p.links).space_space +
                                    reference::plaquette_parts(p.lattice, p.links).space_time;
        CHECK(actions[0][0] == Approx(-5.7 * p.lattice.volume() * 3 * three_planes).epsilon(1e-6));
        CHECK(actions[0][1] == Approx(p.lattice.volume() * 0.01 * (1 + 4 + 9 + 16)).epsilon(1e-6));
    }
    const Run own = runs("MILCGPU_OFF=1", "update");
    for (const char *routine : {"d_action", "update_u, 0.05", "update_h, 0.1", "reunitarize_cpu"})
        CHECK(own.says(std::string("MILC's own ") + routine));
    CHECK(reference::relative_difference(p.made(), p.links) == 0);
    // Compared with updates that do nothing; the device's links stay, and random numbers are the same.
    const Run compared = runs("MILCGPU_COMPARE=1", "update");
    INFO(compared.output);
    CHECK(compared.says("compare update_u: "));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(compared.says("ranmom                         1 compared, 0 beyond"));
    CHECK(reference::relative_difference(p.made(), moved) < 1e-14);
    const Run stretched = runs("MILCGPU_VERBOSE=0", "stretched");
    INFO(stretched.output);
    CHECK(reference::relative_difference(p.made(), p.links) < 1e-14);
    const Run fixed = runs("MILCGPU_VERBOSE=0", "fix");
    INFO(fixed.output);
    CHECK(fixed.says("GFIX: Ended at step "));
    CHECK_FALSE(fixed.says("MILC's own "));
}
