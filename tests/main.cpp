// The test program's main. Runs Catch2 (version 2 or 3) with its usual command line and prints, as the last line of
// output, 'N passed, N failed', followed by ', N skipped' where tests were skipped (SKIP_TEST), counting test cases,
// after lines that say what those lack; `make check` and .ci/run read that line. Prints no such line where no test was
// to run (--list-tests, --help). Exit status: Catch's own, 0 exactly when nothing failed.

#define CATCH_CONFIG_RUNNER
#include "gpu_kernels/machine/backend/host_threads.h"
#include "tests/run_support.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

#if defined(MILCGPU_CHECK) // tests/check.h
namespace {

// Checks whose expressions are being evaluated, or have thrown; the innermost last.
thread_local std::vector<Catch::AssertionInfo> begun; // ranks of a test are threads, and check, too
std::mutex in_catch;

struct Expression : Catch::ITransientExpression {
    const char *comparison;
    const void *left, *right;
    std::string (*left_text)(const void *);
    std::string (*right_text)(const void *);

    Expression(bool holds, const char *by) : ITransientExpression(by != nullptr, holds), comparison(by) {}
    void streamReconstructedExpression(std::ostream &out) const override {
        if (comparison == nullptr)
            out << left_text(left);
        else
            Catch::formatReconstructedExpression(out, left_text(left), comparison, right_text(right));
    }
};

// What an expression of a check threw is told with the check.
CATCH_TRANSLATE_EXCEPTION(std::exception const &error) {
    std::string text = error.what();
    for (; !begun.empty(); begun.pop_back()) {
        const Catch::AssertionInfo &check = begun.back();
        text += "\nin " + std::string(check.macroName) + "( " + std::string(check.capturedExpression) + " ), " +
                check.lineInfo.file + ":" + std::to_string(check.lineInfo.line);
    }
    return text;
}

} // namespace

void tests::begin_check(const char *macro, const char *file, unsigned line, const char *expression, int flags) {
    begun.push_back({macro, {file, line}, expression, static_cast<Catch::ResultDisposition::Flags>(flags)});
}

void tests::end_check(bool holds, const char *comparison, const void *left, std::string (*left_text)(const void *),
                      const void *right, std::string (*right_text)(const void *)) {
    const Catch::AssertionInfo check = begun.back();
    begun.pop_back();
    const std::lock_guard<std::mutex> lock(in_catch); // Catch takes one check at a time
    Catch::AssertionHandler handler(check.macroName, check.lineInfo, check.capturedExpression, check.resultDisposition);
    Expression expression(holds, comparison);
    expression.left = left, expression.left_text = left_text;
    expression.right = right, expression.right_text = right_text;
    handler.handleExpr(expression);
    handler.complete();
}
#endif

namespace {

// Catch makes and destroys the listener itself, so what it saw lives here.
struct RunCounts {
    bool run_ended = false;
    bool crashed = false;
    unsigned long long passed = 0;
    unsigned long long failed = 0;
    unsigned long long skipped = 0;
    unsigned long long caught = 0;      // tests that caught what a check threw, and so left it: failed
    std::map<std::string, int> lacking; // what the skipped ones lack
};
RunCounts counts;

std::string what_lacks(const std::string &why) {
    if (why.find("MILCGPU_SAMPLES") != std::string::npos)
        return "for want of MILC's sample files (MILCGPU_SAMPLES=.../binary_samples, a folder of MILC's source tree)";
    if (why.find("GPU") != std::string::npos || why.find("nvcc") != std::string::npos)
        return "for want of GPUs";
    return why.substr(0, why.find('\n'));
}

void print_counts() {
    for (const auto &[what, tests] : counts.lacking)
        std::printf("skipped %d: %s\n", tests, what.c_str());
    std::printf("%llu passed, %llu failed", counts.passed, counts.failed);
    if (counts.skipped > 0)
        std::printf(", %llu skipped", counts.skipped);
    std::printf("\n");
    std::fflush(stdout);
}

// Catch calls listeners before its own reporter, whose summary must not come last, so main() prints the counts. After a
// signal (a segmentation fault in a test) main() is never reached again: then the line is printed from here.
class CountListener : public ListenerBase {
  public:
    using ListenerBase::ListenerBase;

    // void in version 3, bool ('clear the message buffer') in version 2.
    using AssertionEndedResult =
        decltype(std::declval<ListenerBase &>().assertionEnded(std::declval<Catch::AssertionStats const &>()));

    AssertionEndedResult assertionEnded(Catch::AssertionStats const &stats) override {
        if (stats.assertionResult.getResultType() == Catch::ResultWas::FatalErrorCondition)
            counts.crashed = true;
        if (!stats.assertionResult.isOk())
            for (std::string &run : tests::last_runs)
                if (const std::string text = std::exchange(run, ""); !text.empty())
                    std::printf("before the check at %s:%d: %s\n", stats.assertionResult.getSourceInfo().file,
                                static_cast<int>(stats.assertionResult.getSourceInfo().line), text.c_str());
        return AssertionEndedResult();
    }

    void testCaseEnded(Catch::TestCaseStats const &stats) override {
        if (!test_skipped.empty() && stats.totals.testCases.failed == 0) {
            ++counts.skipped;
            ++counts.lacking[what_lacks(test_skipped)];
        }
        test_skipped.clear();
        for (std::string &run : tests::last_runs)
            run.clear();
#if defined(MILCGPU_CHECK)
        if (!begun.empty() && stats.totals.testCases.failed == 0) {
            std::printf("%s: what CHECK( %s ) of line %d threw was caught\n", stats.testInfo.name.c_str(),
                        std::string(begun[0].capturedExpression).c_str(), static_cast<int>(begun[0].lineInfo.line));
            ++counts.caught;
        }
        begun.clear();
#endif
    }

    void testRunEnded(Catch::TestRunStats const &stats) override {
        // failedButOk is [!mayfail] and [!shouldfail]: as expected, so passed.
        counts.passed =
            stats.totals.testCases.passed + stats.totals.testCases.failedButOk - counts.skipped - counts.caught;
        counts.failed = stats.totals.testCases.failed + counts.caught;
        counts.run_ended = true;
        if (counts.crashed)
            print_counts();
    }
};
CATCH_REGISTER_LISTENER(CountListener)

} // namespace

int main(int argc, char **argv) {
    milcgpu::wait_passively();
#if defined(MILCGPU_CHECK)
    begun.reserve(64); // where a test has memory run out, checks need none
#endif
    int status = Catch::Session().run(argc, argv);
    if (counts.caught > 0)
        status = 1;
    if (counts.run_ended)
        print_counts();
    // The tests that are asked for may all be in the other program: no failure of this one, as in version 2.
    const bool none = counts.run_ended && counts.passed + counts.failed + counts.skipped == 0;
    return none ? 0 : status;
}
