#include "tests/environment.h"
#include <cstdlib>
#include <string>

namespace tests {

namespace {

// Words of MILCGPU_TEST that hold already, without the one that the new ones contradict, and these.
std::string joined(std::string words, const std::string &more) {
    if (const size_t keep = words.find("keep"); more == "load" && keep != std::string::npos)
        words.erase(keep, sizeof "keep");
    return words.empty() ? more : words + "," + more;
}

} // namespace

Environment::Environment(std::initializer_list<std::pair<std::string, std::string>> variables) : variables_(variables) {
    for (auto &[name, value] : variables_) {
        const char *const before = std::getenv(name.c_str());
        const std::string kept = before != nullptr ? before : "";
        setenv(name.c_str(), (name == "MILCGPU_TEST" ? joined(kept, value) : value).c_str(), 1);
        value = kept;
    }
}

Environment::~Environment() {
    for (const auto &[name, before] : variables_)
        before.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), before.c_str(), 1);
}

} // namespace tests
