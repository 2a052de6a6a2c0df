// Settings for a part of a test.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tests {

// Variables of the environment, for as long as this lives.
class Environment {
  public:
    Environment(std::initializer_list<std::pair<std::string, std::string>> variables);
    Environment(const Environment &) = delete;
    ~Environment();

  private:
    std::vector<std::pair<std::string, std::string>> variables_;
};

} // namespace tests
