#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/machine/backend/device.h"

namespace milcgpu {

void residual(Device &device, const NormalOperator &A, double shift, const SpinorBlock &b, const SpinorBlock &x,
              const SpinorBlock &between, const SpinorBlock &out, double *sum, uint64_t *checksums) {
    if (checksums != nullptr)
        device.fill_zero(checksums, NormalOperator::most_checksums * sizeof *checksums);
    HalfCall call;
    call.in = x, call.out = between;
    call.send_out = true;
    A.apply_half(device, call, Epilogue::plain);
    call.in = between, call.out = out;
    call.in_sent = true, call.send_out = false;
    call.x = x, call.z = b;
    call.a = shift, call.alpha = 1;
    call.sum = sum, call.checksums = checksums;
    A.apply_half(device, call, Epilogue::residual);
}

DeferredSums::DeferredSums(Device &device, const NormalOperator &A)
    : plain(device, traits(Epilogue::plain).sums * slots_of_sum(A.sites_between()), "sums of an iteration"),
      step(device, traits(Epilogue::step).sums * slots_of_sum(A.geometry().sites(A.parity())), "sums of an iteration") {
}

size_t DeferredSums::bytes(const Geometry &geometry) {
    const size_t slots = slots_of_sum(geometry.most_sites()) * sizeof(double);
    return Device::allocated_bytes(traits(Epilogue::plain).sums * slots) +
           Device::allocated_bytes(traits(Epilogue::step).sums * slots);
}

} // namespace milcgpu
