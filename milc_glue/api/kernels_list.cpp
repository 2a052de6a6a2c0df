// The kernels that are built, as lines of text.
#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/wilson/wilson.h"
#include "milc_glue/api/context.h"

using namespace milcgpu;

extern "C" void milcgpu_kernels_list(void (*line)(void *user, const char *text), void *user) {
    guarded(nullptr, "milcgpu_kernels_list", [&] {
        if (line == nullptr)
            refuse("line is NULL");
        line(user, format("%-8s %-8s %5s  %-9s %7s %9s %7s %7s %6s %9s %14s  %s", "spinor", "link", "reals", "epilogue",
                          "sources", "checksums", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const DslashKernel &row : dslash_table())
            line(user, format("%-8s %-8s %5d  %-9s %7d %9s %7zu %7zu %6d %9d %14d  %s", name(row.spinor),
                              name(row.link), row.reals, name(row.epilogue), row.most_sources,
                              row.checks  ? "of links"
                              : row.lanes ? "-, lanes"
                                          : "-",
                              dslash_bytes(row.spinor, row.link, row.reals, row.epilogue, 1),
                              dslash_flops(row.epilogue, 1), row.shape.block, row.shape.min_blocks, row.shape.sources,
                              "gpu_kernels/staggered/staggered_rows.h")
                           .c_str());
        line(user, format("%-8s %-8s %5s  %-16s %7s %7s %7s %6s %9s %14s  %s", "Wilson", "link", "reals",
                          "form, epilogue", "sources", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const WilsonKernel &row : wilson_table())
            for (const WilsonEnd &end : wilson_ends)
                for (const bool several : {false, true}) {
                    if (several && end.dot)
                        continue;
                    const LaunchShape &shape = several ? row.several : row.shape;
                    line(user,
                         format("%-8s %-8s %5d  %-6s %-9s %7s %7zu %7zu %6d %9d %14d  %s", name(row.spinor),
                                name(row.link), row.reals, name(end.form), end.dot ? "dot" : name(end.epilogue),
                                several ? "many" : "1", wilson_bytes(row.spinor, row.link, row.reals, end, false, 1),
                                wilson_flops(end, false, 1), shape.block, shape.min_blocks, shape.sources,
                                "gpu_kernels/wilson/wilson_stencil.h")
                             .c_str());
                }
        line(user, format("%-17s %5s  %-9s %7s %10s %7s %7s %6s %9s %14s  %s", "Laplace", "reals", "epilogue",
                          "sources", "directions", "bytes", "flops", "block", "blocks/SM", "sources/thread", "file")
                       .c_str());
        for (const LaplaceKernel &row : laplace_table())
            line(user, format("%-17s %5d  %-9s %7d %10d %7zu %7zu %6d %9d %14d  %s", name(row.spinor), row.reals,
                              name(row.epilogue), row.most_sources, row.directions,
                              laplace_bytes(row.spinor, row.reals, row.directions, row.epilogue, 1),
                              laplace_flops(row.directions, row.epilogue, 1), row.shape.block, row.shape.min_blocks,
                              row.shape.sources, "gpu_kernels/laplace/laplace_stencil.h")
                           .c_str());
        return Status::ok;
    });
}
