// Text of the last failure, without the end of its last line. A table of memory may follow the first line.
#pragma once
#include <string>

namespace milcgpu {

std::string reason();

// A line without its numbers of MiB. A failure that comes again has others each time.
std::string without_sizes(std::string line);

// The same text for a log: without the table if the last table had the same owners.
class LoggedReason {
  public:
    std::string operator()();

  private:
    std::string owners_;
};

} // namespace milcgpu
