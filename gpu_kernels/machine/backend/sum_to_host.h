// Sums that the host waits for.
#pragma once
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/backend/reduce.h"

namespace milcgpu {

// Sum over i in [0, n) of body(i), returned to the host. min_blocks: as in launch_sum.
template <int N> struct StoreSums : Finish {
    double *to;
    MILCGPU_HD void operator()(const Sums<N> &total) const {
        for (int k = 0; k < N; ++k)
            to[k] = total.v[k];
    }
};
template <int N, int min_blocks = 1, class Body>
Sums<N> sum_to_host(Device &device, int n, const Body &body, const char *what) {
    DeviceArray<double> sums;
    queue_of(device).collective("memory for sums over links", [&] {
        sums = {device, N, "sums over links"};
        reserve_sums(device, n);
    });
    launch_sum<N, min_blocks>(device, n, body, StoreSums<N>{{}, sums.data()}, {what});
    const std::vector<double> host = sums.to_host();
    Sums<N> total;
    for (int k = 0; k < N; ++k)
        total.v[k] = host[k];
    return total;
}

} // namespace milcgpu
