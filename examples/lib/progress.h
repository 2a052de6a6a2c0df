// The progress of a long computation, on stderr: on a terminal one line that is overwritten; elsewhere, as in the log
// of a batch job, one line per minute.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <unistd.h>

namespace examples {

class ProgressLine {
  public:
    explicit ProgressLine(bool speaks = true) : speaks_(speaks) {}
    ProgressLine(const ProgressLine &) = delete;
    ~ProgressLine() { clear(); }
    // As printf, if it is time for another line: a few times per second, or a minute after the last line.
    __attribute__((format(printf, 2, 3))) void show(const char *pattern, ...) {
        const double now = seconds();
        if (!speaks_ || now - last_ < (on_terminal_ ? 0.25 : 60))
            return;
        last_ = now;
        char text[100];
        va_list arguments;
        va_start(arguments, pattern);
        std::vsnprintf(text, sizeof text, pattern, arguments);
        va_end(arguments);
        std::fprintf(stderr, on_terminal_ ? "\r%-60s" : "%s\n", text);
        written_ = on_terminal_;
    }
    // Call it before other output.
    void clear() {
        if (written_)
            std::fprintf(stderr, "\r%60s\r", "");
        written_ = false;
    }

  private:
    static double seconds() {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
    }
    const bool speaks_;
    bool written_ = false;
    const bool on_terminal_ = isatty(STDERR_FILENO) != 0;
    double last_ = on_terminal_ ? 0 : seconds();
};

} // namespace examples
