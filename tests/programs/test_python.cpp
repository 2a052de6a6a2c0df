// The Python package: its numbers are those of the C programs, what docs/python.md prints is true, and wrong arrays,
// closed handles and exceptions in callbacks are refused or raised (check_python.py).
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/source_text.h"
#include <sstream>

namespace fs = std::filesystem;
using tests::Run;
using tests::shell;
using tests::succeeded;

namespace {

// The package in a prefix, beside the library.
struct Package {
    explicit Package(const std::string &python) {
        succeeded(tests::install(prefix, MILCGPU_VERSION));
        run_python =
            "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + (prefix / "share/milcgpu/python").string() + " " + python;
    }
    Run run(const std::string &command) const {
        return shell("cd " + folder.path.string() +
                     " && export MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 OMP_NUM_THREADS=1; " + command);
    }
    tests::Folder folder;
    fs::path prefix = folder.path / "prefix", examples = prefix / "share/doc/milcgpu/examples/cookbook";
    std::string run_python;
};

// The second cells of lines "t,number.." for t = 0, 1, ..
std::vector<double> correlator(const std::string &output) {
    std::vector<double> numbers;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        const std::string begin = std::to_string(numbers.size()) + ",";
        if (line.rfind(begin, 0) == 0)
            numbers.push_back(std::stod(line.substr(begin.size())));
    }
    return numbers;
}

} // namespace

TEST_CASE("python: the pion correlator of a NERSC file is equal to the C program's", "[python]") {
    const std::string python = tests::python_with("cffi, numpy");
    if (python.empty())
        SKIP_TEST("no python3-cffi or python3-numpy");
    const Package p(python);
    const Run by_c = p.run("cc -std=c99 " + (p.examples / "correlators.c").string() + " -o correlators $(" +
                           (p.prefix / "bin/milcgpu-config").string() + " --cflags --libs) && ./correlators"),
              by_python =
                  p.run(p.run_python + " " + (p.examples / "pion.py").string() + " correlators.nersc 0.1 pion.csv");
    REQUIRE(by_c.status == 0);
    REQUIRE(by_python.status == 0);
    const std::vector<double> c = correlator(by_c.output), of_python = correlator(by_python.output);
    REQUIRE(c.size() == 8);
    REQUIRE(of_python.size() == 8);
    for (size_t t = 0; t < 8; ++t)
        CHECK(std::abs(of_python[t] - c[t]) <= 1e-10 * c[t]);
    if (tests::has_gnuplot())
        tests::check_pictures((p.folder.path / "pion.csv").string(), {"pion"});
}

TEST_CASE("python: the output in docs/python.md is right; wrong arrays and closed handles are refused", "[python]") {
    const std::string python = tests::python_with("cffi, numpy");
    if (python.empty())
        SKIP_TEST("no python3-cffi or python3-numpy");
    const Package p(python);
    for (const std::string &work : {"-m doctest " + (p.prefix / "share/doc/milcgpu/docs/python.md").string(),
                                    fs::canonical(tests::source_tree() / "tests/programs/check_python.py").string()}) {
        const Run r = succeeded(p.run(p.run_python + " " + work));
        CHECK(r.output == "");
    }
    // Without the library, the error names what is missing.
    const Run nothing = p.run("mkdir alone && cp -r prefix/share/milcgpu/python/milcgpu alone/ && PYTHONPATH=alone " +
                              python + " -c 'import milcgpu'");
    CHECK(nothing.status == 1);
    CHECK(nothing.says("ImportError: milcgpu-config"));
}
