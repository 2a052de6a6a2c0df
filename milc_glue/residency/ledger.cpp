#include "milc_glue/residency/ledger.h"
#include "gpu_kernels/machine/error.h"
#include <algorithm>

namespace milcgpu {

const char *routine_name(milcgpu_routine routine) {
#define MILCGPU_ROW(row, doors, name) name,
    static const char *const names[] = {
#include "milc_glue/api/routines.def"
    };
    return names[routine];
}

RowOfTable row_of(const std::vector<Ledger> &ranks, milcgpu_routine routine) {
    RowOfTable all{ranks[0][routine], 0};
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
        const RoutineAccount &a = ranks[rank][routine];
        all.sum.flops += a.flops;
        all.sum.to_device += a.to_device;
        all.sum.to_host += a.to_host;
        all.sum.cpu_seconds = std::max(all.sum.cpu_seconds, a.cpu_seconds);
        if (a.seconds > all.sum.seconds)
            all.slowest = rank;
        all.sum.seconds = std::max(all.sum.seconds, a.seconds);
    }
    return all;
}

bool RoutineAccount::is_worse_than(const RoutineAccount &other) const {
    const auto ratio = [](const RoutineAccount &a) { return a.asked > 0 ? a.residual / a.asked : -1; };
    const double of_other = ratio(other);
    return of_other == of_other && !(ratio(*this) <= of_other); // NaN is the worst
}

void RoutineAccount::solved(bool good, double residual_of_it, double asked_for) {
    ++solutions;
    missed += good ? 0 : 1;
    RoutineAccount one;
    one.residual = residual_of_it, one.asked = asked_for;
    if (one.is_worse_than(*this))
        residual = residual_of_it, asked = asked_for;
}

std::string table_of(const std::vector<Ledger> &ranks, double run_seconds) {
    const bool several = ranks.size() > 1;
    std::string text =
        several ? format("of %zu ranks: sums, and the seconds of the slowest\n", ranks.size()) : std::string();
    text +=
        format("%-24s %7s %7s %10s %6s %9s %9s %9s %6s %9s %11s%s\n", "routine", "calls", "known", "seconds", "share",
               "GFLOPS", "MB to", "MB from", "safer", "CPU calls", "CPU seconds", several ? " slowest rank" : "");
    double sum = 0;
    long known = 0, safer = 0;
    for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
        const RowOfTable all = row_of(ranks, static_cast<milcgpu_routine>(r));
        const RoutineAccount &a = all.sum;
        if (a.calls + a.cpu_calls == 0)
            continue;
        sum += a.seconds, known += a.known, safer += a.safer;
        text += format("%-24s %7ld %7ld %10.3f %5.1f%% %9.1f %9.1f %9.1f %6ld %9ld %11.3f",
                       routine_name(static_cast<milcgpu_routine>(r)), a.calls, a.known, a.seconds,
                       100 * a.seconds / run_seconds, a.seconds > 0 ? a.flops / a.seconds * 1e-9 : 0.0,
                       static_cast<double>(a.to_device) * 1e-6, static_cast<double>(a.to_host) * 1e-6, a.safer,
                       a.cpu_calls, a.cpu_seconds);
        text += several ? format(" %12zu\n", all.slowest) : "\n";
    }
    if (known > 0)
        text += "known: calls whose result milcgpu had from an earlier call\n";
    if (safer > 0)
        text += "safer: tries in a safer precision after an error\n";
    return text + format("all of these %.3f s of a run of %.3f s; the rest is MILC on the CPU\n", sum, run_seconds);
}

std::string Ledger::comparison() const {
    std::string text;
    for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
        const RoutineAccount &a = accounts_[r];
        if (a.compared == 0)
            continue;
        text += format("%-24s %7ld compared, %ld beyond tolerance, worst %.2g of what is allowed; seconds MILC %.3f "
                       "milcgpu %.3f, speed-up %.1f\n",
                       routine_name(static_cast<milcgpu_routine>(r)), a.compared, a.beyond, a.worst,
                       a.compared_cpu_seconds, a.compared_gpu_seconds,
                       a.compared_gpu_seconds > 0 ? a.compared_cpu_seconds / a.compared_gpu_seconds : 0.0);
    }
    return text;
}

} // namespace milcgpu
