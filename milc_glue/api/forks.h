// Processes that fork() makes. Threads, those of OpenMP too, and the GPU stay with the parent, and a lock that one of
// its threads held is never released in the child: what works with them would wait for ever.
#pragma once

namespace milcgpu {

// From here on the library has threads.
void watch_forks();
// Whether this process is a child of one that had.
bool is_forked_child() noexcept;
constexpr const char *after_fork =
    "fork() made this process after its parent had made a context, and it has neither the library's threads nor its "
    "GPU: "
    "start it by exec (Python: multiprocessing.set_start_method('spawn')), or fork before the first context is made";

} // namespace milcgpu
