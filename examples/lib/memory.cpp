#include "examples/lib/memory.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <sys/resource.h>
#include <unistd.h>

namespace examples {

void need_memory(const std::string &what, double bytes) {
    double has = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
    for (const char *name : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
        double limit;
        if (std::ifstream(name) >> limit) // "max" is not a number
            has = std::min(has, limit);
    }
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        has = std::min(has, double(limit.rlim_cur));
    if (bytes <= has)
        return;
    char text[200];
    std::snprintf(text, sizeof text, " needs at least %.3g GB of memory, and there are %.3g GB", bytes * 1e-9,
                  has * 1e-9);
    throw std::runtime_error(what + text + ": take a smaller lattice, or a machine with more memory");
}

} // namespace examples
