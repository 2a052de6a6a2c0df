// Status codes and the one exception type. The library never exits or aborts: errors travel as Error up to the C
// interface, which turns them into a status and a message. The numbers are those of milcgpu.h.
#pragma once
#include "gpu_kernels/machine/c_locale.h"
#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace milcgpu {

enum class Status {
    ok = 0,
    not_converged = 1,   // iteration limit reached; the solution so far is returned
    precision_floor = 2, // the residual stopped falling: this precision cannot reach the tolerance
    nan_or_inf = 3,
    not_positive = 4, // p^dag A p <= 0: the operator has no positive spectrum
    bad_argument = 5,
    no_memory = 6,
    device_lost = 7,
    comm = 8,
    not_built = 9,  // no kernel for this combination; the message lists what is built
    corrupted = 10, // data on the device are no longer what was loaded
    timed_out = 11, // a wait inside a kernel reached its time limit; the message names it
};

class Error : public std::runtime_error {
  public:
    Error(Status status, const std::string &what) : std::runtime_error(what), status_(status) {}
    Status status() const { return status_; }

  private:
    Status status_;
};

// printf into a std::string, for messages and files.
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
inline std::string
format(const char *pattern, ...) {
    const CLocale with_points;
    va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
    va_end(arguments);
    std::string text(static_cast<size_t>(length), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(again);
    return text;
}

} // namespace milcgpu
