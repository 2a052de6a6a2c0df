// Whether the docs name what there is.
#include "examples/lib/csv.h"
#include "milc_glue/api/milcgpu.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using tests::matches;
using tests::names_in;
using tests::text_of;

TEST_CASE("docs/reference.md names every function of the C headers", "[docs]") {
    const std::string reference = text_of("docs/reference.md");
    int functions = 0;
    for (const auto &file : std::filesystem::directory_iterator("milc_glue/api")) {
        const std::string name = file.path().filename();
        if (name.rfind("milcgpu", 0) != 0 || file.path().extension() != ".h")
            continue;
        INFO(name);
        CHECK(reference.find(name) != std::string::npos);
        for (const auto &found : matches(text_of(file.path()), tests::a_function)) {
            INFO(found[1]);
            CHECK(reference.find("`" + found[1] + "`") != std::string::npos);
            ++functions;
        }
    }
    CHECK(functions > 90);
}

// A file of tests or docs that names most functions of the headers lists them: a new function must be added there.
TEST_CASE("docs/design.md, how to add a function of the C interface: names each file that lists the functions",
          "[docs]") {
    const std::string page = text_of("docs/design.md");
    const size_t begin = page.find("\n| a function of the C interface |");
    REQUIRE(begin != std::string::npos);
    const std::string row = page.substr(begin, page.find('\n', begin + 1) - begin);
    std::set<std::string> functions;
    for (const auto &file : std::filesystem::directory_iterator("milc_glue/api"))
        if (file.path().filename().string().rfind("milcgpu", 0) == 0)
            for (const auto &found : matches(text_of(file.path()), tests::a_function))
                functions.insert(found[1]);
    std::set<std::string> lists;
    for (const char *folder : {"tests", "docs"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(folder)) {
            if (!file.is_regular_file())
                continue;
            const std::string text = text_of(file.path());
            std::set<std::string> named;
            for (size_t at = text.find("milcgpu_"), end; at != std::string::npos; at = text.find("milcgpu_", end)) {
                for (end = at; end < text.size() && (std::isalnum(text[end]) != 0 || text[end] == '_');)
                    ++end;
                if (functions.count(text.substr(at, end - at)) == 1)
                    named.insert(text.substr(at, end - at));
            }
            if (4 * named.size() > 3 * functions.size())
                lists.insert(file.path().string());
        }
    CHECK(lists.size() >= 2);
    for (const std::string &file : lists) {
        INFO(file);
        CHECK(row.find(file) != std::string::npos);
    }
}

TEST_CASE("links in README.md and docs lead to files", "[docs]") {
    for (const auto &page : tests::pages())
        for (const auto &link : tests::links_of(page)) {
            INFO(page << ": " << link.file << link.heading);
            CHECK(tests::leads(page, link));
        }
    CHECK_FALSE(tests::leads("README.md", {"docs/troubleshooting.md", "#no-issues"})); // the check can fail
}

TEST_CASE("every page of docs is reached by links from README.md", "[docs]") {
    std::set<std::filesystem::path> reached{"README.md"}, followed;
    while (followed != reached)
        for (const auto &page : std::set<std::filesystem::path>(reached))
            if (followed.insert(page).second)
                for (const auto &link : tests::links_of(page))
                    if (std::filesystem::path(link.file).extension() == ".md")
                        reached.insert((page.parent_path() / link.file).lexically_normal());
    for (const auto &page : tests::pages()) {
        INFO(page);
        CHECK(reached.count(page) == 1);
    }
    CHECK(reached.size() > 10);
}

namespace {

// Cells of a table in a page or of a list, without blanks around them.
std::vector<std::string> parts(const std::string &text, char between) {
    std::vector<std::string> cells;
    std::stringstream whole(text);
    for (std::string cell; std::getline(whole, cell, between);)
        cells.push_back(tests::replaced(cell, "^ +| +$|`", ""));
    return cells;
}

// Whether `shown` is `value`, a number rounded to the digits that it has.
bool is_rounded(const std::string &shown, const std::string &value) {
    if (shown == value)
        return true;
    if (!tests::is_all(shown, "-?[0-9.]+(e-?[0-9]+)?"))
        return false;
    const size_t exponent = shown.find('e'), point = shown.find('.');
    const size_t digits = point < exponent ? std::min(exponent, shown.size()) - point - 1 : 0;
    const double unit = std::pow(10, (exponent < shown.size() ? std::stod(shown.substr(exponent + 1)) : 0) - digits);
    return std::fabs(std::stod(shown) - std::stod(value)) <= 0.5000001 * unit;
}

} // namespace

// A table below a line <!-- FILE.csv: COLUMNS by COLUMN=VALUES where COLUMN=VALUE, .. --> has its numbers from
// docs/FILE.csv. Its first cell stands in the row of the CSV. Behind it are, for each of VALUES in turn, the COLUMNS;
// cells behind them are not looked at, nor empty ones. `by` and `where` may be left out.
TEST_CASE("figures of marked tables are equal to their CSV", "[docs]") {
    int figures = 0;
    for (const auto &page : tests::pages()) {
        const std::string marker =
            "<!-- (\\w+\\.csv): (.*?)(?: by (\\w+)=(.*?))?(?: where (.*?))? -->\n+\\|.*\n\\|[-|]+\n((?:\\|.*\n)+)";
        for (const auto &found : matches(text_of(page), marker)) {
            INFO(page << ": " << found[1]);
            std::ifstream csv("docs/" + found[1]);
            std::string line;
            REQUIRE(std::getline(csv, line));
            const auto heading = examples::csv_cells(line);
            const auto column = [&](const std::string &name) {
                const auto at = std::find(heading.begin(), heading.end(), name);
                INFO(name);
                REQUIRE(at != heading.end());
                return size_t(at - heading.begin());
            };
            std::vector<std::vector<std::string>> rows;
            while (std::getline(csv, line))
                rows.push_back(examples::csv_cells(line));
            for (const std::string &condition : parts(found[5], ',')) {
                const auto words = parts(condition, '=');
                const size_t at = column(words[0]);
                rows.erase(std::remove_if(rows.begin(), rows.end(), [&](auto &row) { return row[at] != words[1]; }),
                           rows.end());
            }
            const auto values = found[3].empty() ? std::vector<std::string>{""} : parts(found[4], ',');
            for (const std::string &shown : parts(found[6], '\n')) {
                const auto cells = parts(shown.substr(1), '|');
                size_t k = 1;
                for (const std::string &value : values)
                    for (const std::string &name : parts(found[2], ',')) {
                        INFO(cells[0] << ", " << value << " " << name << ": " << cells.at(k));
                        const bool is = std::any_of(rows.begin(), rows.end(), [&](const auto &row) {
                            return std::count(row.begin(), row.end(), cells[0]) > 0 &&
                                   (value.empty() || row[column(found[3])] == value) &&
                                   is_rounded(cells[k], row[column(name)]);
                        });
                        CHECK((cells[k].empty() || is));
                        figures += !cells[k++].empty();
                    }
            }
        }
    }
    CHECK(figures >= 6);
    CHECK(is_rounded("80.7", "80.6913")); // the check finds figures
    CHECK_FALSE(is_rounded("80.6", "80.6913"));
    CHECK(is_rounded("1.8e-07", "1.79e-7"));
    CHECK_FALSE(is_rounded("1.8e-07", "1.9e-7"));
    CHECK_FALSE(is_rounded("fast", "1"));
}

TEST_CASE("docs/milc.md has the sums of docs/milc-checked.csv", "[docs]") {
    std::ifstream csv("docs/milc-checked.csv");
    std::string line;
    long sums[5] = {};
    for (std::getline(csv, line); std::getline(csv, line); ++sums[4]) {
        const auto cells = examples::csv_cells(line);
        for (size_t k = 0; k < 4; ++k)
            sums[k] += cells.at(7 + k).empty() ? 0 : std::stol(cells[7 + k]);
    }
    const std::string page = text_of("docs/milc.md");
    for (const long sum : sums) {
        INFO(sum);
        CHECK(!names_in(page, "\\b(" + std::to_string(sum) + ")\\b").empty());
    }
}

TEST_CASE("make passes the name of a test to Catch with its comma, and compiles its file alone", "[docs]") {
    const std::string quoted = "\\\"names, MILC's\\\""; // this file has "names, MILC's"
    const tests::Run shown = tests::run(
        "MAKEFLAGS=", "",
        "make -n CUDA=0 -W tests/programs/test_docs.cpp -W tests/physics/test_eigen.cpp check TESTS=\"" + quoted + '"');
    CAPTURE(shown.status);
    CHECK(shown.count("program_tests '\"names\\, MILC'\\''s\"' >") == 1);
    CHECK(shown.count("-c tests/programs/test_docs.cpp ") == 1);
    CHECK(shown.count("-c tests/physics/test_eigen.cpp ") == 0);
}

TEST_CASE("make lines in docs name targets of the Makefile", "[docs]") {
    const auto targets = names_in(text_of("Makefile"), "\n([a-z_-]+):[^\n]* ## ");
    int lines = 0;
    for (const auto &page : tests::pages())
        for (const std::string &code : tests::code_of(page)) {
            if (code.find("make ") == std::string::npos)
                continue;
            const auto found = matches(code, "(?:^|&& )make ([a-z][a-z_-]*)(?: |$)"); // MILC's lines have its variables
            if (found.empty() || !matches(code, "su3_|ks_spectrum|MY_CC|milcgpu-config|QUDA").empty())
                continue;
            INFO(page << ": " << code);
            CHECK(targets.count(found[0][1]) == 1);
            ++lines;
        }
    CHECK(lines > 20);
}

static std::filesystem::path path_of_test(const std::string &name) {
    for (const auto &folder : std::filesystem::directory_iterator("tests"))
        if (std::filesystem::exists(folder.path() / name))
            return folder.path() / name;
    return name;
}

TEST_CASE("each command of README, tutorial and guide is run by a test, or by hand, as tests/README.md says",
          "[docs]") {
    const std::string list = text_of("tests/README.md");
    std::map<std::string, int> rows; // how a command begins, and how many begin so
    for (const auto &row :
         matches(list.substr(list.find("\n| commands that begin")), "\n\\| (`.*`) \\| ([^|\n]+) \\|")) {
        INFO(row[1]);
        for (const auto &command : matches(row[1], "`([^`]+)`"))
            rows[command[1]] = 0;
        const auto tests_of = matches(row[2], "`(test_\\w+)\\.cpp`");
        CHECK((!tests_of.empty() || !matches(row[2], "by hand,.* 20[0-9]{2}-[0-9]{2}-[0-9]{2}").empty()));
        for (const auto &test : tests_of)
            CHECK(std::filesystem::exists(path_of_test(test[0].substr(1, test[0].size() - 2))));
    }
    for (const char *page : {"README.md", "docs/tutorial.md", "docs/guide.md"})
        for (const std::string &line : tests::blocks_of(page)) {
            const bool is_c = !matches(line, ";( *(//|/\\*).*)?$|^#include").empty();
            const bool is_output = !matches(line, "^milcgpu:|^\\.\\.\\.$| OK$|:ACCEPT: |^ +").empty();
            if (is_c || is_output)
                continue;
            INFO(page << ": " << line);
            const auto row =
                std::find_if(rows.begin(), rows.end(), [&](const auto &of) { return line.rfind(of.first, 0) == 0; });
            CHECK(row != rows.end());
            if (row != rows.end())
                ++row->second;
        }
    for (const auto &[command, lines] : rows) {
        INFO(command);
        CHECK(lines > 0);
    }
}

TEST_CASE("names of the interface in the docs exist in the interface", "[docs]") {
    std::set<std::string> words;
    for (const char *root : {"milc_glue", "gpu_kernels/machine", "tests/milc_host"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root))
            if (file.is_regular_file())
                for (const std::string word : {"milcgpu_", "MILCGPU_"})
                    words.merge(names_in(tests::lines_with(word, text_of(file.path())), "\\b(" + word + "\\w+)"));
    int names = 0;
    for (const auto &page : tests::pages())
        if (page != "docs/changelog.md") // old names
            for (const std::string &name :
                 names_in(text_of(page), "\\b((?:milcgpu_[a-z]|MILCGPU_)\\w*[A-Za-z0-9])\\b")) {
                INFO(page << ": " << name);
                CHECK(words.count(name) == 1);
                ++names;
            }
    CHECK(names > 200);
}

TEST_CASE("docs name the current version", "[docs]") {
    CHECK(text_of("docs/CITATION.cff").find("version: " MILCGPU_VERSION "\n") != std::string::npos);
    CHECK(text_of("docs/tutorial.md").find("milcgpu: version " MILCGPU_VERSION ",") != std::string::npos);
    CHECK(text_of("docs/changelog.md").find("\n## " MILCGPU_VERSION "\n") != std::string::npos);
    CHECK(text_of("examples/python/pyproject.toml").find("\nversion = \"" MILCGPU_VERSION "\"\n") != std::string::npos);
    const std::string packages = "milc_glue/install/packages/",
                      easybuild = packages + "milcgpu-" MILCGPU_VERSION "-foss-2024a-CUDA-12.6.0.eb";
    for (const std::string &recipe : {std::string("docs/install.md"), packages + "debian/changelog", easybuild}) {
        INFO(recipe);
        CHECK(names_in(text_of(recipe), "(?:milcgpu[-_ (]+|\nversion = ')([0-9]+\\.[0-9]+\\.[0-9]+)") ==
              std::set<std::string>{MILCGPU_VERSION});
    }
}

TEST_CASE("docs/changelog.md lists each change once", "[docs]") { // merged branches may both add one
    std::set<std::string> said;
    for (const auto &change : matches(text_of("docs/changelog.md"), "\n- (.{40})")) {
        INFO(change[1]);
        CHECK(said.insert(change[1]).second);
    }
    CHECK(said.size() > 40);
}

TEST_CASE("docs/guide.md names every program of the cookbook", "[docs]") {
    const std::string page = text_of("docs/guide.md");
    for (const auto &file : std::filesystem::directory_iterator("examples/cookbook")) {
        const std::string name = file.path().filename();
        INFO(name);
        CHECK((name == "CMakeLists.txt" || page.find("`" + name + "`") != std::string::npos));
    }
}

TEST_CASE("docs/conventions.md names tests that exist", "[docs]") {
    const std::string page = tests::replaced(text_of("docs/conventions.md"), "\\s+", " ");
    int tests_named = 0;
    for (const auto &of_file : matches(page, "`(test_\\w+\\.cpp)`: (\"[^\"]+\"(?:, \"[^\"]+\")*)"))
        for (const auto &name : matches(of_file[2], "\"([^\"]+)\"")) {
            INFO(of_file[1] << ": " << name[1]);
            CHECK(text_of(path_of_test(of_file[1])).find("TEST_CASE(\"" + name[1]) != std::string::npos);
            ++tests_named;
        }
    CHECK(tests_named > 30);
}

TEST_CASE("docs/design.md has the layers as the includes draw them, and a circle is an error", "[docs]") {
    const tests::Run drawn = tests::succeeded(tests::run("", "", "sh docs/layers.sh"));
    CHECK(drawn.count("\n") >= 10);
    CHECK(text_of("docs/design.md").find("\n\n" + drawn.output + "\n") != std::string::npos);
    const tests::Folder folder;
    const auto header = [&](const std::string &name, const std::string &included) {
        std::filesystem::create_directories((folder.path / name).parent_path());
        std::ofstream(folder.path / name) << "#include \"" << included << "\"\n";
    };
    for (const char *root : {"milc_glue", "reorder"})
        std::filesystem::create_directories(folder.path / root);
    header("gpu_kernels/upper/a.h", "gpu_kernels/lower/b.h");
    header("gpu_kernels/lower/b.h", "gpu_kernels/lower/c.h");
    const std::string script = std::filesystem::absolute("docs/layers.sh"),
                      command = "sh -c 'cd " + folder.path.string() + "; exec sh " + script + "'";
    CHECK(tests::run("", "", command).output == "     1  upper\n     0  lower\n");
    header("gpu_kernels/lower/c.h", "gpu_kernels/upper/a.h");
    const tests::Run circle = tests::run("", "", command);
    CHECK(circle.status == 1);
    CHECK(circle.count("layers: a circle of includes at ") == 1);
}

TEST_CASE("no two files of the library have the same name", "[docs]") {
    std::map<std::string, std::filesystem::path> path_of;
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind != ".h" && kind != ".cu" && kind != ".cpp" && kind != ".c")
                continue;
            const auto [other, is_new] = path_of.emplace(file.path().filename(), file.path());
            INFO(file.path() << " and " << other->second);
            CHECK(is_new);
        }
    CHECK(path_of.size() > 350);
}

namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string without_comments(std::string text) {
    for (size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at))
        text.erase(at, text.find('\n', at) - at);
    for (size_t at = text.find("/*"); at != std::string::npos; at = text.find("/*"))
        text.erase(at, text.find("*/", at) + 2 - at);
    return text;
}

// The parameters of the function that is defined at the bracket text[at], as they stand there; empty for anything else.
std::vector<std::string> parameters_at(const std::string &text, size_t at) {
    std::vector<std::string> parameters{""};
    int depth = 0, angles = 0;
    const size_t last = std::min(text.size(), at + 2000);
    for (; at < last; ++at) {
        const char c = text[at];
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (depth == 0)
            break;
        angles = std::max(0, angles + (c == '<') - (c == '>' && text[at - 1] != '-'));
        if (c == ',' && depth == 1 && angles == 0)
            parameters.emplace_back();
        else
            parameters.back() += c;
    }
    for (++at; at < text.size(); ++at) // const, override ..
        if (!in_word(text[at]) && text[at] != ' ' && text[at] != '\n')
            break;
    const std::string behind = text.substr(std::min(at, text.size()), 2);
    const bool defined = behind[0] == '{' || (behind[0] == ':' && behind != "::");
    return defined ? parameters : std::vector<std::string>();
}

// Of a folder of MILC's glue: which file, its header with it, takes something from which.
struct Files {
    std::map<std::string, std::string> code; // by the name without its ending; no comments, no definitions of macros
    std::map<std::string, std::string> macros;
    std::map<std::string, std::set<std::string>> takes;

    explicit Files(const std::string &folder) {
        for (const auto &file : std::filesystem::directory_iterator(folder)) {
            const std::string kind = file.path().extension();
            if (kind != ".c" && kind != ".h" && kind != ".cpp")
                continue;
            std::string text = without_comments(text_of(file.path()));
            const std::string macro = "#define (\\w+)\\([^)]*\\)((?:[^\\n\\\\]|\\\\\\n)*)";
            for (const auto &found : matches(text, macro))
                macros[found[1]] = found[2];
            code[file.path().stem()] += "\n" + tests::replaced(text, macro, "");
        }
    }
    // Words that stand before a bracket, also by way of macros.
    std::set<std::string> calls(const std::string &text) const {
        std::set<std::string> names;
        for (size_t bracket = text.find('('); bracket != std::string::npos; bracket = text.find('(', bracket + 1)) {
            size_t begin = bracket;
            while (begin > 0 && in_word(text[begin - 1]))
                --begin;
            if (const std::string name = text.substr(begin, bracket - begin);
                !name.empty() && names.insert(name).second && macros.count(name) == 1)
                names.merge(calls(macros.at(name)));
        }
        return names;
    }
    // By calls of functions that begin like one of these. A call of MILC's X is one of __wrap_X.
    void add_calls(const std::vector<std::string> &functions) {
        const std::set<std::string> of_libc =
            names_in(text_of("milc_glue/api/routines.def"), "_OF_LIBC\\([^,]*, (\\w+),");
        std::map<std::string, std::string> defined_in;
        for (const auto &[file, text] : code)
            for (const std::string &first : functions)
                for (size_t at = text.find(first); at != std::string::npos; at = text.find(first, at + 1)) {
                    size_t line = at, end = at; // a line with a type before the name, and a bracket behind it
                    while (line > 0 && (in_word(text[line - 1]) || text[line - 1] == ' ' || text[line - 1] == '*'))
                        --line;
                    while (in_word(text[end]))
                        ++end;
                    if (line == 0 || text[line - 1] != '\n' || line == at || !in_word(text[line]) ||
                        in_word(text[at - 1]) || text[end] != '(' || text[text.find_first_of("{;", at)] != '{')
                        continue;
                    const std::string name = text.substr(at, end - at),
                                      routine = name.rfind("__wrap_", 0) == 0 ? name.substr(7) : name;
                    if (of_libc.count(routine) == 0)
                        defined_in[routine] = defined_in[name] = file;
                }
        for (const auto &[file, text] : code)
            for (const std::string &name : calls(text))
                if (defined_in.count(name) == 1 && defined_in[name] != file)
                    takes[file].insert(defined_in[name]);
    }
    void add_includes(const std::string &prefix) {
        for (const auto &[file, text] : code)
            for (const std::string &header :
                 names_in(tests::lines_with("#include", text), "#include \"" + prefix + "(\\w+)\\.h\""))
                if (header != file)
                    takes[file].insert(header);
    }
    // Those that take something, by way of others, from themselves.
    std::set<std::string> in_a_circle() const {
        std::set<std::string> circle;
        for (const auto &[first, from] : takes) {
            std::set<std::string> reached = from;
            for (size_t before = 0; before != reached.size();) {
                before = reached.size();
                for (const std::string &file : std::set<std::string>(reached))
                    if (takes.count(file) == 1)
                        reached.insert(takes.at(file).begin(), takes.at(file).end());
            }
            if (reached.count(first) == 1)
                circle.insert(first);
        }
        return circle;
    }
};

} // namespace

TEST_CASE("functions of the library take at most eight arguments, and no two flags in a row", "[docs]") {
    // MILC's own, the C interface, and kernels, which take what a launch passes.
    const std::set<std::string> keywords{"if", "for", "while", "switch", "catch"};
    const auto is_exempt = [&](const std::string &name) {
        return keywords.count(name) == 1 || name.empty() || name.rfind("__wrap_", 0) == 0 ||
               name.rfind("milcgpu_", 0) == 0 || name.rfind("quda", 0) == 0 || name.rfind("run_sum", 0) == 0;
    };
    int functions = 0;
    const auto faults_of = [&](const std::string &text) {
        std::set<std::string> faults;
        for (size_t at = text.find('('); at != std::string::npos; at = text.find('(', at + 1)) {
            size_t begin = at;
            while (begin > 0 && in_word(text[begin - 1]))
                --begin;
            const std::string name = text.substr(begin, at - begin);
            if (is_exempt(name))
                continue;
            const std::vector<std::string> all = parameters_at(text, at);
            functions += !all.empty();
            const auto is_flag = [](const std::string &one) {
                return one.find("bool ") != std::string::npos && one.find("function<") == std::string::npos;
            };
            for (size_t k = 0; k + 1 < all.size(); ++k)
                if ((is_flag(all[k]) && is_flag(all[k + 1])) || all.size() > 8)
                    faults.insert(name);
        }
        return faults;
    };
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind != ".h" && kind != ".cu" && kind != ".cpp" && kind != ".c")
                continue;
            INFO(file.path());
            CHECK(faults_of(without_comments(text_of(file.path()))) == std::set<std::string>());
        }
    CHECK(functions > 3000);
    // The checks can fail.
    CHECK(faults_of("void f(bool a, bool b) {}\nvoid g(bool a, int b, bool c) {}").count("f") == 1);
    CHECK(faults_of("int h(A a, A b, A c, std::map<A, A> d, A e, A f, A g, A h, A i) const {").count("h") == 1);
}

TEST_CASE("files of MILC's glue include and call each other without a circle", "[docs]") {
    Files glue("milc_glue/use_gpu"), routines("milc_glue/routines"), residency("milc_glue/residency");
    glue.add_calls({"milcgpu_", "__wrap_"});
    routines.add_calls({"milcgpu_plugin_"});
    routines.add_includes("milc_glue/routines/");
    residency.add_includes("milc_glue/residency/");
    CHECK(glue.takes["solve"].count("start") == 1);            // a function
    CHECK(glue.takes["updates"].count("sites") == 1);          // a macro
    CHECK(glue.takes["start"].count("program") == 1);          // the table of what is not offloaded
    CHECK(residency.takes["link_cache"].count("mirror") == 1); // a header
    CHECK(glue.in_a_circle() == std::set<std::string>());
    CHECK(routines.in_a_circle() == std::set<std::string>());
    CHECK(residency.in_a_circle() == std::set<std::string>());
    residency.takes["mirror"].insert("link_watch"); // the check can fail
    CHECK(residency.in_a_circle() == std::set<std::string>{"link_cache", "link_watch", "mirror"});
}

TEST_CASE("docs/design.md, from MILC's call to the kernel: each function is called by one above it", "[docs]") {
    struct Row {
        std::string name, file, body;
    };
    std::vector<Row> rows;
    const auto last_part = [](const std::string &name) { return name.substr(name.rfind(':') + 1); };
    for (const auto &row : matches(text_of("docs/design.md"), "\n\\| [0-9]+ \\| `([\\w:]+)` \\(([\\w/.]+)\\) \\|")) {
        const std::string root = std::filesystem::exists("milc_glue/" + row[2]) ? "milc_glue/" : "gpu_kernels/";
        INFO(row[1] << " in " << root + row[2]);
        rows.push_back({row[1], root + row[2], ""});
        const auto functions = tests::functions_of(root + row[2]);
        // Members that are defined within their class have no class in their name there.
        for (const std::string &name : {row[1], "milcgpu::" + row[1], last_part(row[1])})
            if (rows.back().body.empty())
                for (auto [at, end] = functions.equal_range(name); at != end; ++at)
                    rows.back().body += at->second;
        CHECK(!rows.back().body.empty());
    }
    REQUIRE(rows.size() > 10);
    CHECK(rows.front().name == "__wrap_ks_congrad_parity_cpu");
    CHECK(rows.back().name == "start_as");
    // A row of a table of kernels is called by its member `launch`.
    const auto calls = [&](const Row &from, const Row &to) {
        const bool in_table = names_in(text_of(to.file), "(\\w+)<[^\n]*>,\\s*\\{").count(to.name) == 1;
        const std::string name = in_table ? "row\\.launch" : "\\b" + last_part(to.name);
        return !matches(from.body, name + "(?:<[\\w, ():]*>)?\\(").empty();
    };
    for (size_t k = 1; k < rows.size(); ++k) {
        INFO(rows[k].name << " in " << rows[k].file);
        CHECK(std::any_of(rows.begin(), rows.begin() + k, [&](const Row &row) { return calls(row, rows[k]); }));
    }
    CHECK(!calls(rows.front(), rows.back()));
    const std::string loop = text_of("gpu_kernels/solver/cg.cpp");
    CHECK(std::count(loop.begin(), loop.end(), '\n') <= 150);
}

TEST_CASE("few sources are compiled again after a change of halo.h, and few with kernels after one of device.h",
          "[docs]") {
    std::map<std::string, std::set<std::string>> includes;
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue", "tests", "examples"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind == ".h" || kind == ".cu" || kind == ".cpp")
                includes[file.path().string()] =
                    names_in(tests::lines_with("#include", text_of(file.path())), "#include \"([a-z0-9_/.]+)\"");
        }
    // Whose endings are `kind`.
    const auto reached_by = [&](const char *changed, const char *kind) {
        std::set<std::string> reached = {changed};
        for (size_t before = 0; before != reached.size();) {
            before = reached.size();
            for (const auto &[file, headers] : includes)
                for (const std::string &header : headers)
                    if (reached.count(header) == 1)
                        reached.insert(file);
        }
        return std::count_if(reached.begin(), reached.end(),
                             [&](const std::string &file) { return std::filesystem::path(file).extension() == kind; });
    };
    const auto of_halo = reached_by("gpu_kernels/halo/halo.h", ".cu");
    CHECK(of_halo >= 1);
    CHECK(of_halo <= 9); // of more than 70
    CHECK(of_halo + reached_by("gpu_kernels/halo/halo.h", ".cpp") <= 41);
    const auto of_device = reached_by("gpu_kernels/machine/backend/device.h", ".cu");
    CHECK(of_device >= 1);
    CHECK(of_device <= 9);
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
    CHECK(r.status == 0);
    CHECK(r.count("no picture of " + folder.path.string() + "/milc-checked.csv") == 1);
    CHECK(r.count("\n") == int(drawn.size()) + 1); // no warnings
    CHECK(drawn == pictures);
    for (const std::string &picture : pictures) {
        INFO(picture);
        CHECK(pages.find("](" + picture + ")") != std::string::npos);
    }
}

TEST_CASE("lines of pages have up to 120 columns, except rows of tables and indented code", "[docs]") {
    std::string too_long;
    for (const auto &page : tests::pages()) {
        std::istringstream lines(text_of(page));
        for (std::string line; std::getline(lines, line);)
            if (line.size() > 120 && line[0] != '|' && line.rfind("    ", 0) != 0)
                too_long += page.string() + ": " + line + "\n";
    }
    CHECK(too_long == "");
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
    CHECK(broken.count("no picture: gnuplot failed on plots/flow.gp with " + table + "\n") == 1);
    CHECK(broken.status == 1);
    CHECK(tests::draw(folder.path.string() + "/none.csv").count("no picture: there is no file ") == 1);
    // A full disk: files end at 6144 bytes.
    const std::string scaling = folder.path.string() + "/scaling";
    std::filesystem::copy("docs/scaling.csv", scaling + ".csv");
    const tests::Run full =
        tests::run("", "", "sh -c 'trap \"\" XFSZ; ulimit -f 12; exec sh examples/draw.sh " + scaling + ".csv'");
    CHECK(full.count("no picture: " + scaling + ".png cannot be written\n") == 1);
    CHECK(full.status == 1);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 2); // the tables
}

TEST_CASE("pictures: masses of one configuration, whose errors are nan, are drawn", "[docs]") {
    if (!tests::has_gnuplot())
        SKIP_TEST("gnuplot is not installed");
    const tests::Folder folder;
    const auto picture = [&](const char *correlator, const char *mass) {
        const std::string name = folder.path.string() + "/spectrum", end = ",nan,4x4x4x8,host backend,2026-11-28\n";
        std::ofstream(name + ".csv") << "quark_mass,source,hadron,t,correlator,error,effective_mass,error_of_mass,"
                                        "lattice,card,date\n0.1,corner-wall,pion,1,"
                                     << correlator << ",nan," << mass << end << "0.1,corner-wall,pion,2,1,nan,2"
                                     << end // both axes end at these points
                                     << "0.1,corner-wall,pion,3,9,nan,0.5" << end;
        CHECK(tests::draw(name + ".csv").status == 0);
        return text_of(name + ".png");
    };
    const std::string drawn = picture("3", "1.157");
    CHECK(drawn != picture("3", "1.6"));
    CHECK(drawn != picture("3", "nan"));
    CHECK(drawn != picture("5", "1.157"));
    CHECK(drawn.size() > 1000);
}

TEST_CASE("pictures: no table and no name of a folder runs a command", "[docs]") {
    if (!tests::has_gnuplot())
        SKIP_TEST("gnuplot is not installed");
    const tests::Folder folder;
    const std::string mark = folder.path.string() + "/MARK";
    const auto drawn = [&](const std::string &name, const std::string &text, const std::string &sub = "") {
        const auto place = folder.path / "tables" / sub;
        std::filesystem::create_directories(place);
        std::ofstream(place / name) << text;
        // By a name without a folder in front, from a copy of the scripts' folder.
        const tests::Run r =
            tests::run("", "",
                       "sh -c 'ln -sfn \"$PWD/examples\" \"$0/tables/examples\"; cd \"$0/tables\"; "
                       "exec sh examples/draw.sh \"$1\"' " +
                           folder.path.string() + " \"" + (sub.empty() ? "" : sub + "/") + name + "\"");
        CHECK_FALSE(std::filesystem::exists(mark));
        CHECK(r.status != 124); // it ends
        CHECK(std::all_of(r.output.begin(), r.output.end(), [](char c) { return c == '\n' || (c >= ' ' && c < 127); }));
        return r.status;
    };
    const std::string good = text_of("docs/scaling.csv");
    CHECK(drawn("scaling.csv", good, "a=b") == 0);
    CHECK(std::filesystem::exists(folder.path / "tables/a=b/scaling.png"));
    CHECK(drawn("scaling.csv", good, "-n") == 0);
    CHECK(drawn("scaling.csv", good, "q'.system('touch " + std::string("MARK") + "').'") == 0);
    CHECK_FALSE(std::filesystem::exists(folder.path / "tables/MARK"));
    CHECK(drawn("scaling.csv", good, "\x1b[2J") == 0);
    CHECK(drawn("x'; touch MARK; '.csv", good) == 0); // no script of this name
    // Each cell of each table in turn, as a command in all ways.
    for (const auto &file : std::filesystem::directory_iterator("docs")) {
        const std::string name = file.path().stem();
        if (file.path().extension() != ".csv" || !std::filesystem::exists("examples/plots/" + name + ".gp"))
            continue;
        std::ifstream lines(file.path());
        std::string text, line;
        for (int row = 0; std::getline(lines, line) && row < 9; ++row) {
            examples::Cells cells = examples::csv_cells(line);
            for (std::string &cell : cells)
                if (row > 0 && cell.find_first_not_of("0123456789.e+-") != cell.npos)
                    cell += "$(touch${IFS}" + mark + ")`touch " + mark + "`';touch " + mark + ";'|touch " + mark +
                            "&\\\");system(\"touch " + mark + "\");(\"\x1b[2J";
            text += examples::csv_line(cells);
        }
        drawn(name + ".csv", text);
    }
    drawn("demo_history.csv", "label,step,residual,lattice,card,date\n$(touch${IFS}" + mark + "),1,0.1,4x4x4x4,h,d\n");
    // A picture's part that exists is not written into.
    std::ofstream(folder.path / "victim") << "precious";
    const tests::Run planted = tests::run("", "",
                                          "sh -c 'ln -s victim \"$0/scaling.png.$$.part\"; cp docs/scaling.csv \"$0\"; "
                                          "exec sh examples/draw.sh \"$0/scaling.csv\"' " +
                                              folder.path.string());
    CHECK(planted.status == 1);
    CHECK(text_of(folder.path / "victim") == "precious");
}

namespace {

// A source file: its code without comments and strings, and its comments.
struct Source {
    std::string code, comments;
    std::set<std::string> words; // of the code
};

Source read_source(const std::filesystem::path &path) {
    const std::string text = text_of(path);
    Source source;
    for (size_t at = 0, end; at < text.size(); at = end) {
        const char c = text[at];
        end = at + 1;
        if (c == '/' && (text[end] == '/' || text[end] == '*')) {
            const bool line = text[end] == '/';
            end = text.find(line ? "\n" : "*/", end + 1);
            end = end == std::string::npos ? text.size() : end + (line ? 0 : 2);
            source.comments += text.substr(at, end - at) + "\n";
            source.code += ' ';
        } else if (c == '"' || (c == '\'' && at > 0 && !in_word(text[at - 1]))) {
            while (end < text.size() && text[end] != c && text[end] != '\n')
                end += text[end] == '\\' ? 2 : 1;
            ++end;
            source.code += "\"\"";
        } else {
            while (in_word(c) && end < text.size() && in_word(text[end]))
                ++end;
            if (in_word(c))
                source.words.insert(text.substr(at, end - at));
            source.code += text.substr(at, end - at);
        }
    }
    return source;
}

// The name that ends before, or begins at, a place.
std::string name_before(const std::string &text, size_t end) {
    size_t begin = end;
    while (begin > 0 && in_word(text[begin - 1]))
        --begin;
    return text.substr(begin, end - begin);
}
std::string name_at(const std::string &text, size_t begin) {
    size_t end = begin;
    while (end < text.size() && in_word(text[end]))
        ++end;
    return text.substr(begin, end - begin);
}

// Names in comments and pages that the code does not have.
struct Names {
    std::map<std::string, Source> sources;
    std::map<std::string, std::set<std::string>> declared_in; // classes, namespaces
    std::set<std::string> called, of_library;                 // functions, also those that are only declared
    static bool is_library(const std::string &path) {
        return path.rfind("tests/", 0) != 0 && path.rfind("examples/", 0) != 0;
    }

    void add(const std::string &path, const Source &source) {
        sources[path] = source;
        const std::string &code = source.code;
        for (size_t at = code.find('('); at != std::string::npos; at = code.find('(', at + 1)) {
            size_t end = at;
            if (end > 0 && code[end - 1] == '>') // of a template
                end = std::min(code.rfind('<', end), end);
            const std::string name = name_before(code, end);
            called.insert(name);
            if (is_library(path))
                of_library.insert(name);
        }
        for (const std::string word : {"struct ", "class ", "enum ", "namespace ", "using ", "} "})
            for (size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
                std::string name = name_at(code, at + word.size());
                for (size_t next = at + word.size() + name.size(); code.compare(next, 2, "::") == 0;) {
                    declared_in[name].insert(path);
                    name = name_at(code, next + 2);
                    next += 2 + name.size();
                }
                declared_in[name].insert(path);
            }
    }
    std::string wrong_in(const std::string &text, bool library) const {
        // The C library's, and MILC's that no file of ours calls.
        static const std::set<std::string> others = {"exit", "fork", "get_logical_coordinate", "get_loop_coeff",
                                                     "imp_gauge_action"};
        std::string wrong;
        for (size_t at = text.find("::"); at != std::string::npos; at = text.find("::", at + 2)) {
            const std::string of = name_before(text, at), member = name_at(text, at + 2);
            if (of.empty() || member.empty() || of == "std" || of == "Catch" ||
                (at > of.size() && text[at - of.size() - 1] == ':'))
                continue;
            const auto found = declared_in.find(of);
            bool there = false;
            if (found != declared_in.end())
                for (const std::string &file : found->second)
                    there = there || sources.at(file).words.count(member) == 1;
            wrong += there ? "" : of + "::" + member + " ";
        }
        for (size_t at = text.find("()"); at != std::string::npos; at = text.find("()", at + 2)) {
            const std::string name = name_before(text, at);
            const char before = at > name.size() ? text[at - name.size() - 1] : ' ';
            if (name.size() < 2 || !std::islower(static_cast<unsigned char>(name[0])) ||
                std::strchr(".>:", before) != nullptr)
                continue;
            if ((library ? of_library : called).count(name) == 0 && others.count(name) == 0)
                wrong += name + "() ";
        }
        return wrong;
    }
};

} // namespace

TEST_CASE("names of functions and members in comments and on pages exist in the code", "[docs]") {
    Names names;
    std::vector<std::filesystem::path> pages = tests::pages();
    for (const char *root : {"gpu_kernels", "reorder", "milc_glue", "tests", "examples"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(root)) {
            const std::string kind = file.path().extension();
            if (kind == ".h" || kind == ".c" || kind == ".cu" || kind == ".cpp" || kind == ".def")
                names.add(file.path().string(), read_source(file.path()));
            else if (file.path().filename() == "README.md")
                pages.push_back(file.path());
        }
    for (const auto &[path, source] : names.sources) {
        INFO(path);
        CHECK(names.wrong_in(source.comments, Names::is_library(path)) == "");
    }
    for (const auto &page : pages)
        if (page != "docs/changelog.md") { // old names
            INFO(page);
            CHECK(names.wrong_in(text_of(page), false) == "");
        }
    CHECK(names.wrong_in("Device::nothing, Nobody::collective, walk_on()", true) ==
          "Device::nothing Nobody::collective walk_on() ");
}
