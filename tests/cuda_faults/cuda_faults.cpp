// Every call of the CUDA runtime failing in turn, in entries of each kind of the C interface (steps.cpp): no hang,
// no wrong result called right, a message that names the step, outputs untouched unless they were being copied out, the
// next call right after NO_MEMORY, a new context right after DEVICE_LOST. Needs a GPU; prints 'N passed, N failed'.
// Arguments: names of steps; none: all; --list: prints the names; --code=N: each call fails with CUDA's error N;
// --part=K/N: every N-th call from the K-th on, K from 0, so that N processes share a step.
#include "tests/cuda_faults/steps.h"
#include "tests/cuda_faults/wrap.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unistd.h>

namespace {

using planted::Mode;
constexpr unsigned patience = 30; // seconds for one trial

[[noreturn]] void stop(const char *why) {
    std::printf("%s: %s\n0 passed, 1 failed\n", why, milcgpu_last_error());
    std::exit(1);
}

void prepare(const Step &step, Session &s) {
    if ((step.prepared > 0 && s.open() != MILCGPU_OK) || (step.prepared > 1 && s.load() != MILCGPU_OK))
        stop("a new context does not work");
}

std::vector<Field> untouched(const Step &step) {
    std::vector<Field> out;
    for (const size_t n : step.outputs)
        out.emplace_back(n, 0.25);
    return out;
}

bool same_bits(const std::vector<Field> &a, const std::vector<Field> &b) {
    for (size_t k = 0; k < a.size(); ++k)
        if (std::memcmp(a[k].data(), b[k].data(), a[k].size() * sizeof(double)) != 0)
            return false;
    return true;
}

bool right(const Step &step, const std::vector<Field> &out, const std::vector<Field> &expected) {
    if (std::strcmp(step.name, "dslash") == 0)
        return same_bits(out, expected); // of float
    for (size_t k = 0; k < out.size(); ++k) {
        double difference = 0, size = 0;
        for (size_t i = 0; i < out[k].size(); ++i) {
            difference += (out[k][i] - expected[k][i]) * (out[k][i] - expected[k][i]);
            size += expected[k][i] * expected[k][i];
        }
        if (!(difference <= 1e-14 * size))
            return false;
    }
    return true;
}

char where[200]; // the trial in progress, for the alarm
void hang(int) {
    static const char end[] = "\n0 passed, 1 failed\n";
    const ssize_t a = write(1, "a hang: ", 8), b = write(1, where, std::strlen(where)),
                  c = write(1, end, sizeof end - 1);
    _exit(a + b + c > 0 ? 1 : 2);
}

struct Table {
    std::map<std::string, std::map<std::string, int>> rows; // call -> status -> times
    int passed = 0, failed = 0;
    void check(bool good, const char *what, milcgpu_status got) {
        ++(good ? passed : failed);
        if (!good)
            std::printf("FAILED: %s: %s; %s: %s\n", where, what, milcgpu_status_name(got), milcgpu_last_error());
    }
    void print() const {
        std::printf("%-26s %s\n", "call that failed", "status of the entry (times)");
        for (const auto &[call, statuses] : rows) {
            std::printf("%-26s", call.c_str());
            for (const auto &[status, times] : statuses)
                std::printf(" %s %d", status.c_str(), times);
            std::printf("\n");
        }
        std::printf("%d passed, %d failed\n", passed, failed);
    }
};

// False when the call is not reached any more.
bool trial(const Step &step, long n, Mode mode, const std::vector<Field> &expected, Table &table) {
    std::snprintf(where, sizeof where, "%s, call %ld fails %s", step.name, n, mode == Mode::once ? "once" : "for good");
    alarm(patience);
    Session session;
    prepare(step, session);
    std::vector<Field> out = untouched(step);
    planted::plant(n, mode);
    std::vector<planted::Output> ranges;
    for (const Field &field : out)
        ranges.push_back({field.data(), field.size() * sizeof(double)});
    planted::set_outputs(ranges);
    const milcgpu_status got = step.run(session, out);
    const std::string message = milcgpu_last_error();
    const bool copying = planted::copied_out(), come = planted::lift();
    if (!come) {
        session.close();
        return false;
    }
    std::snprintf(where + std::strlen(where), sizeof where - std::strlen(where), " (%s)", planted::failed_call());
    ++table.rows[planted::failed_call()][milcgpu_status_name(got)];
    const bool result = same_bits(out, untouched(step));
    if (got == MILCGPU_OK) {
        table.check(right(step, out, expected), "called right, and it is not", got);
    } else {
        const bool refused = got == MILCGPU_NO_MEMORY || got == MILCGPU_DEVICE_LOST ||
                             (got == MILCGPU_BAD_ARGUMENT && step.prepared < 2 && step.outputs.empty());
        table.check(refused, "a status that does not fit", got);
        table.check(message.find("milcgpu_") == 0 && message.size() > 30, "no message", got);
        table.check(result || (copying && got == MILCGPU_DEVICE_LOST), "outputs were written", got);
    }
    if (got == MILCGPU_NO_MEMORY && step.prepared > 0) {
        out = untouched(step);
        const milcgpu_status next = step.run(session, out);
        table.check(next == MILCGPU_OK && right(step, out, expected), "wrong after NO_MEMORY", next);
    }
    if (got == MILCGPU_DEVICE_LOST && step.prepared > 0) {
        out = untouched(step);
        const milcgpu_status next = step.run(session, out);
        table.check(next == MILCGPU_DEVICE_LOST && same_bits(out, untouched(step)), "a lost GPU was used", next);
    }
    session.close();
    return true;
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Step &step : steps())
            std::printf("%s\n", step.name);
        return 0;
    }
    std::vector<Step> chosen;
    long first = 0, apart = 1; // of the calls that fail
    for (int k = 1; k < argc; ++k) {
        if (std::strncmp(argv[k], "--code=", 7) == 0) {
            planted::set_code(std::atoi(argv[k] + 7));
            continue;
        }
        if (std::strncmp(argv[k], "--part=", 7) == 0) {
            if (std::sscanf(argv[k] + 7, "%ld/%ld", &first, &apart) != 2 || first < 0 || first >= apart) {
                std::printf("%s: --part=K/N has K from 0 to N-1\n0 passed, 1 failed\n", argv[k]);
                return 1;
            }
            continue;
        }
        const size_t before = chosen.size();
        for (const Step &step : steps())
            if (step.name == std::string(argv[k]))
                chosen.push_back(step);
        if (chosen.size() == before) {
            std::printf("no step '%s'\n0 passed, 1 failed\n", argv[k]);
            return 1;
        }
    }
    if (chosen.empty())
        chosen = steps();
    if (Session probe; probe.open() != MILCGPU_OK) {
        std::printf("skipped: %s\n0 passed, 0 failed\n", milcgpu_last_error());
        return 0;
    } else {
        probe.close();
    }
    std::signal(SIGALRM, hang);
    Table table;
    for (const Step &step : chosen) {
        Session session;
        prepare(step, session);
        std::vector<Field> expected = untouched(step);
        planted::count_only();
        if (step.run(session, expected) != MILCGPU_OK)
            stop(step.name);
        std::printf("%-18s %ld calls\n", step.name, planted::calls());
        session.close();
        prepare(step, session);
        std::vector<Field> again = untouched(step);
        planted::leave_an_error();
        std::snprintf(where, sizeof where, "%s", step.name);
        const milcgpu_status next = step.run(session, again);
        table.check(next == MILCGPU_OK && right(step, again, expected), "an error from elsewhere was taken for its own",
                    next);
        session.close();
        for (const Mode mode : {Mode::once, Mode::ever_after})
            for (long n = first; trial(step, n, mode, expected, table); n += apart)
                ;
    }
    table.print();
    return table.failed > 0;
}
