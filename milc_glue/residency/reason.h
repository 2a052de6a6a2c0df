// Text of the last failure, without the end of its last line. A table of memory may follow the first line.
#pragma once
#include <string>

namespace milcgpu {

std::string reason();

// The same for a log: without the table if the last one had the same owners.
class LoggedReason {
  public:
    std::string operator()();

  private:
    std::string owners_;
};

} // namespace milcgpu
