// Settings for a part of a test.
#pragma once
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tests {

// Variables of the environment, for as long as this lives.
class Environment {
  public:
    Environment(std::initializer_list<std::pair<std::string, std::string>> variables) : variables_(variables) {
        for (auto &[name, value] : variables_) {
            const char *const before = std::getenv(name.c_str());
            const std::string kept = before != nullptr ? before : "";
            setenv(name.c_str(), (name == "MILCGPU_TEST" && !kept.empty() ? kept + "," + value : value).c_str(), 1);
            value = kept;
        }
    }
    Environment(const Environment &) = delete;
    ~Environment() {
        for (const auto &[name, before] : variables_)
            before.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), before.c_str(), 1);
    }

  private:
    std::vector<std::pair<std::string, std::string>> variables_;
};

} // namespace tests
