// Prints every kernel of the library: `make list-kernels`.
#include "examples/lib/arguments.h"
#include "milc_glue/api/milcgpu.h"
#include <cstdio>

int main(int argc, char **argv) {
    examples::Arguments arguments("list_kernels", "prints every kernel of the library");
    return examples::run_program([&] {
        if (arguments.parse(argc, argv))
            milcgpu_kernels_list([](void *, const char *line) { std::puts(line); }, nullptr);
        return 0;
    });
}
