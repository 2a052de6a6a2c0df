// The word on MILC's make line (milc_glue/use_gpu) breaks no program; if it cannot do its work, make stops. A makefile
// of a few lines stands for MILC's.
#include "tests/milc_build_support.h"
#include "tests/source_text.h"
#include <set>
#include <utility>

using namespace tests::milc_build;
using tests::Folder;
using tests::source_tree;

namespace {

// Lines of routines.def that replace a routine.
constexpr const char *wrapped_routines =
    R"re(\nMILCGPU_(?:(?:WRAPPED|OF_PROGRAM)\(|COUNTED\(\w+, |OFFLOADED\(\w+, \w+, "\w+", )[^,]+, (\w+),)re";

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

} // namespace

TEST_CASE("milc_build: a program without a staggered solver is built as without the word", "[milc]") {
    for (const char *words : {"", "DEFINES=-DFN"}) { // some programs define FN but lack the header of the action
        Folder program;
        make_program(program.path);
        const Run r = succeeded(build(program.path, installed(), words));
        CHECK(r.says("milcgpu: su3_ora has no asqtad or HISQ solver"));
        CHECK(r.says("MILC is built"));
        CHECK(shell("cd " + program.path.string() + " && ldd su3_ora && ./su3_ora").status == 0);
        CHECK_FALSE(shell("ldd " + program.path.string() + "/su3_ora").says("milcgpu"));
    }
}

TEST_CASE("milc_build: another fermion action is left alone, and the right one is never dropped silently", "[milc]") {
    Folder program;
    make_program(program.path);
    write(program.path / "quark_action.h", "#define HISQ 1\n#define EO_TYPE 2\n#define FN_TYPE 3\n"
                                           "#define FERM_ACTION EO_TYPE\n");
    CHECK(build(program.path, installed(), "DEFINES=-DFN").status == 0);
    // With the right action the glue is compiled, or make reports why it cannot: here MILC's headers are missing.
    write(program.path / "quark_action.h", "#define HISQ 1\n#define FERM_ACTION HISQ\n");
    const Run r = build(program.path, installed(), "DEFINES=-DFN");
    CHECK(r.status != 0);
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: a missing compiler stops make and does not count as a missing solver", "[milc]") {
    Folder program;
    make_program(program.path);
    const Run r = build(program.path, installed(), "-k CC=no-such-compiler");
    CHECK(r.status != 0);
    CHECK(r.says("cannot be run: no-such-compiler"));
    CHECK_FALSE(r.says("has no asqtad or HISQ solver"));
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: a routine that MILC calls but does not have stops make, as without milcgpu", "[milc]") {
    LinksProgram p;
    p.name = "hvy_qpot/su3_hqp_hyp";
    const fs::path folder = p.copy_hyp();
    const std::string defines = "DEFINES='-DHYP_3D_SMEARING -DMILC_HOST_WITHOUT' ", target = "su3_hqp_hyp";
    const std::string undefined = "undefined reference to `load_hyp_links'";
    const Run without = shell("cd " + folder.string() + " && make " + target + " " + defines);
    CHECK(without.status != 0);
    CHECK(without.says(undefined));
    const Run with = build(folder, p.prefix, defines, target);
    CHECK(with.status != 0);
    CHECK(with.says(undefined));
    CHECK(with.says("milcgpu: su3_hqp_hyp calls load_hyp_links"));
    CHECK_FALSE(with.says("calls malloc"));
    // If make cannot see that, the program is linked, and ends with a message when it should call MILC's own.
    REQUIRE(build(folder, p.prefix, defines + "milcgpu_nm=false", target).status == 0);
    const Run own = p.on_links("MILCGPU_OFF=1", "3 2 9 0.75 0.6 0.3");
    CHECK(own.says("MILC's own load_hyp_links"));
    CHECK(own.status == 1);
}

// The linker sets a weak routine that the program lacks to 0.
TEST_CASE("milc_build: every weak routine is called through a check that it exists", "[milc]") {
    const fs::path glue = source_tree() / "milc_glue/use_gpu";
    const std::string table = tests::text_of(source_tree() / "milc_glue/api/routines.def");
    const auto wrapped = tests::names_in(table, wrapped_routines),
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
        // memory.c wraps routines of the C library, which are not weak; program.c declares all routines to check that
        // they exist.
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
        defined.merge(tests::names_in(text, R"(\n#define \w+ __wrap_(\w+)\n)")); // the tree decides between two names
    }
    for (const std::string &routine : wrapped) { // mesons.h gives one routine the name that master uses
        INFO(routine);
        CHECK((defined.count(routine) == 1 || routine == "spin_taste_op_fn"));
    }
}

namespace {

// A function's body without the arguments of these calls.
std::string without_arguments(std::string body, const std::vector<std::string> &calls) {
    for (const std::string &call : calls)
        for (size_t at = body.find(call + "("); at != std::string::npos; at = body.find(call + "(")) {
            size_t end = at + call.size(), depth = 0;
            do
                depth += body[end] == '(' ? 1 : body[end] == ')' ? -1 : 0;
            while (++end < body.size() && depth != 0);
            body.replace(at, end - at, "protocol");
        }
    return body;
}

// The wrappers of a file that leave a call to MILC's own without a reason outside the arguments of the protocol.
// around: wrappers that never reach the protocol.
std::set<std::string> silent_wrappers(const std::string &file, std::set<std::string> &around) {
    const std::vector<std::string> protocol = {"milcgpu_offload",  "milcgpu_offload_each", "milcgpu_by_original",
                                               "OFFLOAD_SMEARING", "OFFLOAD_SITE_FORCE",   "milcgpu_draw",
                                               "draw_momenta"};
    std::multimap<std::string, std::string> functions = tests::functions_of(file);
    std::set<std::string> silent, reach; // functions that call the protocol, directly or through others of the file
    for (auto &[name, body] : functions) {
        const std::string rest = without_arguments(body, protocol);
        if (rest != body || tests::has(body, "milcgpu_declines("))
            reach.insert(name);
        if (rest != body && tests::has(rest, "milcgpu_original(") && !tests::has(body, "milcgpu_declines("))
            silent.insert(name);
    }
    for (size_t before = 0; before != reach.size();) {
        before = reach.size();
        for (const auto &[name, body] : functions)
            for (const std::string &called : std::set<std::string>(reach))
                if (tests::names_in(body, "\\b(" + called + ")\\(").size() == 1)
                    reach.insert(name);
    }
    for (const auto &[name, body] : functions)
        if (name.rfind("__wrap_", 0) == 0 && reach.count(name) == 0)
            around.insert(name.substr(7));
    return silent;
}

} // namespace

TEST_CASE("milc_build: the protocol logs why a call is left to the original", "[milc]") {
    std::set<std::string> around;
    for (const auto &file : fs::directory_iterator(source_tree() / "milc_glue/use_gpu"))
        if (file.path().extension() == ".c") {
            INFO(file.path());
            CHECK(silent_wrappers(file.path(), around) == std::set<std::string>());
        }
    // Wrappers that do not replace a routine, or that log the reason in another way. Any other wrapper must use the
    // protocol.
    const std::set<std::string> known = {
        // Memory and the program.
        "memset", "memcpy", "calloc", "malloc", "initialize_machine", "readin", "normal_exit", "terminate",
        // What MILC sets up for its sites.
        "make_lattice", "make_gather", "make_nn_gathers", "initialize_site_prn_from_seed",
        // Files and checks of lattices.
        "restore_serial", "restore_parallel", "restore_mpiio", "restore_serial_scidac", "restore_parallel_scidac",
        "save_serial", "save_parallel", "save_mpiio", "save_serial_scidac", "save_parallel_scidac", "save_serial_ildg",
        "save_parallel_ildg", "check_unitarity", "nersc_cksum", "d_linktrsum", "d_plaquette", "reunitarize_cpu",
        // Random numbers with MILC's lines.
        "grsource_imp_rhmc",
        // Copies and phases of fields.
        "copy_v_from_ksp", "insert_ksp_from_v", "insert_v_from_c", "rephase_field_offset",
        // What MILC reads, changes and frees.
        "rephase", "gauge_field_copy", "reload_lattice", "create_G_from_site", "create_fermion_links_from_site",
        "restore_fermion_links_from_site", "create_v_field_from_site_member", "get_fatlinks", "get_lnglinks",
        "get_fatbacklinks", "get_lngbacklinks", "get_fm_links", "get_hisq_auxiliary", "boundary_twist_fn",
        "fermion_links_want_aux", "destroy_fn_links", "destroy_hisq_links_milc", "destroy_hisq_auxiliary_t",
        // Readers of eigenvectors.
        "reload_ks_eigen", "save_ks_eigen", "check_eigres", "reset_eigenvalues", "measure_chirality", "print_densities",
        // Baryons: MILC's cache, for which the device has no need; MILC's blinding.
        "create_qk_oct_cache", "destroy_qk_oct_cache", "blind_vdcomplex",
        // MILC's loops around offloaded routines.
        "update", "update_h", "d_action", "ks_ratinv", "ks_rateval", "g_measure_ks", "f_meas_imp_field", "solve_ksprop",
        "grsource_plain_field", "z2rsource_plain_field"};
    CHECK(around == known);
    const Folder folder; // a wrapper that hides its condition for MILC's own
    write(folder.path / "silent.c", "void __wrap_f(int n) {\n    milcgpu_call call = {0};\n    if (n < 1)\n"
                                    "        milcgpu_original(f)(n);\n    else\n"
                                    "        milcgpu_offload(&call, g(n), milcgpu_original(f)(n));\n}\n"
                                    "void __wrap_h(int n) {\n    if (!milcgpu_offloads())\n"
                                    "        milcgpu_original(h)(n);\n}\n");
    std::set<std::string> without;
    CHECK(silent_wrappers(folder.path / "silent.c", without) == std::set<std::string>{"__wrap_f"});
    CHECK(without == std::set<std::string>{"h"});
}

TEST_CASE("milc_build: docs/milc.md names every routine that is replaced and every row of the tables", "[milc]") {
    const fs::path tree = source_tree();
    const std::string page = tests::text_of(tree / "docs/milc.md");
    const size_t begin = page.find("\n## Which routines are taken over"), end = page.find("\n## ", begin + 1);
    REQUIRE(begin < end);
    const std::string text = page.substr(begin, end - begin);
    std::set<std::string> missing;
    const auto look = [&](const std::string &name) {
        const std::string without = tests::replaced(name, "_cpu$", "");
        if (!tests::has(text, "`" + name + "`") && !tests::has(text, "`" + without + "`"))
            missing.insert(name);
    };
    const std::string table = tests::text_of(tree / "milc_glue/api/routines.def");
    const auto replaced_ones = tests::names_in(table, wrapped_routines);
    const auto rows = tests::names_in(table, R"re(\nMILCGPU_(?:ROW|OFFLOADED)\(\w+, \w+, "(\w+)")re");
    CHECK(replaced_ones.size() > 100);
    CHECK(rows.size() > 35);
    for (const std::string &name : replaced_ones)
        look(name);
    for (const std::string &name : rows)
        look(name);
    CHECK(missing == std::set<std::string>());
}

namespace {

// The program of tests/milc_host with headers that a test changes; make builds only its glue.
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

TEST_CASE("milc_build: if MILC declares a routine otherwise, make stops and names it with both types", "[milc]") {
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
        CHECK(r.status != 0);
        const size_t first = r.output.find("milcgpu: MILC declares " + c.routine);
        CHECK(first < r.output.find("conflicting types"));
        CHECK(r.says(c.expected));
        CHECK(r.says(fs::path(c.header).filename().string()));
        CHECK_FALSE(r.says("solves and links of"));
    }
    // A MILC between two generations: each file is compiled for the generation that it fits, if no other file depends
    // on it.
    milc.change("include/imp_ferm_links.h", "links_multi fn_multi);", "imp_ferm_links_t *fn_multi);");
    succeeded(milc.make("milcgpu_start.o"));
    const Run glue = shell("cat " + milc.program.path.string() + "/milcgpu_glue");
    CHECK(glue.says("invert -DMILCGPU_MILC=3"));
    CHECK(glue.says("solve -DMILCGPU_MILC=2"));
}

TEST_CASE("milc_build: the glue is complete without momenta, smeared links or sets of propagators", "[milc]") {
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
    const Run r = succeeded(milc.make(objects));
    CHECK_FALSE(r.says("warning"));
    CHECK_FALSE(r.says("own routines")); // a program may lack them
    const std::string folder = milc.program.path.string();
    const Run glue = shell("cat " + folder + "/milcgpu_glue " + folder + "/milcgpu_link");
    CHECK(glue.says("MILCGPU_GLUE_solve"));
    for (const char *absent : {"GLUE_md", "GLUE_updates", "GLUE_mesons", "GLUE_invert", "propagators", "wrap=update_u"})
        CHECK_FALSE(glue.says(absent));
    // What its files call of one another is defined, there or in the library.
    const Run undefined = shell("cd " + folder + " && { nm -P milcgpu_*.o; nm -P -D " + installed().string() +
                                "/lib/libmilcgpu.so; } | awk '$2 == \"U\" { asked[$1] } $2 ~ /[TDBR]/ { has[$1] } "
                                "END { for (n in asked) if (n ~ /^milcgpu_/ && !(n in has)) print n; print \"end\" }'");
    CHECK(undefined.output == "end\n");
}

TEST_CASE("milc_build: a member or a routine that MILC names otherwise is reported", "[milc]") {
    const ChangedHeaders milc;
    const Run known = milc.make("milcgpu_start.o");
    CHECK_FALSE(known.says("own routines"));
    CHECK_FALSE(known.says("ks_congrad_parity_cpu"));
    milc.change("include/imp_ferm_links.h", "Nvecs", "Nvecs_of_another_name");
    milc.change("include/imp_ferm_links.h", "su3_matrix *ape_links;", "su3_matrix *other_links;");
    milc.change("generic_ks/generic_ks_includes.h", "ks_congrad_parity_cpu", "ks_congrad_parity_host");
    const Run r = succeeded(milc.make("milcgpu_start.o"));
    for (const char *part : {"own routines", "what invert.c reads", "what propagators.c reads", "what mesons.c reads",
                             "'ape_links' undeclared", "'Nvecs'", "ks_congrad_parity_cpu: "}) {
        INFO(part);
        CHECK(r.says(part));
    }
}

// A tree of one program with three targets; the glue of the last one lacks headers of MILC.
TEST_CASE("milc_build: the probe of a MILC tree reports what builds without the word and with it", "[milc]") {
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
    const Run r = shell("MILCGPU_LIB=" + (installed() / "lib").string() + " sh " +
                        (source_tree() / "tests/probe_milc.sh").string() + " " + tree.path.string());
    CHECK(tests::matches(r.output, "pure_gauge +su3_ora +yes +yes +not served\n").size() == 1);
    CHECK(tests::matches(r.output, "pure_gauge +broken +no +- +.*'nothing' undeclared").size() == 1);
    CHECK(tests::matches(r.output, "pure_gauge +su3_rhmc +yes +NO +.*generic_ks_includes.h").size() == 1);
    CHECK(r.status == 1);
    CHECK_FALSE(fs::exists(folder / "main.o")); // the probe works on a copy
}

TEST_CASE("milc_build: if a file of milcgpu is missing, make stops and names it", "[milc]") {
    for (const char *file : {"libmilcgpu.so", "milc_gpu.mk"}) {
        Folder program, prefix;
        make_program(program.path);
        make_prefix(prefix.path, file);
        const Run r = build(program.path, prefix.path);
        CHECK(r.status != 0);
        CHECK_FALSE(r.says("MILC is built"));
        CHECK(r.says(std::string(file) + " is missing"));
        CHECK(r.says("milcgpu-stops-this-make"));
        CHECK(shell(prefix.path.string() + "/bin/milcgpu-config --milc").status == 1);
    }
    // The user wrote the word while the library existed.
    Folder program, prefix;
    make_program(program.path);
    make_prefix(prefix.path, "libmilcgpu.so");
    const Run r = shell("make -C " + program.path.string() + " su3_ora MAKEFILES=" + prefix.path.string() +
                        "/share/milcgpu/milc_gpu.mk");
    CHECK(r.status != 0);
    CHECK(r.says("libmilcgpu.so"));
    CHECK_FALSE(r.says("MILC is built"));
}

TEST_CASE("milc_build: CMake stops with a message if it cannot use milcgpu", "[milc]") {
    if (!tests::cmake_takes_milcgpu())
        SKIP_TEST("no cmake of version 3.21 or newer");
    Folder folder, prefix;
    make_prefix(prefix.path, "");
    const std::string argument = "-DCMAKE_PROJECT_INCLUDE=" + (prefix.path / "share/milcgpu/milcgpu.cmake").string(),
                      config = prefix.path.string() + "/bin/milcgpu-config --cmake";
    CHECK(shell(config).output == argument + "\n");
    write(folder.path / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)\nproject(milc C)\n");
    const auto stops = [&](const std::string &words, const std::string &said) {
        const Run r = shell("cd " + folder.path.string() + " && cmake " + words);
        CHECK(r.status != 0);
        std::string line;
        for (const auto &word : tests::matches(r.output, "\\S+"))
            line += word[0] + " ";
        CHECK(tests::has(line, said));
        CHECK_FALSE(r.says("Build files have been written"));
    };
    const auto with = [&](const std::string &setting) {
        write(folder.path / "set.cmake",
              "set(" + setting + ")\ninclude(" + prefix.path.string() + "/share/milcgpu/milcgpu.cmake)\n");
        return "-P set.cmake";
    };
    stops(with("CMAKE_VERSION 3.20.6"), "milcgpu: CMake 3.20.6");
    stops(with("CMAKE_GENERATOR Xcode"), "milcgpu: the generator Xcode");
    stops("-B build -DCMAKE_PROJECT_INCLUDE=/nowhere/milcgpu.cmake .", "/nowhere/milcgpu.cmake");
    stops("-B 'the build' " + argument + " .", "a space in the name");
    fs::remove(prefix.path / "lib/libmilcgpu.so"); // the user wrote the argument while the library existed
    stops("-B build " + argument + " .", "libmilcgpu.so");
    stops("-B build $(" + config + ") .", "--milcgpu-stops-this-cmake");
    CHECK(shell(config).status == 1);
}
