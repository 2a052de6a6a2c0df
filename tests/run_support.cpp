#include "tests/run_support.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>

namespace tests {

Run shell(const std::string &command) {
    Run result;
    const auto begin = std::chrono::steady_clock::now();
    FILE *pipe = popen(("unset MAKEFLAGS MFLAGS MAKELEVEL; { " + command + "; } 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr;)
        result.output += line;
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    note_run(command, result);
    return result;
}

Run run(const std::string &settings, const std::string &launcher, const std::string &program) {
    return shell(std::string("timeout -k 5 100 env ") + run_environment + " " + settings + " " + launcher + " " +
                 program + " </dev/null");
}

void check_pictures(const std::string &table, const std::vector<std::string> &pictures) {
    if (!has_gnuplot())
        return;
    const std::string folder = std::filesystem::path(table).parent_path();
    std::string said;
    for (const std::string &name : pictures)
        said += "picture: " + folder + "/" + name + ".png\n";
    CHECK(draw(table).output == said);
    for (const std::string &name : pictures)
        CHECK(std::filesystem::file_size(folder + "/" + name + ".png") > 5000); // an empty one is smaller
}

Folder::Folder() {
    char name[] = "/tmp/milcgpu-tests-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
}

Folder::~Folder() { std::filesystem::remove_all(path); }

int Run::count(const std::string &text) const {
    int found = 0;
    for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
        ++found;
    return found;
}

} // namespace tests
