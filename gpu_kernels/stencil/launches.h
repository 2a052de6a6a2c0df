// Launches of a stencil on one source and on several.
//
// Of names what an operator provides for a kind of lattice (Where), a format of spinors (Spinor) and its links: its
// Call, the names of its launches, and the bodies. Each body takes lattice, links and `in` by fill(device, call):
//   OneSource<End>    on one source, with an ending (endings.h)
//   EachSource<End>   on one source of several, which share links
//   Together          D on several sources without sums, for TogetherStencil (sources.h)
#pragma once
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/stencil/kernel_table.h"
#include "gpu_kernels/stencil/sources.h"

namespace milcgpu {

// min_blocks: see launch_sum. block: threads.
template <class Of, int min_blocks, int block>
void launch_one_source(Device &device, const typename Of::Call &call, Epilogue epilogue) {
    using Spinor = typename Of::Spinor;
    const int sites_before = call.lattice.sites(1 - call.parity);
    const auto start = [&](auto end, const auto &finish, const auto &pending) {
        typename Of::template OneSource<decltype(end)> body{};
        body.fill(device, call);
        body.end = end;
        const SumLaunch how{Of::name,
                            call.cg != nullptr ? &call.cg->active : call.gate,
                            block,
                            call.defer,
                            call.links_at_rest || !prepares<decltype(body)>::value,
                            SlicesRead::of(call.lattice.extent[3], body.reach,
                                           static_cast<double>(sites_before) * spinor_bytes(call.in.precision))};
        launch_sum<decltype(end)::sums, min_blocks>(device, call.lattice.sites(call.parity), body, finish, how,
                                                    pending);
    };
    with_ending<Spinor, typename Of::Where>(device, call, epilogue, sites_before, start);
}

// min_blocks: of conjugate gradients.
template <class Of, int min_blocks, class Shape>
void launch_several_sources(Device &device, const typename Of::Call &call, Epilogue epilogue) {
    using Spinor = typename Of::Spinor;
    const int sites = call.lattice.sites(call.parity);
    if (call.cg == nullptr) {
        TogetherStencil<Spinor, typename Of::Together, Shape> body{};
        body.fill(device, call);
        return start_together(device, call, epilogue, sites, call.tiles, body, Of::name_without_sums);
    }
    with_ending_of_sources<Spinor, typename Of::Where>(call, epilogue, [&](const auto &end, const auto &finish) {
        SourcesStencil<typename Of::template EachSource<std::decay_t<decltype(end)>>> body{};
        body.first.fill(device, call);
        body.first.end = end;
        start_sources<min_blocks>(device, call, sites, body, finish, Of::name_of_several);
    });
}

// The rows of a stencil for one source, and for several.
template <class Of, int min_blocks, int block>
void add_rows_of_one(std::vector<StencilKernel<typename Of::Call>> &table, const KernelKey &key) {
    add_rows(table, key, launch_one_source<Of, min_blocks, block>, {block, min_blocks, 1});
}
template <class Of, int min_blocks, class Shape>
void add_rows_of_several(std::vector<StencilKernel<typename Of::Call>> &table, KernelKey key) {
    key.most_sources = max_shifts;
    add_rows(table, key, launch_several_sources<Of, min_blocks, Shape>,
             {tile_sites, Shape::blocks(Shape::together), Shape::together});
}

} // namespace milcgpu
