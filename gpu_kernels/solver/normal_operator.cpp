#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

void residual(Device &device, const NormalOperator &A, double shift, const ResidualFields &of, double *sum,
              uint64_t *checksums) {
    if (checksums != nullptr)
        device.fill_zero(checksums, NormalOperator::most_checksums * sizeof *checksums);
    HalfCall call;
    call.in = of.x, call.out = of.between;
    call.send_out = true;
    A.apply_half(device, call, Epilogue::plain);
    call.in = of.between, call.out = of.out;
    call.in_sent = true, call.send_out = false;
    call.x = of.x, call.z = of.b;
    call.a = shift, call.alpha = 1;
    call.sum = sum, call.checksums = checksums;
    A.apply_half(device, call, Epilogue::residual);
}

DeferredSums::DeferredSums(Device &device, const NormalOperator &A)
    : plain(device, traits(Epilogue::plain).sums * slots_of_sum(A.sites_between()), "sums of an iteration"),
      step(device, traits(Epilogue::step).sums * slots_of_sum(A.geometry().sites(A.parity())), "sums of an iteration") {
}

} // namespace milcgpu
