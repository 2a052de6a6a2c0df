// Host memory that runs out: the test program's operator new fails where a test asks for it, in any thread.
#pragma once
#include <atomic>

namespace tests {

extern std::atomic<long> news_left;   // calls that still succeed before one fails; negative: none fails
extern std::atomic<bool> all_fail;    // from that one on, not only that one
extern std::atomic<long> failed_news; // how many did

} // namespace tests
