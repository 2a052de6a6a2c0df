#include "milc_glue/residency/policy.h"
#include <algorithm>

namespace milcgpu {

namespace {

// On GPUs: below, half precision iterates no faster than single (docs/step_time.png), single no faster than double. On
// the host half is slower than single; a trajectory of ks_imp_rhmc at 8^4 takes 0.83 of the time with single.
constexpr int half_from_sites = 65536, single_from_sites = 10000, single_on_host_from_sites = 4096;

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

const Policy *automatic_policy(bool gpu, int sites, bool in_double) {
    const int precise = in_double ? MILCGPU_DOUBLE : MILCGPU_SINGLE;
    const int single_from = gpu ? single_from_sites : single_on_host_from_sites;
    const int sloppy = gpu && sites >= half_from_sites     ? MILCGPU_HALF
                       : sites >= single_from && in_double ? MILCGPU_SINGLE
                                                           : precise;
    return policy_of(precise, sloppy);
}

const Policy *Ladder::leaner(const std::function<size_t(const Policy &)> &bytes) const {
    size_t fewest = bytes(*policy_);
    const Policy *found = nullptr;
    for (const Policy &policy : policies) {
        if (!untried(policy) || (in_double_ && policy.precise != MILCGPU_DOUBLE))
            continue;
        const size_t needed = bytes(policy);
        if (needed < fewest) {
            fewest = needed;
            found = &policy;
        }
    }
    return found;
}

const Policy *Ladder::safer(int status) const {
    const bool ends_single = status == MILCGPU_PRECISION_FLOOR && policy_->precise == MILCGPU_SINGLE;
    int next = policy_->safer;
    while (next >= 0 && (!untried(policies[next]) || (ends_single && policies[next].precise == MILCGPU_SINGLE)))
        next = policies[next].safer;
    return next >= 0 ? &policies[next] : nullptr;
}

bool Ladder::next(int status, const std::function<size_t(const Policy &)> &bytes) {
    if (status == MILCGPU_DEVICE_LOST || status == MILCGPU_BAD_ARGUMENT || status == MILCGPU_CORRUPTED ||
        status == MILCGPU_TIMED_OUT || status == MILCGPU_COMM)
        return false;
    tried_[policy_ - policies.data()] = true;
    const Policy *found = status == MILCGPU_NO_MEMORY ? leaner(bytes) : safer(status);
    const auto index = collective_(found != nullptr ? found - policies.data() : std::ptrdiff_t{policies.size()});
    if (index == policies.size())
        return false;
    policy_ = &policies[index];
    return true;
}

} // namespace milcgpu
