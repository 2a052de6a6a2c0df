// Retries a solve after an error: with links loaded again, or in another precision.
#pragma once
#include "milc_glue/routines/state.h"
#include <algorithm>
#include <functional>
#include <utility>

namespace milcgpu {

// mixed: milcgpu_mixed
inline const Policy *policy_for(const Plugin &p, int mixed) {
    if (p.precision_is_set() || mixed == MILCGPU_MIXED_AUTO)
        return p.policy;
    const int sloppy = mixed == MILCGPU_MIXED_HALF     ? MILCGPU_HALF
                       : mixed == MILCGPU_MIXED_SINGLE ? MILCGPU_SINGLE
                                                       : p.real();
    const Policy *asked = policy_of(p.real(), sloppy);
    return asked != nullptr ? asked : p.policy;
}

class Retry {
  public:
    Retry(Plugin &plugin, milcgpu_routine routine, int mixed)
        : p_(plugin), routine_(routine), ladder_(plugin.collective, policy_for(plugin, mixed), plugin.in_double()) {}
    const Policy &policy() const { return ladder_.policy(); }
    // True if a solve with this status is done. PRECISION_FLOOR is done if MILC's fields are in single: MILC's own
    // routine would end there, too. In double it is never done.
    bool is_answer(int status) const {
        return status == MILCGPU_OK || status == MILCGPU_NOT_CONVERGED ||
               (status == MILCGPU_PRECISION_FLOOR && !p_.in_double());
    }
    // After a status that is no answer. True: a line was logged, and the caller tries again, with policy(). If the
    // links had changed on the device, drop_links() was called. False: milcgpu_last_error() has the reason. bytes: what
    // a policy needs on the device.
    bool again(int status, const std::function<void()> &drop_links,
               const std::function<size_t(const Policy &)> &bytes) {
        const std::string why = p_.reason();
        if (status == MILCGPU_CORRUPTED) {
            drop_links();
            if (reloaded_)
                return false;
            p_.log(0, format("%s: %s. The links are loaded again", p_.name_of(routine_), why.c_str()));
            ++p_.ledger[routine_].reloaded;
            return reloaded_ = true;
        }
        if (!ladder_.next(status, bytes))
            return false;
        // If MILC asks for more than single precision has, every solve comes here: one line is enough.
        const bool again = status == MILCGPU_PRECISION_FLOOR && std::exchange(p_.floor_was_said, true);
        const std::string text =
            format("%s: %s. Trying %s precision", p_.name_of(routine_), why.c_str(), policy().name);
        again ? p_.log(2, text) : p_.log_failure(routine_, text);
        ++p_.ledger[routine_].safer;
        return true;
    }

  private:
    Plugin &p_;
    milcgpu_routine routine_;
    Ladder ladder_;
    bool reloaded_ = false; // links were loaded again in this call
};

// Starts of a call with limit_of_all, whose max_iterations limits all starts together. Sets max_restarts of `call` to
// 1, and max_iterations to what is left for the next start. Other calls stay as they are, and have one start here.
template <class Call> class Starts {
  public:
    explicit Starts(Call &call) : call_(call), limit_(call.max_iterations) {
        if (call.limit_of_all != 0)
            left_ = std::exchange(call.max_restarts, 1) - 1;
    }
    // True if another start follows this one. iterations: so far, of each of the n solutions.
    bool again(int n, const milcgpu_solve_report *reports, const int *iterations) {
        const int most = *std::max_element(iterations, iterations + n);
        const auto is_open = [](const milcgpu_solve_report &one) { return one.status == MILCGPU_NOT_CONVERGED; };
        if (left_ == 0 || most >= limit_ || std::none_of(reports, reports + n, is_open))
            return false;
        --left_;
        call_.max_iterations = limit_ - most;
        return true;
    }

  private:
    Call &call_;
    const int limit_;
    int left_ = 0; // starts
};

// Adds a solve's report to its row of the table.
template <class Report> void add(RoutineAccount &account, const Report &report) {
    account.flops += report.gflops * 1e9 * report.solver_seconds;
    account.to_device += report.bytes_to_device;
    account.to_host += report.bytes_to_host;
}

// Adds a solution: of two residuals the one that is further from what was asked for.
template <class Report>
void add_solution(RoutineAccount &account, const Report &report, double tolerance, double relative_tolerance) {
    const auto worth = [](double residual, double asked) { return asked > 0 ? residual / asked : -1; };
    const bool relative =
        !(worth(report.relative_residual, relative_tolerance) <= worth(report.true_residual, tolerance));
    account.solved(report.status == MILCGPU_OK, relative ? report.relative_residual : report.true_residual,
                   relative ? relative_tolerance : tolerance);
}

} // namespace milcgpu
