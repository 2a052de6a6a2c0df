// The entry of a routine of MILC's: what a call of any of them does around its work on the device.
#pragma once
#include "milc_glue/routines/state.h"

namespace milcgpu {

// What became of a call. The entry logs an error; its words are those of milcgpu_last_error().
struct Done {
    Done(milcgpu_status of, int calls_done = 1) : status(of), calls(calls_done) {}
    milcgpu_status status;
    int calls; // for the table; -1: MILC's own routine does it, for a reason that was logged or needs no words
};
inline const Done left_to_milc{MILCGPU_OK, -1}, uncounted{MILCGPU_OK, 0};

// Runs `work`, which returns a Done, counts its seconds and calls, and logs its error. Returns 1, or 0 if MILC's own
// routine is to do the call.
template <class Work> int offloaded(milcgpu_routine routine, const Work &work) noexcept {
    Plugin &p = plugin();
    const CallName around = std::exchange(p.running, {routine});
    p.running.append("%s", routine_name(routine));
    const int done = common_answer_of(
        p.running.text, p.own_routines ? "MILC's own routine does this call" : "It could not be done", 0, [&] {
            RoutineAccount &account = p.ledger[routine];
            const Stopwatch watch(account.seconds);
            const Done what = work(p, account);
            if (what.status != MILCGPU_OK)
                p.report_failure(routine, what.status);
            if (what.status != MILCGPU_OK || what.calls < 0)
                return false;
            account.calls += what.calls;
            p.end_failures(routine);
            p.keep_file();
            return true;
        });
    p.running = around;
    return done;
}

// Runs `attempt`: once more without the links that were kept if memory is short, and once more after reload() if what
// is on the device is not what was loaded. next: says what happens then.
template <class Reload, class Attempt>
milcgpu_status with_reload(milcgpu_routine routine, const char *next, const Reload &reload, const Attempt &attempt) {
    const milcgpu_status status = with_links_dropped(routine, attempt);
    if (status != MILCGPU_CORRUPTED)
        return status;
    plugin().log(0, format("%s: %s. %s", plugin().name_of(routine), plugin().reason().c_str(), next));
    ++plugin().ledger[routine].reloaded;
    reload();
    return attempt();
}

} // namespace milcgpu
