// Every function of the CUDA runtime that the library calls goes through here: the linker is told to (--wrap), with a
// list from the library itself, so that a function without a wrapper does not link. The n-th call can be made to fail.
#pragma once
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace planted {

enum class Kind {
    begins,    // not done where it fails
    ends,      // destroys or waits for something: done all the same, or everything would leak or hang
    allocates, // fails for want of memory
};

// once: that call alone. ever_after: the GPU is lost from there on; where it is an allocation, there is no more memory.
enum class Mode { once, ever_after };

void plant(long after, Mode mode);
// What the planted call returns from here on; 0: cudaErrorMemoryAllocation where it allocates, else
// cudaErrorLaunchFailure.
void set_code(int code);
void count_only(); // nothing fails; calls() counts
// Takes the fault back. False when it has not come.
bool lift();
const char *failed_call();
long calls();
void leave_an_error(); // of CUDA, as another part of a program may
bool was_allocation();

} // namespace planted
