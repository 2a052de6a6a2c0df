// Text of the last failure, without the end of its last line. A table of memory may follow the first line.
#pragma once
#include <string>

namespace milcgpu {

std::string reason();

// The same text for a log: without the table if the last table had the same owners.
class LoggedReason {
  public:
    std::string operator()();

  private:
    std::string owners_;
};

} // namespace milcgpu
