#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

// Each is instantiated separately (laplace_rows.cu).
template <class Where> void double_rows(std::vector<LaplaceKernel> &);
template <class Where> void single_rows(std::vector<LaplaceKernel> &);
template <class Where> void half_rows(std::vector<LaplaceKernel> &);

const std::vector<LaplaceKernel> &laplace_table() {
    static const auto table = table_of<LaplaceKernel>([](auto rows, std::vector<LaplaceKernel> &to) {
        using Where = typename decltype(rows)::Where;
        double_rows<Where>(to), single_rows<Where>(to), half_rows<Where>(to);
    });
    return table;
}

const LaplaceKernel &find_laplace(Precision precision, int reals, int directions, Epilogue epilogue, int sources) {
    return find_kernel(laplace_table(), "Laplace", {precision, precision, reals, epilogue, sources, directions});
}

namespace {
void check(const LaplaceCall &call, Epilogue epilogue) {
    if (!fields_fit(call, epilogue) || call.checksums != nullptr || call.links->precision() != call.in.precision ||
        call.links->stride() != call.in.stride || call.links->directions() < call.directions ||
        (call.lattice.is_cut() && call.halo == nullptr))
        throw Error(Status::bad_argument, "laplace: needs vectors and links of one precision and one lattice, equal "
                                          "numbers of sources, in and out that differ, scalars for a step and for sums "
                                          "of several sources, no checksums, and a halo if the lattice is cut");
    for (int mu = 0; mu < call.directions; ++mu)
        if (call.lattice.extent[mu] % 2 != 0 && !call.lattice.cut(mu))
            throw Error(Status::bad_argument,
                        format("laplace: the extent in %c is %d: it must be even, or a step would "
                               "not lead from even to odd sites",
                               "XYZT"[mu], call.lattice.extent[mu]));
}
} // namespace

void laplace(Device &device, const LaplaceCall &call, Epilogue epilogue) {
    const auto row = [&](int sources) -> const LaplaceKernel & {
        return find_laplace(call.in.precision, call.links->reals(), call.directions, epilogue, sources);
    };
    const LaplaceKernel &of_all = row(call.in.sources);
    check(call, epilogue);
    if (!call.lattice.is_cut())
        return of_all.launch(device, call, epilogue);
    call.halo->exchange(call.in, 1 - call.parity, 1, call.directions);
    for (int k = 0; k < call.in.sources; ++k) {
        LaplaceCall one = call;
        one.keep_source(k);
        row(1).launch(device, one, epilogue);
    }
}

size_t laplace_bytes(Precision precision, int reals, int directions, Epilogue epilogue, size_t sites) {
    return sites * (2 * directions * link_bytes(precision, reals) + traits(epilogue).spinors * spinor_bytes(precision));
}

size_t laplace_flops(int directions, Epilogue epilogue, size_t sites) {
    return sites * (2 * directions * 66 + (2 * directions - 1) * 6 + traits(epilogue).flops);
}

} // namespace milcgpu
