// Every call of the CUDA runtime failing in turn, in each call of the C interface (steps.cpp): no hang, no wrong result
// called right, a message that names the function, outputs untouched unless they were being copied out, the next call
// right after NO_MEMORY, a new context right after DEVICE_LOST. Of the calls of the CUDA runtime after the first 150,
// which are steps of iterations, every eighth fails. Needs a GPU; prints 'N passed, N failed'.
// Arguments: names of steps; none: all; --list: prints the names; --code=N: each call fails with CUDA's error N;
// --part=K/N: every N-th call from the K-th on, K from 0, so that N processes share a step; in each step K is shifted by
// a number made of its name, so that one part has all kinds of calls.
#include "tests/cuda_faults/steps.h"
#include "tests/cuda_faults/wrap.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

// A context for a step, with the World on it. Handles end before their context.
struct Session {
    milcgpu_context *context = nullptr;
    explicit Session(const Step &step) {
        if (!step.starts && open(&context) != MILCGPU_OK)
            stop("a new context does not work");
        world().start_again(context);
    }
    Session(const Session &) = delete;
    ~Session() {
        world().start_again();
        milcgpu_context_destroy(context);
    }
};

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
    void check(bool good, const std::string &what, milcgpu_status got) {
        ++(good ? passed : failed);
        if (!good)
            std::printf("FAILED: %s: %s; %s: %s\n", where, what.c_str(), milcgpu_status_name(got),
                        milcgpu_last_error());
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
bool trial(const Step &step, long n, Mode mode, const tests::State &clean, Table &table) {
    std::snprintf(where, sizeof where, "%s, call %ld fails %s", step.name.c_str(), n,
                  mode == Mode::once ? "once" : "for good");
    alarm(patience);
    const Session session(step);
    const tests::FaultedCall ran = tests::run_with_fault(
        world(), step.call, clean, [&] { planted::plant(n, mode); }, planted::lift);
    if (!ran.happened)
        return false;
    std::snprintf(where + std::strlen(where), sizeof where - std::strlen(where), " (%s)", planted::failed_call());
    ++table.rows[planted::failed_call()][milcgpu_status_name(ran.status)];
    if (ran.status == MILCGPU_OK) {
        table.check(ran.wrong.empty(), "called right, and it is not: " + ran.wrong, ran.status);
        return true;
    }
    const bool lost = ran.status == MILCGPU_DEVICE_LOST, no_memory = ran.status == MILCGPU_NO_MEMORY;
    table.check(no_memory || lost || (ran.status == MILCGPU_BAD_ARGUMENT && step.starts), "a status that does not fit",
                ran.status);
    table.check(ran.message.find("milcgpu_") == 0 && ran.message.size() > 30, "no message", ran.status);
    table.check(!ran.written || lost, "outputs were written", ran.status);
    if (!step.starts) {
        table.check(ran.wrong.empty(), "wrong, then or in the next call: " + ran.wrong, ran.next);
        table.check(ran.next == (lost ? MILCGPU_DEVICE_LOST : MILCGPU_OK) && !ran.emptied, "the next call", ran.next);
    }
    return true;
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Step &step : steps())
            std::printf("%s\n", step.name.c_str());
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
            if (step.name == argv[k])
                chosen.push_back(step);
        if (chosen.size() == before) {
            std::printf("no step '%s'\n0 passed, 1 failed\n", argv[k]);
            return 1;
        }
    }
    if (chosen.empty())
        chosen = steps();
    milcgpu_context *probe = nullptr;
    if (open(&probe) != MILCGPU_OK) {
        std::printf("skipped: %s\n0 passed, 0 failed\n", milcgpu_last_error());
        return 0;
    }
    milcgpu_context_destroy(probe);
    std::signal(SIGALRM, hang);
    Table table;
    for (const Step &step : chosen) {
        const auto well = [&](const tests::State &clean, const std::function<void()> &plant) {
            long calls = 0;
            const tests::FaultedCall ran = tests::run_with_fault(world(), step.call, clean, plant, [&] {
                calls = planted::calls();
                return false;
            });
            if (ran.status != MILCGPU_OK)
                stop(step.name.c_str());
            std::snprintf(where, sizeof where, "%s", step.name.c_str());
            table.check(ran.wrong.empty(), "an error from elsewhere was taken for its own", ran.status);
            return calls;
        };
        tests::State clean;
        {
            const Session session(step);
            const long calls = well({}, planted::count_only);
            std::printf("%-40s %ld calls\n", step.name.c_str(), calls);
            if (calls == 0)
                continue;
            clean = world().state();
        }
        {
            const Session session(step);
            well(clean, planted::leave_an_error);
        }
        const long start = (first + std::hash<std::string>{}(step.name) % apart) % apart;
        for (const Mode mode : {Mode::once, Mode::ever_after})
            for (long n = start; trial(step, n, mode, clean, table); n += n < 150 ? apart : 8 * apart)
                ;
    }
    table.print();
    return table.failed > 0;
}
