// Calls a function with the compile-time constant of a run-time precision, double or single.
#pragma once
#include "gpu_kernels/fields/spinor_storage.h"
#include <type_traits>

namespace milcgpu {

// function(integral constant of the precision). Every precision but double counts as single.
template <class Function> void for_real(Precision precision, const Function &function) {
    if (precision == Precision::double_)
        function(std::integral_constant<Precision, Precision::double_>());
    else
        function(std::integral_constant<Precision, Precision::single>());
}

// How spinors in such a precision are stored.
template <Precision p> using SpinorOf = std::conditional_t<p == Precision::double_, SpinorDouble, SpinorSingle>;

} // namespace milcgpu
