// OpenMP threads of the host: which loops are worth a team of them, and how they wait.
#pragma once
#include <cstddef>

namespace milcgpu {

// A loop over fewer sites, or over fewer bytes, is done by the thread that comes to it: `if (n >= few_sites)` of a
// parallel loop. Two threads that sleep paid from 1024 sites on in a loop as dear as D, from 512 in one six times as
// dear, in none of 4096 cheap ones (two busy cores). Where other programs have the cores a team takes milliseconds.
constexpr int few_sites = 512;
constexpr size_t few_bytes = size_t{1} << 17;

// From here on, threads that wait at the end of a parallel loop, or for the next one, sleep. By themselves they spin,
// and take the cores from threads that have work where other programs run, too. Does nothing where the user has said
// how they wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME), or loops have one thread. Call it again where the
// number of threads has changed.
void wait_passively();

// Throws Error (NO_MEMORY) if the threads of a parallel loop cannot be started: libgomp would end the process. They are
// tried once for each larger number. Throws Error (BAD_ARGUMENT) in a child of fork() whose parent has the threads of
// this thread's loops: libgomp would wait for them for ever.
void require_threads();

} // namespace milcgpu
