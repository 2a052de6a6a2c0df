// Molecular dynamics on cut lattices: a force that takes vectors on the device twice, and the layers around a box that
// each step reads. test_cut_calls.cpp compares the calls with those of a whole lattice.
#include "gpu_kernels/gauge/forces/fermion_force.h"
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/links/gauge.h"
#include "tests/cut_support.h"
#include "tests/reference/gauge_force.h"
#include <cmath>

using namespace milcgpu;
using namespace tests;

namespace {

constexpr milcgpu_loops rough_loops{0.8, -0.3, 0.45, 0}; // all of similar size
constexpr int terms = 3;

// A gauge field with phases, rough enough that some links need singular values; momenta; vectors on both parities.
struct State {
    Fields fields;
    std::vector<double> links, momenta, x[terms];
    explicit State(const Extents &whole) : fields(fields_on(whole, false)) {
        const reference::Lattice &lattice = fields.lattice;
        reference::Gauge u = unitary_links(lattice, 11, 1, false);
        reference::apply_phases(lattice, u);
        links = reference::links_to_milc<double>(lattice, u);
        for (size_t k = 0; k < size_t(lattice.volume()) * 40; ++k)
            momenta.push_back(k % 10 == 9 ? 0 : std::sin(double(k)));
        for (int t = 0; t < terms; ++t)
            x[t] = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 20 + t));
    }
};

struct Handle {
    milcgpu_gauge *gauge = nullptr;
    std::vector<double> links, momenta, x[terms];
    Handle(Here &here, const State &state)
        : links(Fields::part(state.links, here.places, 72)), momenta(Fields::part(state.momenta, here.places, 40)) {
        for (int t = 0; t < terms; ++t)
            x[t] = Fields::part(state.x[t], here.places, 6);
        demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &gauge));
    }
    ~Handle() { milcgpu_gauge_destroy(gauge); }
    Handle(const Handle &) = delete;
    void load() {
        const milcgpu_field u = field_of(links), h = field_of(momenta);
        demand(milcgpu_gauge_load(gauge, &u, 0));
        demand(milcgpu_momenta_load(gauge, &h));
    }
    std::vector<double> saved_momenta() {
        std::vector<double> saved(momenta.size());
        const milcgpu_field to = field_of(saved);
        demand(milcgpu_momenta_save(gauge, &to));
        return saved;
    }
    // vectors: x on the device; nullptr: x comes from the host.
    milcgpu_status force(bool hisq, milcgpu_force_report &report, double eps = 0.03,
                         const milcgpu_vectors *vectors = nullptr) {
        milcgpu_fatlink_spec how;
        hisq ? milcgpu_hisq_defaults(&how, sizeof how) : milcgpu_asqtad_defaults(0.9, &how, sizeof how);
        how.svd_relative = 1e-15; // some links need singular values
        const double residues[terms] = {0.7, -0.2, 1.3};
        const milcgpu_force_set sets[2] = {{0, 1}, {-0.2, 2}};
        const milcgpu_force_spec spec{sizeof spec, &how, eps, terms, residues, hisq ? 2 : 0, sets, 0.02};
        const milcgpu_field fields[terms] = {field_of(x[0]), field_of(x[1]), field_of(x[2])};
        report = sized<milcgpu_force_report>();
        return vectors != nullptr ? milcgpu_momenta_add_force_of_vectors(gauge, &spec, vectors, &report)
                                  : milcgpu_momenta_add_fermion_force(gauge, &spec, fields, &report);
    }
};

} // namespace

TEST_CASE("a force takes the same vectors on the device twice, over ranks and on emulated cuts", "[ranks][cut][md]") {
    const State state({4, 4, 4, 8});
    for (const Backend backend : backends())
        for (const Cut &cut : {Cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, Cut{{4, 4, 4, 8}, {1, 1, 1, 1}, 10}}) {
            CAPTURE(text_of(cut), name(backend));
            CHECK(all_well(on_cut(state.fields, cut, backend, [&](Here &here, Ending &) {
                Handle h(here, state);
                milcgpu_vectors *vectors = nullptr;
                demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, terms, &vectors));
                const std::unique_ptr<milcgpu_vectors, void (*)(milcgpu_vectors *)> end(vectors,
                                                                                        milcgpu_vectors_destroy);
                for (int t = 0; t < terms; ++t)
                    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                        const milcgpu_field from = field_of(h.x[t]);
                        demand(milcgpu_vectors_load(vectors, t, parity, &from));
                    }
                milcgpu_force_report report;
                h.load();
                demand(h.force(true, report));
                const std::vector<double> wanted = h.saved_momenta();
                for (int time = 0; time < 2; ++time) {
                    h.load();
                    demand(h.force(true, report, 0.03, vectors));
                    if (!same_bits(h.saved_momenta(), wanted))
                        throw Error(Status::corrupted, "the force is another one");
                }
            })));
        }
}

namespace {

// An emulated cut in x and t, and fields on the wide box. NaN fills the margin beyond the given number of layers.
struct Layers {
    Device device{Backend::host, 0};
    Ranks ranks;
    Geometry geometry{{4, 4, 4, 6}, {0, 0, 0, 0}, {4, 4, 4, 6}, halo_depth, 9};
    Halo halo{device, ranks, geometry, {}};
    WideBox box{device, geometry, 2};
    LinkField u{device, Precision::double_, 18, geometry, "test"}, h{momenta(device, Precision::double_, geometry)};

    Layers() {
        halo.open("", Reaching::memory_of_gpus);
        const reference::Lattice lattice{{4, 4, 4, 6}};
        const auto host = reference::links_to_milc<double>(lattice, unitary_links(lattice, 3, 1, false));
        links_to_device(device, {const_cast<double *>(host.data()), Precision::double_, 72 * sizeof(double)}, {},
                        geometry, u);
        device.fill_zero(h.block(0, 0), h.bytes());
    }
    LinkField room(int byte) {
        LinkField field(device, Precision::double_, 18, box.wide(), "test");
        const std::vector<unsigned char> bytes(field.bytes(), static_cast<unsigned char>(byte));
        device.copy_to_device(field.block(0, 0), bytes.data(), bytes.size());
        return field;
    }
    LinkField with(int layers) {
        LinkField field = room(0xFF);
        halo.extend(u, box, layers, field);
        return field;
    }
    // True if make(to) gives finite numbers everywhere on the box.
    template <class Make> bool makes_finite(const Make &make) {
        const LinkField to(device, Precision::double_, 18, geometry, "test");
        make(to);
        return finite(to);
    }
    bool finite(const LinkField &field) { return link_statistics(device, field, geometry).first_bad < 0; }
    bool finite_on_box(const LinkField &wide) {
        return makes_finite([&](const LinkField &on_box) { halo.crop(wide, box, on_box); });
    }
    // True if the adjoint of the path derivative, of these links and derivatives, is finite.
    bool adjoint(const PathCoefficients &c, int layers_of_u, int layers_of_q) {
        const LinkField by_u = room(0);
        fat_links_adjoint(device, box, with(layers_of_u), c, with(layers_of_q), by_u,
                          AdjointSpace(device, box.wide(), Precision::double_, c.lepage != 0));
        return finite_on_box(by_u);
    }
};

} // namespace

TEST_CASE("no step on a cut lattice takes fewer layers of the neighbours' links than it reads, and none takes more",
          "[cut][md][fatlinks]") {
    Layers on;
    const PathCoefficients fat7{0.125, 0, -0.0625, 0.015625, -0.0026, 0},
        asqtad{0.6, -0.04, -0.06, 0.016, -0.0026, -0.06};
    struct Step {
        const char *name;
        int reach;
        std::function<bool(int layers)> is_finite;
    };
    std::vector<Step> steps;
    for (const PathCoefficients &c : {fat7, asqtad}) {
        steps.push_back({"fat links", c.reach(), [&on, c](int layers) {
                             return on.makes_finite([&](const LinkField &fat) {
                                 fat_links(on.device, on.box, on.with(layers), c, fat,
                                           StapleSpace(on.device, on.box.wide(), Precision::double_));
                             });
                         }});
        steps.push_back({"by fat links, u", c.reach(), [&on, c](int layers) { return on.adjoint(c, layers, 2); }});
        steps.push_back({"by fat links, q", c.reach(), [&on, c](int layers) { return on.adjoint(c, 2, layers); }});
    }
    steps.push_back({"long links", long_links_reach, [&](int layers) {
                         return on.makes_finite(
                             [&](const LinkField &lng) { long_links(on.device, on.box, on.with(layers), 1, lng); });
                     }});
    for (const bool of_u : {true, false})
        steps.push_back({"by long links", long_links_reach, [&on, of_u](int layers) {
                             const LinkField by_u = on.room(0);
                             long_links_adjoint(on.device, on.box, on.with(of_u ? layers : 2), 1,
                                                on.with(of_u ? 2 : layers), by_u);
                             return on.finite_on_box(by_u);
                         }});
    steps.push_back({"loop trace", loops_reach, [&](int layers) {
                         const LoopPath rectangle{6, {0, 0, 2, 1, 1, 3}};
                         return std::isfinite(
                             loop_trace(on.device, on.box, on.with(layers), rectangle, Signs::phases_in).re);
                     }});
    for (const LoopCoefficients &c : {LoopCoefficients{1, 0, 0}, LoopCoefficients{0, 0, 1}, LoopCoefficients{0, 1, 0},
                                      LoopCoefficients{0.8, -0.3, 0.45}}) {
        steps.push_back({"gauge force", c.reach(), [&on, c](int layers) {
                             on.device.fill_zero(on.h.block(0, 0), on.h.bytes());
                             gauge_force(on.device, on.box, on.with(layers), c, 1, on.h,
                                         GaugeForceSpace(on.device, on.box, Precision::double_, c));
                             return std::isfinite(momentum_action(on.device, on.geometry, on.h));
                         }});
        steps.push_back({"gauge action", c.reach(), [&on, c](int layers) {
                             return std::isfinite(gauge_action(on.device, on.box, on.with(layers), c));
                         }});
    }
    steps.push_back({"plaquettes", plaquettes_reach, [&](int layers) {
                         const PlaquetteMeans means = plaquettes(on.device, on.box, on.with(layers));
                         return std::isfinite(means.space + means.time);
                     }});
    for (const Step &step : steps) {
        CAPTURE(step.name, step.reach);
        CHECK(step.is_finite(step.reach));
        CHECK_FALSE(step.is_finite(step.reach - 1));
    }
}

TEST_CASE("gauge force in slices of a wide box has the same bits", "[cut][md][forces]") {
    Layers on;
    const LoopCoefficients c{0.8, -0.3, 0.45};
    const LinkField u = on.with(c.reach());
    double whole = 0;
    for (const size_t slice : {size_t(0), size_t(64), size_t(192)}) {
        on.device.fill_zero(on.h.block(0, 0), on.h.bytes());
        GaugeForceSpace space(on.device, on.box, Precision::double_, c);
        REQUIRE(space.slice >= size_t(on.box.wide().sites(0)));
        if (slice > 0)
            space.slice = slice;
        gauge_force(on.device, on.box, u, c, 1, on.h, space);
        const double found = momentum_action(on.device, on.geometry, on.h);
        if (slice == 0)
            whole = found;
        CAPTURE(slice);
        CHECK(found == whole);
    }
}

namespace {

const Cut two_ranks{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};

// A call of the C interface on a loaded handle, and the fields of the handle that it reads.
struct Call {
    const char *name;
    bool links, momenta;
    std::function<milcgpu_status(Handle &)> make;
};
std::vector<Call> all_calls() {
    const auto number = [](auto *call, auto... before) {
        return [=](Handle &h) {
            double value;
            return call(h.gauge, before..., &value);
        };
    };
    const auto save = [](auto *call, size_t reals) {
        return [=](Handle &h) {
            std::vector<double> room(h.links.size() / 72 * reals);
            const milcgpu_field to = field_of(room);
            return call(h.gauge, &to);
        };
    };
    const auto force = [](bool hisq) {
        return [hisq](Handle &h) {
            milcgpu_force_report report;
            return h.force(hisq, report);
        };
    };
    return {{"update", true, true, [](Handle &h) { return milcgpu_gauge_update(h.gauge, 0.01, 8, nullptr); }},
            {"gauge force", true, true,
             [](Handle &h) { return milcgpu_momenta_add_gauge_force(h.gauge, &rough_loops, 5, 0.01, nullptr); }},
            {"asqtad force", true, true, force(false)},
            {"HISQ force", true, true, force(true)},
            {"reunitarization", true, false,
             [](Handle &h) {
                 milcgpu_reunitarize_report report{sizeof report, 0, 0, 0, 0};
                 return milcgpu_gauge_reunitarize(h.gauge, 0, &report);
             }},
            {"gauge action", true, false, number(milcgpu_gauge_action, &rough_loops)},
            {"momentum action", false, true, number(milcgpu_momenta_action)},
            {"plaquettes", true, false,
             [](Handle &h) {
                 double space, time;
                 return milcgpu_gauge_plaquettes(h.gauge, &space, &time);
             }},
            {"saved links", true, false, save(milcgpu_gauge_save, 72)},
            {"saved momenta", false, true, save(milcgpu_momenta_save, 40)}};
}

} // namespace

TEST_CASE("ranks: a bit that flips in a resident field of one rank ends the next call on all and empties the field",
          "[ranks][cut][md][faults][sanitize]") {
    const State state(two_ranks.whole);
    std::vector<std::string> wrong(2);
    const auto endings = on_cut(state.fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        Handle h(here, state);
        for (const Call &call : all_calls())
            for (const bool in_links : {true, false}) {
                if (!(in_links ? call.links : call.momenta))
                    continue;
                h.load();
                if (here.rank() == 1)
                    (in_links ? h.gauge->u : h.gauge->h).block(1, 3)[5] ^= 0x10;
                const std::string said = call.make(h) == MILCGPU_CORRUPTED ? milcgpu_last_error() : "no error";
                const bool good = has(said, in_links ? "rank 1 of 2: the device no longer holds the gauge field"
                                                     : "rank 1 of 2: the device no longer holds the momenta") &&
                                  call.make(h) == MILCGPU_BAD_ARGUMENT;
                if (!good)
                    wrong[here.rank()] += std::string(call.name) + ": " + said + "; ";
            }
    });
    CHECK(all_well(endings));
    CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("ranks: if memory is short on one rank anywhere in a call, all leave it with links and momenta unchanged",
          "[ranks][cut][md][faults]") {
    const State state(two_ranks.whole);
    std::vector<std::string> wrong(2);
    std::vector<int> failures(2);
    const auto endings = on_cut(state.fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        Handle h(here, state);
        h.load();
        for (const Call &call : all_calls()) {
            bool came = true; // the planted fault hit an allocation of rank 1
            for (int after = 0; came; ++after) {
                const uint64_t links = milcgpu_gauge_version(h.gauge), momenta = milcgpu_momenta_version(h.gauge);
                if (here.rank() == 1)
                    here.context->device->inject(Fault::allocation, after);
                const milcgpu_status status = call.make(h);
                came = here.context->ranks->gathered("test", here.context->device->planted())[1] == Fault::none;
                const bool failed = status == MILCGPU_NO_MEMORY && last_error_says("rank 1 of 2: ");
                if (!failed && status != MILCGPU_OK) // OK if the library has another way
                    wrong[here.rank()] += format("%s, %d: %d %s; ", call.name, after, status, milcgpu_last_error());
                if (failed && (milcgpu_gauge_version(h.gauge) != links || milcgpu_momenta_version(h.gauge) != momenta))
                    wrong[here.rank()] += format("%s, %d: fields changed; ", call.name, after);
                failures[here.rank()] += failed;
            }
            here.context->device->inject(Fault::none);
        }
    });
    CHECK(all_well(endings));
    CHECK(wrong == std::vector<std::string>(2));
    CHECK(failures[0] == failures[1]);
    CHECK(failures[0] > 40);
}

TEST_CASE("ranks: with MILCGPU_TEST=check_halo links of a margin that change on the way end a force on all",
          "[ranks][cut][md][faults]") {
    const Environment environment{{"MILCGPU_TEST", "check_halo"}};
    const State state(two_ranks.whole);
    std::vector<std::string> said(2);
    const auto endings = on_cut(state.fields, two_ranks, Backend::host, [&](Here &here, Ending &) {
        Handle h(here, state);
        h.load();
        const std::vector<double> before = h.saved_momenta();
        if (here.rank() == 1) // two layers of 64 sites
            here.room->corrupt(1, 2 * 64 * 4 * 18 * sizeof(double));
        const milcgpu_status status = milcgpu_momenta_add_gauge_force(h.gauge, &rough_loops, 5, 0.01, nullptr);
        said[here.rank()] = format("%d %s", status, milcgpu_last_error());
        if (h.saved_momenta() != before)
            said[here.rank()] += ", momenta changed";
    });
    CHECK(all_well(endings));
    for (const std::string &words : said) {
        CAPTURE(words);
        CHECK(has(
            words,
            format("%d milcgpu_momenta_add_gauge_force: rank 1 of 2: the margin of links: 73888 bytes from rank 0 of 2",
                   MILCGPU_COMM)));
        CHECK_FALSE(has(words, "momenta changed"));
    }
}
