#include "tests/cuda_faults/steps.h"
#include "examples/lib/boxes.h"
#include <algorithm>

using namespace tests;

namespace {

// 3072 sites a parity: fields of double are copied by way of pinned buffers, those of float directly.
const reference::Lattice lattice{{8, 8, 8, 12}};

BoundCall pin(World &w) {
    BoundCall call;
    call.run = [&w] {
        void *const data = w.quark[0].data;
        const milcgpu_status status = milcgpu_memory_pin(w.context, data, 96 * w.sites * sizeof(double));
        if (status != MILCGPU_OK)
            return status;
        const milcgpu_status unpinned = milcgpu_memory_unpin(w.context, data);
        if (unpinned == MILCGPU_NO_MEMORY) // it is still pinned, and the next call must find it as this one did
            milcgpu_memory_unpin(w.context, data);
        return unpinned;
    };
    return call;
}

// D of fields of float, with a pitch: they are copied directly.
BoundCall dslash_of_float(World &w) {
    static std::vector<char> from, to;
    constexpr size_t pitch = 40;
    static milcgpu_field source, result;
    static const milcgpu_storage what{MILCGPU_SINGLE, 13};
    from.assign(pitch * w.sites, 0), to.assign(pitch * w.sites, 0);
    for (size_t k = 0; k < 6 * w.sites; ++k) {
        const float number = float(static_cast<const double *>(w.b[0].data)[k]);
        std::copy_n(reinterpret_cast<const char *>(&number), sizeof number, &from[pitch * (k / 6) + 4 * (k % 6)]);
    }
    source = {from.data(), MILCGPU_SINGLE, pitch}, result = {to.data(), MILCGPU_SINGLE, pitch};
    BoundCall call = bound(w, milcgpu_staggered_dslash, {}, w.links(), &what, MILCGPU_EVEN, &source, &result);
    call.run = [&w, run = call.run] { // w.x[1] shows what this run has written
        to.assign(to.size(), 0);
        const milcgpu_status status = run();
        for (size_t k = 0; k < 6 * w.sites; ++k) {
            float number;
            std::copy_n(&to[pitch * (k / 6) + 4 * (k % 6)], sizeof number, reinterpret_cast<char *>(&number));
            static_cast<double *>(w.x[1].data)[k] = status == MILCGPU_OK || number != 0 ? number : 0.25;
        }
        return status;
    };
    return call;
}

std::string in_one_word(std::string name) {
    name.erase(0, std::string("milcgpu_").size());
    name.erase(std::remove(name.begin(), name.end(), ','), name.end());
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
}

} // namespace

const std::vector<Step> &steps() {
    static const std::vector<Step> all = [] {
        std::vector<Step> made = {
            {"pin", {"milcgpu_memory_pin", "", Call::alone, pin}, false},
            {"dslash_of_float", {"milcgpu_staggered_dslash", "float", 0, dslash_of_float}, false}};
        for (const Call &call : calls()) {
            const std::string function = call.function;
            if (function.find("_destroy") == std::string::npos && function.find("milcgpu_memory_") != 0)
                made.push_back({in_one_word(call.name()), call, function == "milcgpu_context_create"});
        }
        return made;
    }();
    return all;
}

World &world() {
    static const WholeFields fields(lattice);
    static World made(nullptr, fields, examples::places_of(examples::layout_on_grid(lattice.n, {1, 1, 1, 1}, 0)));
    made.options.backend = MILCGPU_CUDA;
    return made;
}

milcgpu_status open(milcgpu_context **context) {
    return milcgpu_context_create(&world().layout, &world().options, context);
}
