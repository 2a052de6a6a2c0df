#include "tests/environment.h"
#include <cstdlib>

namespace tests {

Environment::Environment(std::initializer_list<std::pair<std::string, std::string>> variables) : variables_(variables) {
    for (auto &[name, value] : variables_) {
        const char *const before = std::getenv(name.c_str());
        const std::string kept = before != nullptr ? before : "";
        setenv(name.c_str(), (name == "MILCGPU_TEST" && !kept.empty() ? kept + "," + value : value).c_str(), 1);
        value = kept;
    }
}

Environment::~Environment() {
    for (const auto &[name, before] : variables_)
        before.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), before.c_str(), 1);
}

} // namespace tests
