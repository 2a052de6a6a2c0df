// Prints every kernel that the library holds: `make list-kernels`.
#include "milc_glue/milcgpu.h"
#include <cstdio>

int main() {
    milcgpu_list_kernels([](void *, const char *line) { std::puts(line); }, nullptr);
    return 0;
}
