// Runs the MILC-shaped programs of tests/milc_host, which check their own results, with all settings that matter, and
// checks what they log.
#include "gpu_kernels/machine/backend/lanes.h"
#include "tests/milc_host_support.h"
#include "tests/source_text.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <omp.h>

using namespace tests::milc_host;

namespace {

const std::string on_host = "MILCGPU_BACKEND=host ";

// The library does all measurements.
void check_measurements(const Run &r) {
    for (const char *routine :
         {"ks_meson_cont_mom", "spin_taste_op", "shift_field", "gauss_smear_v_field", "laplacian_v_field"}) {
        CHECK(r.calls(routine).first > 0);
        CHECK(r.calls(routine).second == 0);
    }
}

} // namespace

TEST_CASE("milc_host: every routine gives the result of MILC's own", "[milc_host][sanitize]") {
#if defined(__SANITIZE_ADDRESS__)
    const std::vector<const char *> some = {"asqtad-P1", "hisq-P2"}; // half a minute each
#else
    const std::vector<const char *> &some = programs;
#endif
    for (const std::string &backend : backend_settings())
        for (const char *program : some) {
            const Run &r = right(program, backend);
            CHECK(r.says("milcgpu: MILC's routine"));  // the table at the start
            CHECK(r.says("milcgpu: dslash_fn_field")); // the table at exit
            CHECK(r.says("CONGRAD5: time = "));
            CHECK(r.says("GSMEAR: time = "));
            check_measurements(r);
            CHECK(r.says("CG NOT CONVERGED after 6 iterations"));
            CHECK_FALSE(r.says("masses = 2 iters = 6")); // MILC prints no CONGRAD5 line then, either
            CHECK_FALSE(r.says("Trying"));
        }
}

TEST_CASE("milc_host: fields that MILC frees stay in the process, and return to the system if that is off",
          "[milc_host][sanitize]") {
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        for (const auto &[setting, from] :
             {std::pair("", "kept"), std::pair("MILC_HOST_RANKS=2", "kept"), std::pair("MILCGPU_TEST=no_pool", "freed"),
              std::pair("MILCGPU_OFF=1", "freed")})
            right(program, on_host + setting, std::string("memory ") + from, "7 checks");
}

namespace {
void check_setup(const std::string &program) {
    const bool master = program.find("master") != std::string::npos;
    for (const auto &[setting, by] : {std::pair("OMP_NUM_THREADS=3", "threads"),
                                      std::pair("MILCGPU_TEST=no_pool", "one"), std::pair("MILCGPU_OFF=1", "one")})
        for (const char *layout : {"", " MILC_HOST_LAYOUT=shuffled"}) {
            const std::string set = on_host + setting + layout, as = std::string("setup ") + by;
            const Run r = right(program, set, as, "13 checks");
            const int own = by == std::string("one"); // the test calls MILC's own once more
            CHECK(r.count("WARNING!!: Resetting random seed\n") == (master ? 3 : 1 + own));
            right(program, set + " MILC_HOST_OTHER_GATHERS=1", as + " own", "13 checks");
            // RANK, ranks along z, along t. A gather has partners on one rank or two, lower or higher; along a cut,
            // some sites have none, or all have.
            for (const char *rank : {"0 1 2", "1 1 2", "1 2 2", "2 2 2", "1 1 4", "3 1 4"})
                right(program, set, as + " rank " + rank, "13 checks");
            const Run other = run(program, set + " MILC_HOST_LONGER_LISTS=1", as + " rank 1 1 2");
            CHECK(other.says("make_gather of this MILC allocates other tables than milcgpu knows") == !own);
            const Run bad = run(program, set, as + " bad"), turned = run(program, set, as + " turned"),
                      again = run(program, set, as + " again");
            CHECK((bad.status == 1 && bad.says("a gather keeps the parity of a site\n")));
            CHECK((turned.status == 1 && turned.says("a gather is not its own inverse\n")));
            CHECK((again.status == 1 && again.says("make_nn_gathers must come first\n")));
        }
}
} // namespace

TEST_CASE("milc_host: gathers and generators of random numbers have MILC's values", "[milc_host][sanitize]") {
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        check_setup(program);
}

TEST_CASE("milc_host: gathers and generators of random numbers have the values of MILC's master", "[milc_host]") {
    check_setup("asqtad-master-P1");
}

TEST_CASE("milc_host: plaquettes, phases, reunitarized and warm links have every bit of MILC's",
          "[milc_host][sanitize]") {
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        for (const auto &[setting, by] :
             {std::pair("OMP_NUM_THREADS=3", "threads"),
              std::pair("OMP_NUM_THREADS=3 MILC_HOST_OTHER_BITS=1", "threads"),
              std::pair("MILCGPU_TEST=no_pool", "one"), std::pair("MILCGPU_OFF=1", "one")}) {
            const std::string set = on_host + setting, as = std::string("reload ") + by;
            CHECK(right(program, set, as, "16 checks").count("Unitarity problem") == 2);
            const Run again = run(program, set, as + " again");
            CHECK((again.status == 1 && again.says("rephase: already 0\n")));
        }
}

TEST_CASE("milc_host: with -ffast-math all threads reunitarize, also if the last bits differ from MILC's",
          "[milc_host]") {
    for (const char *setting : {"", "MILC_HOST_OTHER_BITS=1"})
        CHECK(right("asqtad-P2", on_host + setting, "reload threads fast", "16 checks").count("Unitarity problem") ==
              2);
    // Links that differ by more are MILC's own.
    const Run own = run("asqtad-P2", on_host + "MILC_HOST_OTHER_BITS=1.00000000000001", "reload threads fast");
    CHECK(own.says("WRONG: links that MILC's own reunitarized "));
    CHECK(own.says("WRONG: sites whose links MILC's own draws "));
    CHECK(own.says("\n2 of 16 checks wrong\n"));
}

TEST_CASE("milc_host: one core is left to the thread that starts the GPU", "[milc_host]") {
    const int cores = std::max(omp_get_num_procs(), 3); // one thread fewer than cores
    const auto threads = [&](const std::string &setting) {
        const Run r = run("hisq-P2", milcgpu::format("OMP_NUM_THREADS=%d ", cores) + setting, "threads");
        CHECK(r.says(milcgpu::format("threads then: %d\n", cores)));
        return r;
    };
    CHECK(threads("").says(milcgpu::format("threads while the GPU starts: %d\n", cores - 1)));
    CHECK(threads("MILCGPU_BACKEND=host").says(milcgpu::format("threads while the GPU starts: %d\n", cores)));
    CHECK(threads("MILCGPU_OFF=1").says(milcgpu::format("threads while the GPU starts: %d\n", cores)));
    CHECK(threads("MILC_HOST_RANKS=2").says(milcgpu::format("threads while the GPU starts: %d\n", cores))); // no MPI
}

TEST_CASE("milc_host: threads of the host backend sleep while they wait", "[milc_host]") {
    if (omp_get_num_procs() < 2)
        SKIP_TEST("one processor: parallel loops have one thread");
    const auto spent = [](const std::string &setting) {
        const Run r = run("hisq-P2",
                          "MILCGPU_BACKEND=host env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME "
                          "-u OMP_NUM_THREADS " +
                              setting,
                          "pauses");
        const size_t at = r.output.find("spent ");
        return at == std::string::npos ? -1 : std::atof(r.output.c_str() + at + 6);
    };
    double as_said = 0;
    for (int run = 0; run < 4 && as_said <= 15; ++run) // other processes take time from spinning threads
        as_said = spent("GOMP_SPINCOUNT=30000000");
    const double by_itself = spent("");
    CHECK(by_itself >= 0);
    CHECK(by_itself < 5 * omp_get_num_procs());
    CHECK(as_said > 15);
}

TEST_CASE("milc_host: eigenvectors are right, and solves are deflated with them", "[milc_host][eigen]") {
    const std::string host = backend_settings().front(), last = backend_settings().back();
    const auto eigen = [](const char *program, const std::string &setting, const std::string &arguments) {
        return right(program, setting, "eigen " + arguments);
    };
    for (const char *program : sampled<const char *>({"hisq-P2", "asqtad-P1", "hisq-newer-P2", "hisq-master-P2"}, 2)) {
        const Run r = eigen(program, last + " MILCGPU_TEST=nan", "none");
        CHECK(r.calls("ks_eigensolve") == std::make_pair(1L, 1L)); // MILC's own, for the comparison
        // Eigenvectors of links that changed since, and of a file of other links: one line each and parity, for any
        // number of solves.
        for (const char *what : {": |A v - l v| is ", ": |B v - l v| is "}) {
            const int lines = r.count(what);
            CHECK((lines == 1 || lines == 2));
        }
    }
    eigen("hisq-P2", host + " MILCGPU_TEST=nan", "none readers");
    eigen("hisq-P2", host + " MILCGPU_TEST=cut=yt", "none PRIMME");
    const Run tight = eigen("asqtad-P1", host, "none tight");
    CHECK(tight.count("The tolerance of 1.0e-14 stands for 1.0e-07") == 1);
    CHECK(tight.count("cvg? 0") == 8);
    const Run in_double = eigen("hisq-P2", host, "none tight");
    CHECK(in_double.count("The tolerance of ") == 0);
    CHECK(in_double.count("cvg? 0") == 0);
    eigen("hisq-P2", last + " MILCGPU_COMPARE=strict", "none");
    CHECK(eigen("hisq-P2", last, "device").lost_gpu());
    CHECK(eigen("hisq-P2", host, "memory").says("Trying again in 16 bytes"));
    // Currents of noise and of eigenvectors agree to the tolerance of the solves, and of vectors in 16 bytes. Twisted:
    // eigenvectors of links whose twist MILC has removed, and masses with one eps_naik alone.
    const std::string cut = last + " MILCGPU_TEST=cut=yt", kept = host + " MILCGPU_TEST=dslash,keep";
    const std::vector<std::array<std::string, 3>> starts = {{"hisq-P2", host, "currents"},
                                                            {"hisq-P2", cut, "currents"},
                                                            {"hisq-P2", kept, "currents"},
                                                            {"hisq-P2", host + " MILCGPU_TEST=nan", "twisted"},
                                                            {"hisq-newer-P2", cut, "twisted"}};
    for (const auto &[program, setting, what] : starts) {
        const Run r = eigen(program.c_str(), setting, "none " + what);
        std::vector<double> numbers[2];
        std::istringstream lines(r.output);
        int by_milc = 0;
        for (std::string line; std::getline(lines, line);) {
            by_milc = line == "currents by MILC" || (by_milc != 0 && line != "currents by milcgpu");
            std::istringstream words(line);
            std::string tag;
            int t = 0, again = 0;
            if (!(words >> tag >> t) || (tag != "JTMULOW" && tag != "JTMUHI") || (tag == "JTMUHI" && !(words >> again)))
                continue;
            for (double x; words >> x;)
                numbers[by_milc].push_back(x);
        }
        REQUIRE(numbers[0].size() == numbers[1].size());
        CHECK(numbers[0].size() >= 3 * 4 * 4);
        double worst = 0, size = 0;
        for (size_t k = 0; k < numbers[0].size(); ++k)
            worst = std::max(worst, std::fabs(numbers[0][k] - numbers[1][k])), size = std::max(size, numbers[1][k]);
        CHECK(worst < (what == "twisted" ? 6e-6 : 1e-6) * size); // vectors from a file have 16 bytes a site
        CHECK(size > 0);
        CHECK(r.calls("f_meas_current").first >= 3);
        CHECK_FALSE(r.says("a second time"));
    }
    const Run lost = run("hisq-P2", last, "eigen later");
    CHECK(lost.status != 0);
    CHECK(lost.says("the device is lost"));
    CHECK(lost.says("the vectors are saved\n"));
    CHECK(lost.says("MILC cannot go on: the run ends"));
    CHECK_FALSE(lost.says("a save of vectors that are lost")); // the program's line behind the save
    CHECK_FALSE(lost.beyond_tolerance());
}

TEST_CASE("milc_host: M x = b stays on the device between the solves, with MILC's lines and counters",
          "[milc_host][measurements][invert]") {
    const auto inverts = [](const char *program, const std::string &setting, const std::string &fault) {
        const Run &r = right(program, on_host + setting, "inverts " + fault);
        // Ours and MILC's own; compare mode runs MILC's routine once more.
        const int each = setting == "MILCGPU_COMPARE=strict" ? 3 : 2;
        CHECK(r.count("UML inversion with mass 0.05") == each);
        CHECK(r.count("Plain CG inversion from zero initial guess for mass 0.08") == 0);
        return r;
    };
    using Start = std::pair<const char *, std::string>;
    for (const auto &[program, setting] : sampled<Start>({{"asqtad-P1", "MILCGPU_COMPARE=0"},
                                                          {"hisq-P2", "MILCGPU_COMPARE=0"},
                                                          {"hisq-P2", "MILCGPU_COMPARE=strict"},
                                                          {"asqtad-P1", "MILCGPU_COMPARE=strict"},
                                                          {"asqtad-P1", "MILCGPU_OFF=1"},
                                                          {"hisq-P2", "MILCGPU_OFF=1"}},
                                                         2)) {
        const Run r = inverts(program, setting, "none");
        if (setting == "MILCGPU_OFF=1")
            continue;
        const bool cgz = setting == "MILCGPU_COMPARE=0"; // compare mode compares its solves
        // Condensates; M^dag of a mass; masses far apart.
        CHECK(r.calls("mat_invert").first == 14 + 2 * 2 * 3 + 9 + 3 + (cgz ? 1 + 2 : 0));
        CHECK(r.calls("ks_congrad_parity").first == 3 * 6 + (cgz ? 0 : 2)); // several masses
        CHECK(r.count("masses of a set that lie far apart") == 1);
        CHECK(r.calls("ks_congrad_block_parity").first == (cgz ? -1 : 4)); // -1: no line
    }
    // One line for each source and parity, as from single solves, and one for all masses. A zero source has none.
    CHECK(inverts("hisq-P2", "MILCGPU_COMPARE=0", "none").count("CONGRAD5: time = ") ==
          2 * 13 - 2 + 2 + 4 + 2 * 2 * 2 * 3 + 3 * 8 + 3 * 2);
    const Run together = inverts("hisq-P2", "MILCGPU_TEST=no_gather", "none");
    CHECK(together.calls("ks_multicg_offset_field").first == 4 * 2);
    CHECK_FALSE(together.says("masses of a set that lie far apart"));
    for (const char *setting :
         {"MILCGPU_PRECISION=double-half MILCGPU_TEST=nan", "MILC_HOST_LAYOUT=shuffled MILCGPU_TEST=cut=yt"})
        inverts("hisq-P2", setting, "none");
    CHECK(inverts("hisq-P2", "", "device").lost_gpu());
    for (const char *program : sampled<const char *>({"hisq-P2", "asqtad-P1"}, 2)) {
        const Run lost = inverts(program, "MILC_HOST_LOSE_SOLUTIONS=1", "none");
        CHECK(lost.count("solutions are on the device and lost: ") == 1);
    }
    CHECK(inverts("asqtad-P1", "", "memory")
              .count("Its steps are done one by one, with fields on the host between them") == 3);
    const Run flipped = inverts("hisq-P2", "", "flip");
    CHECK(flipped.says("The links are loaded again"));
    for (const char *call :
         {"mat_invert: m 0.1: ", "mat_invert: m 0.08: ", "ks_multicg_offset_field: 3 shifts from 0.25: "})
        CHECK(flipped.says("milcgpu: " + std::string(call)));
}

TEST_CASE("milc_host: solves with the clover matrix have MILC's lines and stopping criteria",
          "[milc_host][operators]") {
    const auto solves = [](const char *program, const std::string &setting, const std::string &fault) {
        return right(program, on_host + setting, "clover " + fault, "32 checks");
    };
    for (const char *program : {"asqtad-P1", "hisq-P2"}) {
        const Run own = solves(program, "MILCGPU_COMPARE=0", "none");
        CHECK(own.calls("bicgilu_cl_field") == std::make_pair(7L, 6L)); // the program calls MILC's own for six
        CHECK(own.count(" (bicgilu) size_r= ") == 6);
        solves(program, "MILCGPU_COMPARE=strict", "none");
        solves(program, "MILCGPU_OFF=1", "none");
    }
    for (const char *setting : {"MILCGPU_PRECISION=double-single MILC_HOST_LAYOUT=shuffled",
                                "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=9"})
        solves("hisq-P2", setting, "none");
    CHECK(solves("hisq-P2", "", "device").lost_gpu());
    solves("asqtad-P1", "", "memory");
}

TEST_CASE("milc_host: compare mode knows where MILC differs, and what MILC refuses gets a message",
          "[milc_host][measurements][compared]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : sampled<const char *>({"asqtad-P1", "hisq-master-P2", "hisq-P2"}, 2)) {
            const Run own = run(program, backend + " MILCGPU_COMPARE=0", "compared"),
                      compared = run(program, backend + " MILCGPU_COMPARE=1", "compared");
            for (const Run *r : {&own, &compared}) {
                CHECK(r->status == 0);
                CHECK(r->says("\n0 of 18 checks wrong"));
                if (backend == "MILCGPU_BACKEND=host") // each source alone, as a GPU may do, too
                    CHECK(r->says("starts of a block: 2\n"));
                CHECK(r->count("the width of smearing (r0) is 0") == 1);
                CHECK(r->calls("mat_invert").first == 9); // M^dag alone, because no solution was requested
                CHECK(r->calls("ks_multicg_offset_field").first <= 0);
            }
            CHECK(own.calls("gauss_smear_v_field").second == 1);
            CHECK_FALSE(compared.beyond_tolerance());
            CHECK(compared.count("compare ks_congrad_block_parity") == 3);
            CHECK(compared.count("up to 2 of this pair have the same operator and momentum") == 1);
            CHECK(compared.calls("ks_meson_cont_mom") == std::make_pair(1L, 1L));
        }
}

TEST_CASE("milc_host: every call that is left to MILC's own logs the reason once", "[milc_host][compared]") {
    const std::vector<std::pair<std::string, std::string>> reasons = {
        {"ks_congrad_parity", "no tolerance is given"},
        {"mat_invert", "no tolerance is given"},
        {"ks_multicg_offset_field", "an offset is not above 0"},
        {"dslash_fn_field", "D of both parities in place"},
        {"load_fatlinks", "this action's links are not made from the six coefficients"},
        {"gauss_smear_v_field", "there are no iterations"},
        {"shift_field", "the field is shifted in place"},
        {"ks_meson_cont_mom", "there are no correlators, or not from 1 to 100 momenta"},
        {"gaugefix", "no iterations are allowed"},
        {"ape_smear_4D", "the weight is negative"}, // the row that stands for all smearings
        {"g_measure", "the links have phases"}};
    for (const char *program : sampled<const char *>({"hisq-P2", "asqtad-P1", "hisq-newer-P2"}, 2))
        for (const char *setting : {"MILCGPU_COMPARE=0", "MILCGPU_COMPARE=strict"}) {
            const Run &r = right(program, on_host + setting, "declined", "1 checks");
            for (const auto &[routine, why] : reasons) {
                INFO(routine);
                CHECK(r.count("milcgpu: " + routine + ": MILC's own: " + why + "\n") == 1);
                if (routine != "ks_congrad_parity" && routine != "dslash_fn_field") // other routines do the call
                    CHECK(r.calls(routine).first <= 0);
            }
        }
    CHECK_FALSE(run("hisq-P2", "MILCGPU_OFF=1", "declined").says("milcgpu"));
}

TEST_CASE("milc_host: D and contractions of Dirac fields give the result of MILC's own", "[milc_host][operators]") {
    const auto does = [](const char *program, const std::string &setting, const std::string &fault) {
        return right(program, on_host + setting, "dirac " + fault, "40 checks");
    };
    for (const char *program : sampled<const char *>({"asqtad-P1", "hisq-master-P2", "hisq-P2"}, 2)) {
        const Run own = does(program, "MILCGPU_COMPARE=0", "none");
        CHECK(own.calls("meson_cont_mom") == std::make_pair(3L, 0L));
        CHECK(own.calls("meson_open_mom") == std::make_pair(3L, 0L));
        CHECK(own.calls("dslash_w_field") == std::make_pair(12L, 0L));
        CHECK(own.count("WMTIME: time ") == 6);
        // asqtad-P1: 32 * 6 * 4 sites of 96 floats; two fields, then one, twice.
        if (std::string(program) == "asqtad-P1")
            CHECK(own.line_of("meson_cont_mom").to == Approx(4 * 384 * 384 * 1e-6).margin(0.051));
        const Run compared = does(program, "MILCGPU_COMPARE=strict", "none");
        CHECK(compared.calls("meson_open_mom") == std::make_pair(3L, 3L));
        CHECK(compared.count("up to 2 of this pair have the same operator and momentum") == 2);
        CHECK(compared.calls("dslash_w_field") == std::make_pair(12L, 12L));
        does(program, "MILCGPU_OFF=1", "none");
    }
    const Run left = does("hisq-P2", "MILCGPU_TEST=no_dslash", "none");
    CHECK(left.calls("dslash_w_field").first == -1);
    CHECK(tests::has(left.runs_on("dslash_w_field"), "(MILCGPU_AUTO=0)"));
    does("hisq-P2", "MILC_HOST_LAYOUT=shuffled", "none");
    does("hisq-P2", "MILCGPU_TEST=cut=xt,no_dslash", "none");
    CHECK(does("hisq-P2", "", "device").lost_gpu());
    CHECK(does("asqtad-P1", "", "memory").short_of_memory());
    CHECK(does("hisq-P2", "", "flip").calls("dslash_w_field").first == 12);
}

TEST_CASE("milc_host: baryons are MILC's, or right where MILC's are not", "[milc_host][baryons]") {
    const std::string cache = "MILC's cache of shifted quarks (GB_BARYON_MMAP) lacks corners 0 and 7",
                      sites = "point sinks with and without a star are in one run",
                      mixed = "are as in MILC since 2024: not symmetrised", whole = "are symmetrised, as in MILC until",
                      absent = "8 S 3 to 8 S 3 needs corner 5 of octet 2 of the triplet",
                      ranks = "over the ranks twice";
    for (const char *program : sampled<const char *>({"asqtad-P1", "hisq-P2", "hisq-newer-P2"}, 2)) {
        const bool has_cache = tests::has(program, "newer");
        for (const std::string &backend : backend_settings())
            for (const auto &[setting, kind] :
                 {std::pair("MILCGPU_COMPARE=0", "milc"), std::pair("MILCGPU_COMPARE=0", "right"),
                  std::pair("MILCGPU_COMPARE=strict", "milc"), std::pair("MILCGPU_COMPARE=strict", "right")}) {
                const bool compares = tests::has(setting, "strict"), is_right = std::string(kind) == "right";
                const Run r =
                    right(program, backend + " " + setting + " MILCGPU_BARYONS=" + kind, "baryons", "34 checks");
                CAPTURE(program, backend, setting, kind);
                CHECK(r.calls("ks_baryon_nd") == std::make_pair(3L, compares ? 3L : 0L));
                CHECK(r.calls("gb_baryon") == std::make_pair(compares && is_right ? 14L : 7L, compares ? 7L : 0L));
                for (const std::string &said : {sites, is_right ? whole : mixed, absent, ranks})
                    CHECK(r.count(said) == 1);
                CHECK(r.count(cache) == (has_cache ? 1 : 0));
                CHECK(r.count("spin_taste: number 12 is neither 2point nor a current") == 1);
                if (compares) // MILC's cache makes two of four calls wrong as a whole
                    CHECK(r.count("compare gb_baryon") == (has_cache ? 5 : 7));
                CHECK(r.count("gb baryon: 8 M 41 16- M 42\n") == (compares ? 2 : 1));
            }
        CHECK_FALSE(right(program, on_host + "MILCGPU_OFF=1", "baryons").says("milcgpu"));
        // 24 quarks of 4 * 6 * 4 * 4 sites are loaded once for all calls, and eight fields once more after a change.
        CHECK(right(program, on_host + "MILCGPU_TEST=dslash,keep", "baryons").line_of("gb_baryon").to ==
              Approx((24 * 3 + 8) * 384 * 6 * (tests::has(program, "P1") ? 4 : 8) * 1e-6).margin(0.051));
        // Solutions are on the device already.
        const Run solved = right(program, on_host + "MILCGPU_TEST=keep", "solved_quarks");
        CHECK(solved.calls("gb_baryon").first == 1);
        CHECK(solved.line_of("gb_baryon").to == 0);
        CHECK(solved.line_of("mat_invert").to > 0);
        // After the GPU is lost, MILC's own routine makes the cache that it needs. With a cache the GPU is lost before
        // gb_baryon.
        const Run lost = right(program, on_host, "baryons device", "");
        CHECK(lost.lost_gpu());
        CHECK((has_cache || lost.calls("gb_baryon") == std::make_pair(0L, 1L)));
        CHECK(right(program, on_host, "baryons memory").calls("gb_baryon") == std::make_pair(2L, 0L));
        CHECK(right(program, on_host, "baryons lost", "").lost_gpu());
        CHECK(right(program, on_host, "baryons changed", "").says("the device has lost its copy") == has_cache);
    }
}

TEST_CASE("milc_host: measurements and M x = b work with the routines of MILC's master",
          "[milc_host][measurements][invert]") {
    for (const char *program : sampled<const char *>({"asqtad-master-P1", "hisq-master-P2"}, 2))
        for (const char *setting : {"MILCGPU_COMPARE=0", "MILCGPU_COMPARE=strict", "MILCGPU_TEST=cut=xt"}) {
            const Run &all = right(program, on_host + setting, "measurements");
            CHECK_FALSE(all.says("GSMEAR"));
            for (const char *routine :
                 {"ks_meson_cont_mom", "spin_taste_op", "gauss_smear_v_field", "laplacian_v_field"}) {
                CHECK(all.calls(routine).first > 0);
                CHECK((all.calls(routine).second == 0 || std::string(setting) == "MILCGPU_COMPARE=strict"));
            }
            CHECK(tests::has(all.runs_on("shift_field"), "inside spin_taste_op"));
            CHECK(right(program, on_host + setting, "baryons").calls("ks_baryon_nd").first == 3);
            const Run &inverts = right(program, on_host + setting, "inverts");
            CHECK_FALSE(inverts.says("inversion"));                             // master prints no titles
            CHECK(inverts.calls("mat_invert").first == 12 + 2 * 2 * 3 + 6 + 3); // M^dag of a mass; masses far apart
        }
}

TEST_CASE("milc_host: auxiliary links that MILC does not need are not copied", "[milc_host]") {
    constexpr double megabytes = 4 * 384 * 18 * sizeof(double) * 1e-6, fields = 4, with_auxiliary = fields + 2;
    for (const char *setting : {"MILCGPU_COMPARE=0", "MILCGPU_COMPARE=strict", "MILCGPU_OFF=1"}) {
        const Run &r = right("hisq-P2", on_host + setting, "auxiliary", "36 checks");
        if (std::string(setting) == "MILCGPU_COMPARE=0")
            CHECK(r.megabytes_from("create_hisq_links_milc") ==
                  Approx((fields + 2 * with_auxiliary) * megabytes).margin(0.051));
        if (std::string(setting) == "MILCGPU_COMPARE=strict")
            CHECK(r.megabytes_from("create_hisq_links_milc") == Approx(3 * with_auxiliary * megabytes).margin(0.051));
    }
}

TEST_CASE("milc_host: links of a measuring program stay on the device until MILC reads them", "[milc_host]") {
    const auto waiting = [](const char *program, const std::string &setting, const std::string &fault) {
        return right(program, on_host + setting, "waiting " + fault);
    };
    for (const char *program : sampled<const char *>({"hisq-P2", "hisq-P1", "hisq-newer-P2"}, 2)) {
        const Run r = waiting(program, "MILCGPU_TEST=nan", "none");
        for (const char *line : {"made: they wait 1\n", "used: they wait 1\n", "read: they wait 0\n"})
            CHECK(r.says(line));
        CHECK(r.calls("create_hisq_links_milc").second == 0);
        CHECK(r.says("coordinate_origin is outside the lattice"));
        waiting(program, "MILCGPU_AUTO=1", "none");
    }
    for (const char *setting : {"MILCGPU_TEST=copy_back", "MILCGPU_COMPARE=strict", "MILCGPU_OFF=1"})
        CHECK(waiting("hisq-P2", setting, "none").says("made: they wait 0\n"));
    for (const char *fault : {"device", "memory", "flip"})
        CHECK(waiting("hisq-P2", "MILCGPU_TEST=nan", fault).says("made: they wait 1\n"));
}

TEST_CASE("milc_host: a sum of links in use outlives its own links and others", "[milc_host][sanitize]") {
    for (const char *setting : {"MILCGPU_TEST=nan", "MILCGPU_AUTO=0"})
        right("hisq-newer-P2", on_host + setting, "sums", "10 checks");
}

TEST_CASE("milc_host: gauge fixing and APE smearing have MILC's lines and links", "[milc_host][measurements]") {
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        for (const char *setting : {"MILCGPU_COMPARE=0", "MILCGPU_COMPARE=strict", "MILCGPU_OFF=1"}) {
            const Run &r = right(program, on_host + setting, "gauge");
            // Ours and the original's: each line twice; in compare mode MILC's three times.
            const bool compares = std::string(setting) == "MILCGPU_COMPARE=strict";
            CHECK(r.count("GFIX: Ended at step 25. ") == (compares ? 3 : 2));
            CHECK(r.count("step 19 av gf action ") >= 4);
            if (std::string(setting) == "MILCGPU_OFF=1")
                continue;
            CHECK(r.calls("gaugefix") == std::make_pair(3L, compares ? 3L : 0L));
            CHECK(r.calls("ape_smear_4D") == std::make_pair(6L, compares ? 6L : 1L)); // one of MILC's calls must warn
            CHECK(r.count("WARNING 1536 sites report no convergence in project_su3") == 2);
        }
}

TEST_CASE("milc_host: all colours of a set of propagators are solved in one call, if possible", "[milc_host]") {
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        for (const char *setting : sampled<const char *>(
                 {"MILCGPU_AUTO=1", "MILCGPU_COMPARE=strict", "MILCGPU_TEST=no_gather", "MILCGPU_OFF=1"},
                 program[0] == 'h' ? 2 : 1)) {
            const Run &r = right(program, on_host + setting, "sets");
            const bool gathered =
                std::string(setting) != "MILCGPU_TEST=no_gather" && std::string(setting) != "MILCGPU_OFF=1";
            CHECK(r.count("all colours of a set of propagators") == (gathered ? 1 : 0));
        }
}

TEST_CASE("milc_host: every precision works, and sites in another order", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *setting : sampled<const char *>(
                 {"MILCGPU_PRECISION=double-half MILC_HOST_LAYOUT=shuffled",
                  "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=18",
                  "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=9", "MILCGPU_PRECISION=double-single",
                  "MILCGPU_PRECISION=double", "MILCGPU_PRECISION=double-half",
                  "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=13", "MILC_HOST_LAYOUT=shuffled"},
                 3))
            right("hisq-P2", backend + " " + setting);
    for (const std::string &backend : backend_settings()) // single cannot reach 1e-9, so double continues
        for (const char *setting :
             sampled<const char *>({"MILCGPU_PRECISION=single-half", "MILCGPU_PRECISION=single"}, 2)) {
            const Run &r = right("hisq-P2", backend + " MILC_HOST_ITERATIONS=any " + setting);
            CHECK(r.count("Trying double-single") == 1); // logged once
            CHECK(r.says("milcgpu: ks_congrad_parity: m 0.1: milcgpu_staggered_solve: the true residual stays at "));
        }
    for (const char *setting : sampled<const char *>(
             {"MILCGPU_PRECISION=single-half MILC_HOST_LAYOUT=shuffled", "MILCGPU_PRECISION=single"}, 2))
        right("asqtad-P1", setting);
}

TEST_CASE("milc_host: compare mode finds all routines within tolerance", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : programs) {
            const Run &r = right(program, backend + " MILCGPU_COMPARE=strict");
            for (const char *line :
                 {"ks_congrad_parity: EVEN m 0.05: ", "ks_multicg_offset_field: ODD, 5 masses", "dslash_fn_field: ODD",
                  program[0] == 'h' ? "create_hisq_links_milc: " : "load_fn_links: "})
                CHECK(r.says("compare " + std::string(line)));
            CHECK(r.says("comparison with MILC's own routines"));
            CHECK_FALSE(r.says("smearing with products that other ranks may not have"));
        }
}

TEST_CASE("milc_host: compare mode sees an additional step at the iteration limit", "[milc_host][milc]") {
    const Run r = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_COMPARE=1 MILC_HOST_FEWER_STEPS=1");
    CHECK(r.says("EVEN, 2 masses: iterations MILC 4 milcgpu 6"));
    CHECK(r.beyond_tolerance());
}

TEST_CASE("milc_host: the plugin can be off or silent", "[milc_host]") {
    const Run off = run("hisq-P2", "MILCGPU_OFF=1");
    CHECK(off.status == 0);
    CHECK_FALSE(off.says("milcgpu"));
    const Run silent = run("hisq-P2", "MILCGPU_VERBOSE=0");
    CHECK(silent.status == 0);
    CHECK_FALSE(silent.says("milcgpu"));
    CHECK(silent.says("CONGRAD5")); // the replaced routine prints MILC's line
}

TEST_CASE("milc_host: after an error MILC's own routine does the work", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : sampled<const char *>({"asqtad-P2", "hisq-P1"}, 2)) {
            CHECK(right(program, backend, "device").lost_gpu());
            CHECK(right(program, backend, "memory").short_of_memory());
        }
}

TEST_CASE("milc_host: what cannot be offloaded is logged, and MILC runs on the CPU", "[milc_host]") {
    const auto refused = [](const std::string &environment, const char *text,
                            const std::string &what = "measurements") {
        const Run r = run("asqtad-P2", environment, what);
        CHECK(r.status == 0);
        CHECK(r.says(text));
        CHECK_FALSE(r.says("milcgpu: MILC's routine")); // no table, because nothing is replaced
    };
    refused("MILC_HOST_RANKS=4", "4 ranks, and no mpi.h", "");
    refused("MILC_HOST_LAYOUT=broken", "site order");
    for (const char *setting : {"MILCGPU_PRECISION=quadruple", "MILCGPU_RECONSTRUCT=17", "MILCGPU_DEVICE=first",
                                "MILCGPU_COMPARE=yes", "MILCGPU_BACKEND=opencl"})
        refused(setting, milcgpu::format("milcgpu: %s is none of ", setting).c_str()); // the rest: test_settings.cpp
    if (milcgpu::Device::gpu_count() == 0)
        refused("MILCGPU_BACKEND=cuda", "MILC runs on the CPU");
}

TEST_CASE("milc_host: lattice files are read and written by the library, with MILC's lines", "[milc_host][sanitize]") {
    const tests::Folder folder;
    const std::string name = (folder.path / "lattice").string();
    const auto with = [&](const char *program, const std::string &setting, const std::string &routines) {
        return run(program, on_host + setting, "lattice_file " + routines + " " + name);
    };
    const std::string stamp = "Time stamp Thu Nov 26 10:00:00 2026\n";
    for (const char *program : {"asqtad-P1", "hisq-P2"})
        for (const std::string routines : {"serial", "parallel", "mpiio"}) {
            const Run r = with(program, routines == "serial" ? "MILC_HOST_LAYOUT=shuffled" : "", routines);
            CHECK(r.status == 0);
            CHECK(r.says("\n0 of 392 checks wrong"));
            CHECK_FALSE(r.says("MILC's own restore_"));
            CHECK_FALSE(r.says("MILC's own save_"));
            const std::string how = routines == "serial"     ? "serially"
                                    : routines == "parallel" ? "in parallel"
                                                             : "in parallel with MPI I/O";
            CHECK(r.says("Saved gauge configuration " + how + " to binary file " + name + "\n" + stamp));
            CHECK(r.says("info of " + name + ": Thu Nov 26 10:00:00 2026, "));
            CHECK(r.says("Restored binary gauge configuration " + how + " from file " + name + "\n" + stamp +
                         "Checksums "));
            CHECK(r.count(" OK\n") == 1);
        }
    CHECK(with("hisq-P2", "MILCGPU_OFF=1", "serial").says("MILC's own save_serial of " + name));
    const std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    for (const std::string routines : {"scidac", "ildg"}) {
        const Run r = with(routines == "ildg" ? "hisq-P2" : "asqtad-P1", "MILC_HOST_LAYOUT=shuffled", routines);
        CHECK(r.status == 0);
        CHECK(r.says("\n0 of 392 checks wrong"));
        CHECK(r.says("Saved gauge configuration as a single binary file " + name + "\n" + stamp + "Checksums "));
        CHECK(r.says("Restoring binary SciDAC file " + name + "\nFile info \n\"" + xml +
                     "<title>MILC ILDG archival gauge configuration</title>\"\nRecord info \n\"<usqcdInfo><plaq>1.5"
                     "</plaq></usqcdInfo>\"\nChecksums "));
        CHECK(tests::has(tests::text_of(name), "lfn://host/links") == (routines == "ildg"));
        CHECK(with("hisq-P2", "MILCGPU_OFF=1", routines).says("MILC's own save_"));
    }
    std::string lies = tests::text_of(name);
    lies[lies.size() - 5000] = char(lies[lies.size() - 5000] ^ 1);
    std::ofstream(name, std::ios::binary) << lies;
    const Run liar = with("hisq-P2", "", "read_scidac");
    CHECK(liar.status != 0);
    CHECK(liar.says("milcgpu: lattice file: " + name + ", byte " + std::to_string(lies.find("ildg-binary-data") + 128) +
                    ": checksum "));
    lies.replace(lies.find("<precision>64"), 13, "<precision>sp");
    lies.replace(lies.find("<precision>D"), 12, "<precision> ");
    std::ofstream(name, std::ios::binary) << lies;
    for (const auto &[routines, own] : {std::pair("read_scidac", "parallel_scidac"), std::pair("read", "serial")}) {
        const Run tried = with("hisq-P2", "", routines);
        CHECK(tried.says("MILC's own restore_" + std::string(own) + " of " + name));
        CHECK(tried.says("no <precision> in the record's text") == (own == std::string("parallel_scidac")));
        CHECK(tried.status == 0);
    }
    const Run by_mpi = with("hisq-P2", "", "mpiio_read"); // MILC's own reads it as version 5
    CHECK(by_mpi.says("no <precision> in the record's text"));
    CHECK(by_mpi.status != 0);
    CHECK(with("hisq-P2", "", "serial").status == 0);
    // A full disk: the older file stays, which MILC's own would have lost.
    const std::string before = tests::text_of(name), tried = "MILC's own save_serial of " + name;
    const auto on_full_disk = [&] {
        return tests::run("MILCGPU_BACKEND=host", "sh -c 'trap \"\" XFSZ; ulimit -f 20; exec \"$@\"' sh",
                          MILC_HOST_PROGRAMS "hisq-P2/program lattice_file serial " + name);
    };
    const tests::Run full = on_full_disk();
    CHECK(full.status != 0);
    CHECK(full.count(name + " cannot be written: File too large") == 1);
    CHECK(full.count(tried) == 0);
    CHECK(tests::text_of(name) == before);
    std::remove(name.c_str());
    CHECK(on_full_disk().count(tried) == 1); // nothing is lost
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 0);
    std::ofstream(name, std::ios::binary) << before;
    // Bad files that MILC judges, and bad files that end the run.
    std::string bytes = tests::text_of(name);
    const auto read = [&](const std::string &changed) {
        std::ofstream(name, std::ios::binary) << changed;
        return with("hisq-P2", "", "read");
    };
    std::string bad = bytes;
    bad[1000] = char(bad[1000] ^ 1);
    CHECK(read(bad).says("read_checksum: Checksum violation. Computed "));
    bad = bytes;
    bad[84] = 1; // a list of sites
    CHECK(read(bad).says("MILC's own restore_serial of " + name));
    CHECK(read("no lattice").says("MILC's own restore_serial of " + name));
    CHECK(read(bytes + "more").status == 0);
    std::ofstream(name, std::ios::binary) << bytes;
    const Run misspelled = with("hisq-P2", "MILCGPU_TEST=typo", "read");
    CHECK(misspelled.status == 0);
    CHECK(misspelled.says("MILC's own restore_serial of " + name));
    const Run shorter = read(bytes.substr(0, 5000));
    CHECK(shorter.status != 0);
    CHECK(shorter.says("milcgpu: lattice file: " + name + ", byte 5000: the file should have 110688 bytes"));
    bad = bytes;
    std::swap(bad[4], bad[8]); // 6 x 4 x 4 x 4
    CHECK(read(bad).says("byte 4: the file is of a lattice of 6 x 4 x 4 x 4"));
    std::remove(name.c_str());
    CHECK(with("hisq-P2", "", "read").says("MILC's own restore_serial of " + name));
}

TEST_CASE("milc_host: one of several copies of a scalar program logs that there are several", "[milc_host]") {
    const auto says = [](const std::string &environment) {
        const Run r = run("asqtad-P1", "MILCGPU_OFF=1 " + environment, "threads");
        CHECK(r.status == 0);
        return r.count("but this MILC was built for one rank");
    };
    CHECK(says("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0") == 1);
    CHECK(says("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1") == 0);
    CHECK(says("PMI_SIZE=3 PMI_RANK=0") == 1);
    CHECK(says("SLURM_NTASKS=4") == 1);
    CHECK(says("SLURM_NTASKS=1 SLURM_PROCID=0") == 0);
    CHECK(says("PMI_RANK=0") == 0);
}

TEST_CASE("milc_host: the tables match the settings", "[milc_host]") {
    const Run automatic = run("hisq-P2", "MILCGPU_BACKEND=host");
    CHECK(automatic.says("precision of solves: double (automatic, MILCGPU_PRECISION sets it), long links of the sloppy "
                         "part in 18 reals (automatic, MILCGPU_RECONSTRUCT sets it)"));
    CHECK(automatic.says("packed links") == (MILCGPU_LANES != 0)); // double needs those of several sites alone
    CHECK(automatic.says("safer CPU calls CPU seconds\n"));
    for (const char *routine : {"create_hisq_links_milc", "ranmom"})
        CHECK(automatic.runs_on(routine) == "host, 1 OpenMP thread");
    const Run asked = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=13");
    CHECK(asked.says("precision of solves: double-half (MILCGPU_PRECISION), long links of the sloppy part in 13 reals "
                     "(MILCGPU_RECONSTRUCT)\n"));
    CHECK(asked.says("packed links"));
    CHECK(asked.says("settings: "));
    const Run left = run("hisq-P2", "MILCGPU_BACKEND=host MILC_HOST_UMETHOD=other");
    CHECK(left.status == 0);
    CHECK(left.runs_on("create_hisq_links_milc") == "MILC's own: this UNITARIZATION_METHOD of links is not built");
    CHECK_FALSE(left.says("create_hisq_links_milc: MILC's own")); // the table already has it
}

TEST_CASE("milc_host: measurements work on a cut lattice", "[milc_host][measurements][cut]") {
    check_measurements(right("hisq-P2", on_host + "MILCGPU_TEST=cut=xt"));
}

TEST_CASE("milc_host: CMake takes milcgpu by one argument, and its program does what make's does", "[milc_host]") {
    LONG_TEST;
    namespace fs = std::filesystem;
    const tests::Folder prefix, build;
    const std::string folder = build.path.string();
    if (!tests::cmake_takes_milcgpu())
        SKIP_TEST("no cmake of version 3.21 or newer");
    const auto install = [&] { REQUIRE(tests::install(prefix.path, MILCGPU_VERSION).status == 0); };
    install();
    const auto objects = [](const fs::path &in, const std::string &first) {
        std::string all;
        for (const auto &file : fs::directory_iterator(in))
            if (file.path().extension() == ".o" && file.path().filename().string().rfind(first, 0) == 0)
                all += (all.empty() ? "" : ";") + fs::canonical(file.path()).string();
        return all;
    };
    const std::string configure = "cmake -S " + (tests::source_tree() / "tests/milc_host").string() + " -B " + folder +
                                  "/build '-DORIGINALS=" + objects(MILC_HOST_PROGRAMS "hisq-P2", "originals") +
                                  "' '-DREFERENCE=" + objects(tests::build_folder() / "obj/tests/reference", "") + "' ",
                      make = "cmake --build " + folder + "/build -j2 --target ",
                      served = "milcgpu: solves and links of ks_host_hisq go to " + prefix.path.string() +
                               "/lib/libmilcgpu.so";
    const auto run_here = [](const std::string &command) { return Run{succeeded(tests::shell(command))}; };
    const std::string with = " $(" + prefix.path.string() + "/bin/milcgpu-config --cmake) && ",
                      fresh = "rm -rf " + folder + "/build && ",
                      not_served =
                          "milcgpu: tool_c has no asqtad or HISQ solver to take over: it is built as without milcgpu";
    CHECK_FALSE(run_here(configure + "&& " + make + "tool_c").says("milcgpu:"));
    if (tests::shell("command -v ninja").status == 0)
        CHECK(run_here(fresh + configure + "-G Ninja" + with + make + "tool_c").says(not_served));
    const Run built = run_here(fresh + configure + with + make + "all");
    CHECK(built.says(served));
    CHECK(built.says(not_served));
    CHECK(built.says("milcgpu: CMake compiles no C file of tool_cpp: it is linked as without milcgpu"));
    CHECK_FALSE(built.says("warning"));
    CHECK_FALSE(tests::shell("ldd " + folder + "/build/app/tool_c").says("milcgpu"));
    const std::string setting = "MILCGPU_BACKEND=host MILCGPU_TEST=dslash ";
    const Run by_cmake = run_here(setting + folder + "/build/app/ks_host_hisq trajectory"),
              by_make = run("hisq-P2", setting, "trajectory");
    CHECK(by_cmake.numbers() == by_make.numbers());
    CHECK(by_cmake.numbers().size() > 100);
    CHECK(by_cmake.calls("update_u").first > 0);
    CHECK_FALSE(run_here(make + "all").says("milcgpu:"));
    install(); // a new library: programs are linked again, and nothing else happens
    const Run again = run_here(make + "all");
    CHECK(again.says(served));
    CHECK_FALSE(again.says("Building"));
}
