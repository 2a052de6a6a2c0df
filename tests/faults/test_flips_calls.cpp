// Bits that flip in device memory before a call of the table (calls_support.h), or at any launch or copy of it.
// MILCGPU_FLIPS=N plants N of them.
#include "milc_glue/api/context.h"
#include "tests/calls_whole.h"
#include <cstdlib>
#include <map>
#include <set>

using namespace tests;
using milcgpu::Backend;

namespace {

// What the headers say is not checked: room within a call (staples, pieces of loops), vectors of forces, quark fields
// that are smeared in place, numbers of sites, factors of momenta, results of measurements, derivatives in the stages
// of an adaptive flow, which are momenta by their kind; a solution after its last true residual, in the last tenth of a
// call; a source, and a field that is contracted, until its checksum is taken; vectors that an operator is applied to
// once, after the comparison at the beginning; for D alone also the links. part_of_call: below 0: before the call.
bool is_checked(const std::string &owner, const Call &call, double part_of_call) {
    const auto is = [&](std::initializer_list<const char *> owners) {
        return std::find(owners.begin(), owners.end(), owner) != owners.end();
    };
    const std::string name = call.name();
    const bool within = part_of_call >= 0, solves = call.traits & Call::solves;
    if (is({"staples", "derivatives of staples", "gauge force", "vectors of the force", "results of a measurement",
            "room for smearing", "raw copy of a host spinor", "partial sums", "sum of vectors", "sums over time slices",
            "contraction", "numbers of sites", "factors of momenta"}))
        return false;
    if (has(owner, "links as handed over") &&
        (has(name, "_dslash") || has(name, "eigenvectors_load") || has(name, "eigenvectors_read")))
        return false;
    if (within && !solves &&
        (is({"vectors", "dslash vectors", "Laplace vectors", "Wilson vectors"}) ||
         (has(name, "_residual") && is({"vectors of a residual", "Wilson source", "Wilson solution"}))))
        return false;
    if (owner == "quark fields" && (has(name, "smear") || has(name, "laplacian")))
        return false;
    if (within && part_of_call < 0.55 && is({"Laplace sources", "Wilson source", "quark fields", "Dirac fields"}))
        return false;
    if (part_of_call > 0.9 && (has(owner, " vectors") || is({"vectors", "vectors of several sources"})))
        return false;
    return owner != "momenta" || !has(name, "adaptive");
}

struct FlippedRun {
    milcgpu_status status = MILCGPU_OK;
    double residual = 0; // of a solve in half precision, by the reference
    State state;
    int looks = 0;                // launches and copies
    std::string owner, at;        // where the bit was, and before what it flipped
    std::set<std::string> owners; // of arrays before the call
};

constexpr int before_call = -1, never = -2;

// |b - A x| / |b| on even sites by the reference, of x[0] and b[0].
double residual_of(const WholeFields &whole, double mass, const Reals &x) {
    const auto vector = [&](const Reals &from) { return reference::vector_from_milc<double>(whole.lattice, from); };
    const auto links = [&](const Reals &from) { return reference::links_from_milc<double>(whole.lattice, from); };
    const reference::Fermion b = vector(whole.colour[0]),
                             ax = reference::normal_operator(whole.lattice, links(whole.fat), links(whole.lng), mass, 0,
                                                             vector(x));
    return parity_difference(whole.lattice, ax, b, 0);
}

// Owners of the arrays that are on the device, each with an upper bit of a number in the middle of an array. least:
// with this many bytes in all.
std::map<std::string, size_t> bits_of_owners(milcgpu::Device &device, size_t least = 0) {
    std::map<std::string, std::vector<size_t>> bits;
    std::map<std::string, size_t> bytes, one;
    size_t begin = 0;
    for (const auto &array : device.arrays()) {
        bytes[array.owner] += array.bytes;
        if (array.bytes >= 8)
            bits[array.owner].push_back(8 * (begin + array.bytes / 16 * 8 + 6) + 2);
        begin += array.bytes;
    }
    for (const auto &[owner, all] : bits)
        if (bytes[owner] >= least)
            one[owner] = all[all.size() / 2];
    return one;
}

// owner: whose array has the bit; "": `bit` counts all.
FlippedRun run_with_flip(const Call &call, Backend backend, const std::array<int, 4> &n, int flip_at,
                         const std::string &owner, size_t bit) {
    Whole whole(backend, n);
    World &w = whole.world;
    const BoundCall with = call.with(w);
    FlippedRun r;
    milcgpu::Device &device = *w.context->device;
    for (const auto &one : bits_of_owners(device))
        r.owners.insert(one.first);
    const auto flip = [&](const char *what) {
        r.at = what, r.owner = device.flip_bit(owner.empty() ? bit : bits_of_owners(device)[owner]);
    };
    if (flip_at == before_call)
        flip("the call");
    device.set_observer([&](const char *what) {
        if (r.looks++ == flip_at)
            flip(what);
    });
    r.status = with.run();
    device.set_observer({});
    r.state = w.state();
    if (call.traits & Call::loose && r.status == MILCGPU_OK)
        r.residual = residual_of(fields_of(n), w.solve_half.mass, r.state[0].numbers);
    return r;
}

// Owners of the fields that are on the device at a look of the call.
std::set<std::string> owners_at(const Call &call, Backend backend, const std::array<int, 4> &n, int look) {
    Whole whole(backend, n);
    World &w = whole.world;
    const BoundCall with = call.with(w);
    milcgpu::Device &device = *w.context->device;
    std::set<std::string> owners;
    int looks = 0;
    device.set_observer([&](const char *) {
        if (looks++ == look)
            for (const auto &one : bits_of_owners(device, 16 * w.sites))
                owners.insert(one.first);
    });
    with.run();
    device.set_observer({});
    return owners;
}

} // namespace

TEST_CASE("calls: a bit that flips before a call, or at any launch or copy of it, gives no wrong result called right",
          "[faults][flips][calls]") {
    const char *asked = std::getenv("MILCGPU_FLIPS");
    std::vector<Call> all;
    for (const Call &call : calls())
        if (!(call.traits & Call::alone) && !has(call.function, "_file_") && !has(call.function, "_write"))
            all.push_back(call);
    for (const Backend backend : backends()) {
        const bool gpu = backend == Backend::cuda;
        const std::array<int, 4> n = gpu ? std::array<int, 4>{8, 8, 8, 8} : std::array<int, 4>{4, 4, 4, 4};
        const int of_each = asked != nullptr ? std::atoi(asked) / int(all.size()) + 1 : gpu ? 9 : 4;
        int noticed = 0, wrong = 0, not_checked = 0, harmless = 0;
        for (const Call &call : all) {
            const FlippedRun clean = run_with_flip(call, backend, n, never, "", 0);
            CAPTURE(name(backend), call.name(), milcgpu_last_error());
            REQUIRE(clean.status == MILCGPU_OK);
            CHECK((clean.looks > 0 || has(call.function, "_create")));
            const auto flip = [&](int at, const std::string &owner, size_t bit) {
                const FlippedRun r = run_with_flip(call, backend, n, at, owner, bit);
                if (r.status != MILCGPU_OK) {
                    ++noticed;
                    return;
                }
                std::string part;
                double off = 0;
                for (size_t k = 0; k < r.state.size() && k < clean.state.size(); ++k) {
                    const State &now = r.state;
                    // Two right solutions of a loose tolerance differ: r.residual is looked at.
                    if (now[k].numbers.empty() || now[k].numbers == clean.state[k].numbers ||
                        now[k].name == "residual" || (call.traits & Call::loose && now[k].name == "x[0]"))
                        continue;
                    const double d = largest_difference(now[k].numbers, clean.state[k].numbers);
                    const double allowed = now[k].name == "eigenvalues"  ? 0.1 // as milcgpu_eigen.h says
                                           : is_of_a_solve(call, now[k]) ? 1e-8
                                                                         : 1e-13;
                    if (!(d <= allowed))
                        part = now[k].name, off = d;
                }
                if (!(r.residual <= 1.01e-3))
                    part = "residual", off = r.residual;
                if (part.empty()) {
                    ++harmless;
                    return;
                }
                const bool checked = is_checked(r.owner, call, at < 0 ? -1 : double(at) / clean.looks);
                ++(checked ? wrong : not_checked);
                CAPTURE(r.owner, r.at, at, clean.looks, bit, part, off);
                CHECK_FALSE(checked);
            };
            for (const std::string &owner : clean.owners)
                flip(before_call, owner, 0);
            if (const int late = clean.looks * 3 / 4; !(call.traits & Call::solves)) // the caller's fields have arrived
                for (const std::string &owner : owners_at(call, backend, n, late))
                    if (clean.owners.count(owner) == 0)
                        flip(late, owner, 0);
            for (const std::string &owner :
                 sampled(std::vector<std::string>(clean.owners.begin(), clean.owners.end()), 3))
                flip(clean.looks / 2, owner, 0);
            reference::Rng rng(7 + (&call - all.data()));
            for (int k = 0; k < of_each && clean.looks > 0; ++k) {
                const size_t bit = rng() ^ rng() << 32;
                flip(int(rng() % clean.looks), "", bit);
            }
        }
        std::printf("%s: %d harmless, %d noticed, %d wrong, not checked, %d silent\n", milcgpu::name(backend), harmless,
                    noticed, not_checked, wrong);
        CHECK(noticed > 100);
    }
}
