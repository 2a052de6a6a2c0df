// C++ over the C interface: statuses become exceptions, and handles close themselves, in the first thirty lines. Then a
// solve, and a refusal that leaves nothing behind.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <milcgpu/milcgpu_md.h>
#include <stdexcept>
#include <string>
#include <vector>

// Throws the library's message if a call failed.
inline void check(milcgpu_status status) {
    if (status != MILCGPU_OK)
        throw std::runtime_error(std::string(milcgpu_status_name(status)) + ": " + milcgpu_last_error());
}

template <auto destroy> struct Destroy {
    template <class Handle> void operator()(Handle *handle) const { destroy(handle); }
};
using Context = std::unique_ptr<milcgpu_context, Destroy<milcgpu_context_destroy>>;
using Links = std::unique_ptr<milcgpu_links, Destroy<milcgpu_links_destroy>>;

// Calls function(arguments.., &handle) and owns the handle. Declare a context before its handles: C++ destroys objects
// in the opposite order.
template <class Owner, class Function, class... Arguments> Owner make(Function function, Arguments... arguments) {
    typename Owner::pointer handle = nullptr;
    check(function(arguments..., &handle));
    return Owner(handle);
}

inline milcgpu_field field(std::vector<double> &numbers) { return {numbers.data(), MILCGPU_DOUBLE, 0}; }

int main() try {
    const int extent[4] = {4, 4, 4, 8};
    const size_t sites = 4 * 4 * 4 * 8;
    milcgpu_layout layout = {};
    layout.struct_size = sizeof layout;
    std::copy(extent, extent + 4, layout.extent);
    const Context context = make<Context>(milcgpu_context_create, &layout, nullptr);

    std::vector<double> fat(72 * sites), lng(72 * sites), source(6 * sites, 1), solution(6 * sites);
    for (size_t k = 0; k < 4 * sites; ++k)
        for (size_t row = 0; row < 3; ++row)
            fat[18 * k + 8 * row] = 1, lng[18 * k + 8 * row] = -1. / 24; // no phases: D is antihermitian all the same
    const milcgpu_field f = field(fat), l = field(lng), b = field(source), x = field(solution);
    const Links links = make<Links>(milcgpu_links_create, context.get(), &f, &l);

    milcgpu_solve_spec spec;
    milcgpu_solve_defaults(&spec, sizeof spec);
    spec.mass = 0.1;
    spec.tolerance = 1e-12;
    milcgpu_solve_report report = {};
    report.struct_size = sizeof report;
    check(milcgpu_staggered_solve(links.get(), &spec, &b, &x, &report));
    // D of a constant field is 0 without phases, so x = b / 4 m^2 on even sites.
    const double error = solution[0] * 4 * spec.mass * spec.mass - 1;
    std::printf("%d iterations, true residual %.1e, error %.1e\n", report.iterations, report.true_residual, error);

    spec.parity = 7;
    try {
        check(milcgpu_staggered_solve(links.get(), &spec, &b, &x, &report));
    } catch (const std::runtime_error &refused) {
        std::printf("refused: %s\n", refused.what());
        return error < 1e-11 && error > -1e-11 ? 0 : 1;
    }
    return 1;
} catch (const std::runtime_error &failed) {
    std::printf("%s\n", failed.what());
    return 1;
}
