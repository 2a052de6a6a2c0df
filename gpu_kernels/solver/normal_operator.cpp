#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

void apply(Device &device, const NormalOperator &A, HalfCall call, const SpinorBlock &between, Epilogue end) {
    HalfCall first;
    first.in = call.x, first.out = between;
    first.send_out = true;
    A.apply_half(device, first, Epilogue::plain);
    call.in = between, call.in_sent = true;
    A.apply_half(device, call, end);
}

void residual(Device &device, const NormalOperator &A, double shift, const ResidualFields &of, double *sum,
              uint64_t *checksums) {
    if (checksums != nullptr)
        device.fill_zero(checksums, NormalOperator::most_checksums * sizeof *checksums);
    HalfCall call;
    call.out = of.out, call.x = of.x, call.z = of.b;
    call.a = shift, call.alpha = 1;
    call.sum = sum, call.checksums = checksums;
    apply(device, A, call, of.between, Epilogue::residual);
}

DeferredSums::DeferredSums(Device &device, const NormalOperator &A)
    : plain(device, traits(Epilogue::plain).sums * slots_of_sum(A.sites_between()), "sums of an iteration"),
      step(device, traits(Epilogue::step).sums * slots_of_sum(A.geometry().sites(A.parity())), "sums of an iteration") {
}

} // namespace milcgpu
