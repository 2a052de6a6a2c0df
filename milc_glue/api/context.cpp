// The context, and what it frees when memory is short.
#include "milc_glue/api/context.h"
#include "gpu_kernels/halo/halo.h"
#include <algorithm>
#include <cstring>

using namespace milcgpu;

void Evictable::register_here() { of_.evictable[turn_].insert(this); }
Evictable::~Evictable() { of_.evictable[turn_].erase(this); }

milcgpu_context::milcgpu_context() = default;
milcgpu_context::~milcgpu_context() = default;

static bool is_true_on_any_rank(const milcgpu_context &context, const char *phase, int here) {
    const std::vector<int> all = context.ranks->gathered(phase, here);
    return std::any_of(all.begin(), all.end(), [](int there) { return there != 0; });
}

bool milcgpu_context::is_half_full_on_any_rank() const {
    return is_true_on_any_rank(*this, "memory that is in use", static_cast<int>(device->is_half_full()));
}

bool milcgpu_context::release_idle() {
    const auto on_any_rank = [this](int here) { return is_true_on_any_rank(*this, "memory that is freed", here); };
    for (const std::function<bool()> &release : release_more)
        if (on_any_rank(release()))
            return true;
    for (const auto &in_turn : evictable) {
        int any = 0;
        for (Evictable *keeper : in_turn)
            any = keeper->release_idle() || any;
        if (on_any_rank(any))
            return true;
    }
    return false;
}

void milcgpu::require_same_on_all_ranks(milcgpu_context &context, const std::vector<RankNumber> &values) {
    const Ranks &ranks = *context.ranks;
    if (ranks.size() == 1 || values.empty()) // as many on all ranks
        return;
    std::vector<double> mine, all(values.size() * ranks.size());
    for (const RankNumber &value : values)
        mine.push_back(value.value);
    context.ranks->all_gather("the comparison of arguments", mine.data(), all.data(), mine.size() * sizeof(double));
    for (size_t k = 0; k < all.size(); ++k) {
        const RankNumber &value = values[k % values.size()];
        const double first = all[k % values.size()];
        if (std::memcmp(&all[k], &first, sizeof first) != 0)
            refuse(format("%s is %.17g on %s and %.17g on rank 0: all ranks must pass the same",
                          value.name.text().c_str(), all[k], ranks.name(static_cast<int>(k / values.size())).c_str(),
                          first));
    }
}
