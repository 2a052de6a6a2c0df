// Whether the docs name what there is.
#include "examples/csv.h"
#include "tests/run_support.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
    for (const auto &file : std::filesystem::directory_iterator("milc_glue/api")) {
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

TEST_CASE("links in README.md and docs lead to files", "[docs]") {
    std::vector<std::filesystem::path> pages{"README.md"};
    for (const auto &file : std::filesystem::directory_iterator("docs"))
        if (file.path().extension() == ".md")
            pages.push_back(file.path());
    const std::regex link("\\]\\(([a-z][a-zA-Z0-9_./-]*)\\)");
    for (const auto &page : pages) {
        const std::string text = text_of(page);
        for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
            INFO(page << ": " << (*found)[1]);
            CHECK(std::filesystem::exists(page.parent_path() / (*found)[1].str()));
        }
    }
}

TEST_CASE("files include what docs/design.md allows their layer, and every exception there is one", "[docs]") {
    const std::string design = text_of("docs/design.md");
    // The line "    milc_glue -> gauge, mesons -> ...": later layers lie lower.
    const size_t begin = design.find("\n    milc_glue -> ") + 1;
    REQUIRE(begin != 0);
    const std::string line = design.substr(begin, design.find('\n', begin) - begin);
    std::map<std::string, int> layer_of;
    int layer = 0;
    const std::regex word("[a-z0-9_]+|->");
    for (std::sregex_iterator found(line.begin(), line.end(), word), end; found != end; ++found)
        if (found->str() == "->")
            ++layer;
        else
            layer_of[found->str()] = layer;
    std::set<std::pair<std::string, std::string>> exceptions, used; // folder, header
    const std::regex takes("`([a-z0-9_]+)` takes\\s`([a-z0-9_/.]+)`");
    for (std::sregex_iterator found(design.begin(), design.end(), takes), end; found != end; ++found)
        exceptions.insert({(*found)[1], (*found)[2]});
    const std::regex include("#include \"(?:gpu_kernels/)?(([a-z0-9_]+)/[a-z0-9_/.]+)\"");
    int files = 0;
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind != ".h" && kind != ".cu" && kind != ".cpp")
                continue;
            const std::filesystem::path inside = file.path().lexically_relative("gpu_kernels");
            const std::string folder = root == std::string("gpu_kernels") ? inside.begin()->string() : root;
            REQUIRE(layer_of.count(folder) == 1);
            const std::string text = text_of(file.path());
            for (std::sregex_iterator found(text.begin(), text.end(), include), end; found != end; ++found) {
                const std::string header = (*found)[1], of = (*found)[2];
                INFO(file.path() << ": " << header);
                if (exceptions.count({folder, header}) == 1)
                    used.insert({folder, header});
                else if (layer_of.count(of) == 1)
                    CHECK(layer_of[of] >= layer_of[folder]);
                else
                    CHECK(of.empty()); // a folder that is in no layer
            }
            ++files;
        }
    CHECK(files > 200); // so many there were when this was written
    CHECK(used == exceptions);
}

TEST_CASE("few sources are compiled again after a change of halo.h", "[docs]") {
    const std::regex include("#include \"([a-z0-9_/.]+)\"");
    std::map<std::string, std::set<std::string>> includes;
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue", "tests", "examples"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind != ".h" && kind != ".cu" && kind != ".cpp")
                continue;
            const std::string text = text_of(file.path());
            for (std::sregex_iterator found(text.begin(), text.end(), include), end; found != end; ++found)
                includes[file.path().string()].insert((*found)[1]);
        }
    std::set<std::string> reached = {"gpu_kernels/halo/halo.h"};
    for (size_t before = 0; before != reached.size();) {
        before = reached.size();
        for (const auto &[file, headers] : includes)
            for (const std::string &header : headers)
                if (reached.count(header) == 1)
                    reached.insert(file);
    }
    const auto of_kind = [&](const char *kind) {
        return std::count_if(reached.begin(), reached.end(),
                             [&](const std::string &file) { return std::filesystem::path(file).extension() == kind; });
    };
    CHECK(of_kind(".cu") >= 1);
    CHECK(of_kind(".cu") <= 9); // of more than 70
    CHECK(of_kind(".cu") + of_kind(".cpp") <= 41);
}

TEST_CASE("each picture in docs is drawn from a table in docs, and stands on a page", "[docs]") {
    if (!tests::has_gnuplot())
        SKIP_TEST("gnuplot is not installed");
    const tests::Folder folder;
    std::string pages;
    std::set<std::string> pictures, drawn;
    for (const auto &file : std::filesystem::directory_iterator("docs")) {
        const std::string kind = file.path().extension();
        if (kind == ".md")
            pages += text_of(file.path());
        else if (kind == ".png")
            pictures.insert(file.path().filename());
        else if (kind == ".csv")
            std::filesystem::copy(file.path(), folder.path);
    }
    const tests::Run r = tests::draw(folder.path.string() + "/*.csv");
    for (const auto &file : std::filesystem::directory_iterator(folder.path))
        if (file.path().extension() == ".png")
            drawn.insert(file.path().filename());
    INFO(r.output);
    CHECK(r.status == 0);
    CHECK(r.count("\n") == int(drawn.size())); // no warnings
    CHECK(drawn == pictures);
    for (const std::string &picture : pictures) {
        INFO(picture);
        CHECK(pages.find("](" + picture + ")") != std::string::npos);
    }
}

TEST_CASE("each row of a table in docs has the cells of its heading", "[docs]") {
    int lines = 0;
    for (const auto &file : std::filesystem::directory_iterator("docs")) {
        if (file.path().extension() != ".csv")
            continue;
        std::ifstream rows(file.path());
        std::string line;
        REQUIRE(std::getline(rows, line));
        const size_t columns = examples::csv_cells(line).size();
        INFO(file.path());
        for (; std::getline(rows, line); ++lines)
            CHECK(examples::csv_cells(line).size() == columns);
    }
    CHECK(lines > 0);
}

TEST_CASE("pictures: a line says where gnuplot is missing; one that is not drawn or not whole is a failure", "[docs]") {
    const tests::Run without = tests::draw("docs/scaling.csv", "PATH=/nowhere");
    CHECK(without.output == "no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)\n");
    CHECK(without.status == 0);
    if (!tests::has_gnuplot())
        return;
    const tests::Folder folder;
    const std::string table = folder.path.string() + "/flow.csv";
    std::ofstream(table) << "no table\n";
    const tests::Run broken = tests::draw(table);
    CHECK(broken.count("no picture: gnuplot failed on examples/flow.gp with " + table + "\n") == 1);
    CHECK(broken.status == 1);
    // A full disk: files end at 2048 bytes.
    const std::string scaling = folder.path.string() + "/scaling";
    std::filesystem::copy("docs/scaling.csv", scaling + ".csv");
    const tests::Run full =
        tests::run("", "", "sh -c 'trap \"\" XFSZ; ulimit -f 4; exec sh examples/draw.sh " + scaling + ".csv'");
    INFO(full.output);
    CHECK(full.count("no picture: " + scaling + ".png cannot be written\n") == 1);
    CHECK(full.status == 1);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 2); // the tables
}
