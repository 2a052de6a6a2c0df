// Processes that fork() creates. All threads, also OpenMP's, and the GPU stay with the parent, and a lock that one of
// the parent's threads held is never released in the child: code that uses them would wait forever.
#pragma once

namespace milcgpu {

// Call it when the library starts threads.
void watch_forks();
// Whether this process is a child of a process whose library had threads.
bool is_forked_child() noexcept;
constexpr const char *after_fork =
    "fork() made this process after its parent had made a context, and it has neither the library's threads nor its "
    "GPU: "
    "start it by exec (Python: multiprocessing.set_start_method('spawn')), or fork before the first context is made";

} // namespace milcgpu
