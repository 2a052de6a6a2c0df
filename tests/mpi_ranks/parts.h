// Declarations that the files of the program share.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include <cstdio>
#include <string>

inline int checks = 0, wrong = 0;
inline void check(bool holds, const std::string &what) {
    ++checks;
    if (holds)
        return;
    ++wrong;
    std::printf("wrong: %s\n", what.c_str());
}

int start_as_milc(const milcgpu_messages &library, const milcgpu_messages &decisions);
void start_plugin(const milcgpu_messages &library, const milcgpu_messages &decisions);
void lose_a_rank(const milcgpu_messages &library, const milcgpu_messages &decisions);
// These ranks call MILC's terminate() through milc_glue/use_gpu/ranks.c, the others go on for a minute.
void terminate_ranks(const char *who);
// job: points to the MPI_Comm of the ranks.
void quda_door(const milcgpu_messages &library, void *job);
