#include "milc_glue/plugin/precision.h"
#include <algorithm>

namespace milcgpu {

namespace {

constexpr int half_from_sites = 65536;   // below, half precision iterates no faster than single (performance.md)
constexpr int single_from_sites = 10000; // below, single no faster than double

template <class Test> const Policy *first_policy(const Test &test) {
    const auto found = std::find_if(policies.begin(), policies.end(), test);
    return found != policies.end() ? &*found : nullptr;
}

} // namespace

const Policy *policy_named(const std::string &name) {
    return first_policy([&](const Policy &policy) { return policy.name == name; });
}

const Policy *policy_of(int precise, int sloppy) {
    return first_policy([&](const Policy &policy) { return policy.precise == precise && policy.sloppy == sloppy; });
}

const Policy *automatic_policy(bool gpu, bool in_double, int sites) {
    const int precise = in_double ? MILCGPU_DOUBLE : MILCGPU_SINGLE;
    const int sloppy = gpu && sites >= half_from_sites                  ? MILCGPU_HALF
                       : gpu && sites >= single_from_sites && in_double ? MILCGPU_SINGLE
                                                                        : precise;
    return policy_of(precise, sloppy);
}

} // namespace milcgpu
