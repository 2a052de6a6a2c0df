// A call of the library's solver, and what errors ask for.
#pragma once
#include "milc_glue/plugin/state.h"
#include <functional>
#include <string>

namespace milcgpu {

milcgpu_solve_spec solve_spec(const Plugin &plugin, const Policy &policy, const milcgpu_plugin_solve_call &call);

enum class Outcome {
    done,
    failed,     // which was said
    from_start, // links, or what was made of them, are not what they were: all that was made of them is to be made anew
    out_of_memory // of sources on the device; it was said
};

// One solve for n sources by `once`, which is the library's, again with other links, precisions or less memory in use
// where that is called for. reports: n. Fields of the host are the sources as they are for any links, and a solve goes
// on after links were loaded again; on_device: sources were made of `made_of`, a set's content, and it does not. links:
// those to begin with; nullptr: they are looked for.
struct SolveOfSources {
    const milcgpu_plugin_solve_call &call;
    int n;
    milcgpu_solve_report *reports;
    const std::function<milcgpu_status(milcgpu_links *, const milcgpu_solve_spec &, milcgpu_solve_report *)> &once;
    bool on_device;
    uint64_t made_of;
    LinkSet *links;
};
Outcome solve_until_done(Plugin &, RoutineAccount &, const SolveOfSources &);

// Log lines of a call that takes long: at most one every ten seconds.
class ProgressLines {
  public:
    ProgressLines(const Plugin &plugin, milcgpu_routine routine) : plugin_(plugin), routine_(routine) {}
    double seconds() const { return wall_seconds() - since_; }
    // line(): its text, behind the name of the routine.
    template <class Line> void log(const Line &line) {
        const double now = wall_seconds();
        if (now - logged_at_ < 10)
            return;
        logged_at_ = now;
        plugin_.log(1, std::string(routine_name(routine_)) + ": " + line());
    }

  private:
    const Plugin &plugin_;
    milcgpu_routine routine_;
    double since_ = wall_seconds(), logged_at_ = since_;
};

// `work`, again with fewer sets of links on the device for as long as memory is short, and then without the
// eigenvectors of other links than those that were asked for last.
milcgpu_status with_room(Plugin &, milcgpu_routine, const LinkSet *links, const std::function<milcgpu_status()> &work);

// The eigenvectors that this solve is to be deflated with; nullptr: none. They are made where the call wants them; the
// seconds are not the solve's.
EigenStore::Set *eigenvectors_of(Plugin &, RoutineAccount &, LinkSet &, const milcgpu_plugin_solve_call &);

} // namespace milcgpu
