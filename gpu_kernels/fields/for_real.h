// From a run-time precision, double or single, to a compile-time one.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include <type_traits>

namespace milcgpu {

// function(integral constant of the precision). What is not double is single.
template <class Function> void for_real(Precision precision, const Function &function) {
    if (precision == Precision::double_)
        function(std::integral_constant<Precision, Precision::double_>());
    else
        function(std::integral_constant<Precision, Precision::single>());
}

} // namespace milcgpu
