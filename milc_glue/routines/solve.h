// Calls of the library's solver, and what is done after an error.
#pragma once
#include "milc_glue/routines/state.h"
#include <functional>
#include <string>
#include <vector>

namespace milcgpu {

milcgpu_solve_spec solve_spec(const Plugin &plugin, const Policy &policy, const milcgpu_plugin_solve_call &call);

enum class Outcome {
    done,
    failed,       // after a line in the log
    from_start,   // links, or what was made of them, have changed: the caller makes everything of them again
    out_of_memory // for sources on the device, after a line in the log
};

// Sources and solutions on the device. The sources were made of links with the content `made_of`, so a solve cannot
// continue with other links.
struct SourcesOnDevice {
    std::vector<milcgpu_vector> sources, solutions;
    int together; // milcgpu_together
    uint64_t made_of;
};

// Solves for n sources until it succeeds, reloading links, raising precision or freeing memory as the status demands.
// calls: n of them, which differ in source and solution; one, without these, if on_device is given. links: the first to
// try; nullptr: they are looked up.
Outcome solve_until_done(Plugin &, RoutineAccount &, int n, const milcgpu_plugin_solve_call *calls,
                         milcgpu_solve_report *reports, const SourcesOnDevice *on_device, LinkSet *links = nullptr);

// Lines of a solve that takes long. Their time left assumes that the residual goes on to fall as it has so far. Sources
// that are solved one by one, and refinements, begin again with the first step; the time left is the present one's.
class SolveLines {
  public:
    // of: what the residual belongs to, behind the target; empty: all of the solve.
    SolveLines(Plugin &plugin, milcgpu_routine routine, double tolerance, double relative, const char *of = "")
        : lines_(plugin, plugin.name_of(routine)), target_(tolerance > 0 ? tolerance : relative),
          relative_(!(tolerance > 0)), of_(of) {}
    double seconds() const { return lines_.seconds(); }
    void log(int step, double residual);

  private:
    ProgressLines lines_;
    double target_;
    int step_ = 0;                 // of the last call
    double first_ = 0, begun_ = 0; // the residual at the first of these steps, and its time
    bool relative_;                // the target is of another residual
    const char *of_;
};

// Runs work(). As long as memory is short, it drops sets of links and runs work() again, and then eigenvectors of links
// other than those requested last.
milcgpu_status with_room(Plugin &, milcgpu_routine, const LinkSet *links, const std::function<milcgpu_status()> &work);

// The eigenvectors that deflate this solve; nullptr: none. It computes them if the call wants them; the seconds of that
// do not count for the solve.
EigenStore::Set *eigenvectors_of(Plugin &, RoutineAccount &, LinkSet &, const milcgpu_plugin_solve_call &);

} // namespace milcgpu
