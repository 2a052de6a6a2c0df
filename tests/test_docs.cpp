// Whether the docs name what there is.
#include "tests/catch.h"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path);
    REQUIRE(file); // the tests run in the root of the source tree
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("docs/reference.md names every function of the C headers", "[docs]") {
    const std::string reference = text_of("docs/reference.md");
    // A declaration or an inline function begins a line.
    const std::regex declared("(?:^|\n)[a-z][^\n;{}(/]*[ *](milcgpu_[a-z0-9_]+)\\(");
    int functions = 0;
    for (const auto &file : std::filesystem::directory_iterator("milc_glue")) {
        const std::string name = file.path().filename();
        if (name.rfind("milcgpu", 0) != 0 || file.path().extension() != ".h")
            continue;
        INFO(name);
        CHECK(reference.find(name) != std::string::npos);
        const std::string header = text_of(file.path());
        for (std::sregex_iterator found(header.begin(), header.end(), declared), end; found != end; ++found) {
            INFO((*found)[1]);
            CHECK(reference.find("`" + (*found)[1].str() + "`") != std::string::npos);
            ++functions;
        }
    }
    CHECK(functions > 90); // so many there were when this was written
}
