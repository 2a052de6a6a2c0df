// Measurements on cut lattices, over ranks and emulated: fields have the bits of one rank, correlators agree within
// rounding and are equal on all ranks, and a failure on one rank fails on all.
#include "milc_glue/measure/meson_links_handle.h"
#include "milc_glue/residency/meson_links.h"
#include "tests/cut_support.h"
#include "tests/mesons_support.h"
#include <algorithm>

using namespace tests;

namespace {

// A host field in the precision of the handle.
template <class Real> struct Part {
    std::vector<Real> data;
    explicit Part(const std::vector<double> &from) : data(from.begin(), from.end()) {}
    milcgpu_field field() { return {data.data(), sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE, 0}; }
};

constexpr Origin links_origin{1, 0, 3, 1}; // of the phases in the links

struct Inputs {
    Fields fields;
    std::vector<double> links;
    std::vector<std::vector<double>> quarks;
    explicit Inputs(const Extents &whole) : fields(fields_on(whole, true)) {
        links = reference::links_to_milc<double>(
            fields.lattice, reference::phased_links(fields.lattice, links_for(fields.lattice, 7), links_origin, true));
        for (int k = 0; k < 8; ++k)
            quarks.push_back(reference::vector_to_milc<double>(fields.lattice, random_fermion(fields.lattice, 8 + k)));
    }
};

// The handles and fields of one rank.
template <class Real> struct Bench {
    Here &here;
    const Inputs &inputs;
    milcgpu_meson_links *links = nullptr;
    Bench(Here &of, const Inputs &in) : here(of), inputs(in) {
        demand(milcgpu_meson_links_create(here.context, precision, &links));
        Part<Real> part(Fields::part(inputs.links, here.places, 72));
        const milcgpu_field field = part.field();
        const milcgpu_meson_links_spec spec{
            sizeof spec, 1, MILCGPU_SIGNS_IN, {links_origin[0], links_origin[1], links_origin[2], links_origin[3]}};
        demand(milcgpu_meson_links_load(links, &spec, &field));
    }
    Bench(const Bench &) = delete;
    ~Bench() { milcgpu_meson_links_destroy(links); }
    static constexpr int precision = sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE;

    std::vector<Part<Real>> parts(int first, int n) const {
        std::vector<Part<Real>> made;
        for (int k = first; k < first + n; ++k)
            made.emplace_back(Fields::part(inputs.quarks[k], here.places, 6));
        return made;
    }
};

// Fields of the whole lattice, in the order in which the calls make them; each rank fills its part.
class Results {
  public:
    Results(size_t size, int count) : fields_(count, std::vector<double>(size, -7)) {}
    template <class Real> void put(int &next, const Here &here, const std::vector<Part<Real>> &parts) {
        for (const Part<Real> &part : parts)
            Fields::put(fields_.at(next++), std::vector<double>(part.data.begin(), part.data.end()), here.places);
    }
    bool operator==(const Results &other) const {
        bool same = true;
        for (size_t k = 0; k < fields_.size(); ++k)
            if (!same_bits(fields_[k], other.fields_[k])) {
                UNSCOPED_INFO("field " << k);
                same = false;
            }
        return same;
    }
    int written() const {
        int count = 0;
        for (const auto &field : fields_)
            count += std::count(field.begin(), field.end(), -7.0) == 0;
        return count;
    }

  private:
    std::vector<std::vector<double>> fields_;
};

template <class Real> std::vector<milcgpu_field> host_fields(std::vector<Part<Real>> &parts) {
    std::vector<milcgpu_field> fields;
    for (auto &part : parts)
        fields.push_back(part.field());
    return fields;
}

const Origin origin = {1, 0, 3, 1};

// All fields that the calls make, for n sources.
constexpr int calls = 47;
template <class Real> void make_fields(Bench<Real> &b, int n, Results &results) {
    int next = 0;
    const auto to_other = [&](const auto &call) {
        auto in = b.parts(0, n), out = b.parts(n, n);
        const auto from = host_fields(in), to = host_fields(out);
        const milcgpu_quarks source{from.data(), nullptr, 0}, made{to.data(), nullptr, 0};
        demand(call(&source, &made));
        results.put(next, b.here, out);
    };
    const auto in_place = [&](const auto &call) {
        auto fields = b.parts(0, n);
        const auto host = host_fields(fields);
        const milcgpu_quarks quarks{host.data(), nullptr, 0};
        demand(call(&quarks));
        results.put(next, b.here, fields);
    };
    for (int dir = 0; dir < 4; ++dir)
        for (const int way : {MILCGPU_FORWARD, MILCGPU_BACKWARD, MILCGPU_SYMMETRIC})
            to_other([&](const milcgpu_quarks *from, const milcgpu_quarks *to) {
                return milcgpu_quarks_shift(b.links, dir, way, way == MILCGPU_FORWARD ? nullptr : origin.data(), n,
                                            from, to);
            });
    for (const char *label : {"GX-GX", "GT-G1", "GX-G1", "GXY-G5T", "G1-GZX", "G5-GXT", "GYZ-GT", "G1-G5", "rhoxsffn",
                              "rhotsbfn", "rhozsfape"})
        to_other([&](const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_spin_taste(b.links, b.here.links, milcgpu_spin_taste_index(label), origin.data(), n,
                                             from, to);
        });
    for (const int hop : {1, 2})
        for (const int slice : {-1, 0, 5}) {
            for (const int steps : {1, 2, 3})
                in_place([&](const milcgpu_quarks *quarks) {
                    return milcgpu_quarks_gauss_smear(b.links, hop, 1.3, steps, slice, n, quarks);
                });
            in_place(
                [&](const milcgpu_quarks *quarks) { return milcgpu_quarks_laplacian(b.links, hop, slice, n, quarks); });
        }
}

const std::vector<Sink> sinks = {{"G5-G5", 'g', 0, false},   {"GX-GX", 'g', 0, false},     {"GYT-GYT", 'g', 0, false},
                                 {"G5-G5Z", 'g', 0, false},  {"G1-GXY", 'g', 0, false},    {"GT-G5", 'g', 0, false},
                                 {"rhotsfn", 'p', 3, true},  {"rhoxsape", 'p', 0, false},  {"rhoysffn", 'f', 1, true},
                                 {"rhozsbfn", 'b', 2, true}, {"rhotsbape", 'b', 3, false}, {"G1-G5", 'g', 0, false}};

template <class Real> std::vector<reference::Complex> correlators(Bench<Real> &b, int n) {
    const Correlators c(origin, sinks);
    auto left = b.parts(0, n), right = b.parts(n, n);
    const auto first = host_fields(left), second = host_fields(right);
    const milcgpu_quarks src1{first.data(), nullptr, 0}, src2{second.data(), nullptr, 0};
    std::vector<reference::Complex> sums(size_t(c.spec.n_correlators) * b.inputs.fields.lattice.n[3]);
    demand(milcgpu_quarks_contract(b.links, &c.spec, b.here.links, b.here.links, n, &src1, &src2,
                                   reinterpret_cast<double *>(sums.data())));
    return sums;
}

template <class Real> void check_cuts(const Inputs &inputs, Backend backend, int n, const std::vector<Cut> &cuts) {
    struct CutMesons {
        Results fields;
        std::vector<std::vector<reference::Complex>> sums; // for each rank
    };
    const auto work = [&](const Cut &cut) {
        CutMesons made{Results(inputs.quarks[0].size(), calls * n),
                       std::vector<std::vector<reference::Complex>>(cut.ranks())};
        const auto endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
            Bench<Real> b(here, inputs);
            make_fields(b, n, made.fields);
            made.sums[here.rank()] = correlators(b, n);
        });
        CHECK(all_well(endings));
        return made;
    };
    const CutMesons one = work({cuts[0].whole, {1, 1, 1, 1}, 0});
    CHECK(one.fields.written() == calls * n);
    for (const Cut &cut : cuts) {
        CAPTURE(text_of(cut), name(backend), sizeof(Real), n);
        const CutMesons many = work(cut);
        CHECK(many.fields == one.fields);
        for (const auto &sums : many.sums)
            CHECK(sums == many.sums[0]);
        CHECK(largest_difference(many.sums[0], one.sums[0]) <= times_measured * 5e-16);
    }
}

} // namespace

TEST_CASE("measurements over ranks and on emulated cuts have the fields of one rank, correlators within rounding",
          "[measurements][ranks][cut]") {
    const Extents whole = {6, 4, 6, 8};
    const Inputs inputs(whole);
    for (const Backend backend : backends()) {
        check_cuts<double>(inputs, backend, 1,
                           {{whole, {1, 1, 1, 2}, 0},
                            {whole, {2, 1, 1, 1}, 0},    // odd local extents
                            {whole, {2, 1, 1, 2}, 4, 1}, // boxes of two sizes
                            {whole, {1, 1, 1, 1}, 15}});
        check_cuts<float>(inputs, backend, 4, {{whole, {1, 1, 1, 2}, 4}}); // several sources
    }
}

TEST_CASE("measurements over ranks work on boxes with an odd number of sites", "[measurements][ranks][cut]") {
    LONG_TEST;
    const Extents whole = {6, 6, 6, 6};
    const Inputs inputs(whole);
    for (const Backend backend : backends())
        check_cuts<double>(inputs, backend, 1, {{whole, {2, 2, 2, 2}, 0}});
}

TEST_CASE("measurements over ranks work with vectors on the device", "[measurements][ranks][cut]") {
    const Extents whole = {4, 4, 6, 6};
    const Inputs inputs(whole);
    const auto work = [&](const Cut &cut, Backend backend) {
        Results results(inputs.quarks[0].size(), 5);
        const auto endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
            Bench<double> b(here, inputs);
            milcgpu_vectors *vectors = nullptr;
            demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 5, &vectors));
            auto parts = b.parts(0, 5);
            const auto each = [&](const auto &move) {
                for (int k = 0; k < 5; ++k)
                    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                        const milcgpu_field field = parts[k].field();
                        demand(move(vectors, k, parity, &field));
                    }
            };
            each(milcgpu_vectors_load);
            const milcgpu_quarks from{nullptr, vectors, 1}, overlapping{nullptr, vectors, 2};
            demand(milcgpu_quarks_spin_taste(b.links, nullptr, milcgpu_spin_taste_index("GX-GYZ"), origin.data(), 3,
                                             &from, &overlapping));
            demand(milcgpu_quarks_shift(b.links, 2, MILCGPU_SYMMETRIC, origin.data(), 2, &from, &from));
            demand(milcgpu_quarks_gauss_smear(b.links, 2, 1.1, 3, 4, 3, &overlapping));
            demand(milcgpu_quarks_laplacian(b.links, 1, -1, 2, &from));
            each(milcgpu_vectors_save);
            milcgpu_vectors_destroy(vectors);
            int next = 0;
            results.put(next, here, parts);
        });
        CHECK(all_well(endings));
        CHECK(results.written() == 5);
        return results;
    };
    for (const Backend backend : backends()) {
        const Results one = work({whole, {1, 1, 1, 1}, 0}, backend);
        CHECK(work({whole, {1, 1, 2, 1}, 8}, backend) == one);
        CHECK(work({whole, {1, 1, 1, 2}, 0}, backend) == one);
    }
}

namespace {

// Changes one argument or field on rank 1 alone.
using Twist = std::function<void(Bench<double> &, milcgpu_meson_spec &, double &width, std::vector<double> &quark)>;

std::vector<Ending> twisted(const Inputs &inputs, Backend backend, const Twist &twist, bool contracts) {
    const Cut cut{{4, 4, 4, 6}, {1, 1, 1, 2}, 0};
    return on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        Bench<double> b(here, inputs);
        Correlators c(origin, {{"GX-GX", 'g', 0, false}, {"G1-GXT", 'g', 0, false}});
        std::vector<double> quark = Fields::part(inputs.quarks[0], here.places, 6);
        double width = 1.5;
        if (here.rank() == 1)
            twist(b, c.spec, width, quark);
        const auto before = quark;
        const milcgpu_field field = field_of(quark);
        const milcgpu_quarks quarks{&field, nullptr, 0};
        std::vector<double> sums(2 * size_t(c.spec.n_correlators) * 6, 0.25);
        const auto old = sums;
        const milcgpu_status status =
            contracts ? milcgpu_quarks_contract(b.links, &c.spec, nullptr, nullptr, 1, &quarks, &quarks, sums.data())
                      : milcgpu_quarks_gauss_smear(b.links, 1, width, 4, -1, 1, &quarks);
        const std::string text = milcgpu_last_error();
        if (status == MILCGPU_OK || sums != old || !same_bits(quark, before))
            throw milcgpu::Error(milcgpu::Status::bad_argument, "it was done, or half done");
        throw milcgpu::Error(static_cast<milcgpu::Status>(status), text);
    });
}

} // namespace

TEST_CASE("measurements over ranks: an argument that differs on one rank, or a failure of one, fails on all",
          "[measurements][ranks][cut]") {
    using milcgpu::Status;
    const Inputs inputs({4, 4, 4, 6});
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        const auto all = [&](const Twist &twist, Status status, const char *text, bool contracts = false) {
            CAPTURE(text);
            CHECK(all_ended(twisted(inputs, backend, twist, contracts), status, text));
        };
        using Bench = Bench<double>;
        using Quark = std::vector<double>;
        all([](Bench &, milcgpu_meson_spec &, double &width, Quark &) { width = -1; }, Status::bad_argument,
            "rank 1 of 2: width is -1");
        all([](Bench &, milcgpu_meson_spec &, double &, Quark &quark) { quark[30] = NAN; }, Status::nan_or_inf,
            "the result");
        all([](Bench &, milcgpu_meson_spec &, double &, Quark &quark) { quark[30] = NAN; }, Status::nan_or_inf,
            "a correlator is NaN", true);
        all([](Bench &, milcgpu_meson_spec &spec, double &, Quark &) { ++spec.origin[2]; }, Status::bad_argument,
            "origin[Z] is 4", true);
        const auto flip = [](Bench &b, milcgpu_meson_spec &, double &, Quark &) {
            unsigned char byte, *const place = b.links->u.block(1, 1) + 6;
            b.here.context->device->copy_to_host(&byte, place, 1);
            byte ^= 4;
            b.here.context->device->copy_to_device(place, &byte, 1);
        };
        all(flip, Status::corrupted, "rank 1 of 2: the device no longer holds the links of the measurement");
        // An allocation that fails on rank 1, at each in turn.
        for (const bool contracts : {false, true})
            for (int after = 0; after < 40; ++after) {
                CAPTURE(contracts, after);
                const auto short_of_memory = [&](Bench &b, milcgpu_meson_spec &, double &, Quark &) {
                    b.here.context->device->inject(milcgpu::Fault::allocation, after);
                };
                const auto endings = twisted(inputs, backend, short_of_memory, contracts);
                if (endings[1].status != static_cast<int>(Status::no_memory)) // the call has fewer allocations
                    break;
                CHECK(all_ended(endings, Status::no_memory, "rank 1 of 2"));
                CHECK(after < 39);
            }
    }
}

TEST_CASE("MILC's links of measurements on ranks: if one rank reloads, all reload",
          "[measurements][ranks][cut][plugin]") {
    const Inputs inputs({4, 4, 4, 6});
    Mailroom decisions(2);
    const auto endings =
        on_cut(inputs.fields, {{4, 4, 4, 6}, {1, 1, 1, 2}, 0}, Backend::host, [&](Here &here, Ending &ending) {
            const milcgpu_messages table = decisions.table(here.rank());
            milcgpu::Collective agreed;
            agreed.join(milcgpu::ranks_of(&table), 60);
            agreed.begin_call();
            milcgpu::KeptGauge none(here.context, MILCGPU_DOUBLE, false);
            milcgpu::MesonLinksCache cache(agreed, here.context, MILCGPU_DOUBLE, none);
            std::vector<double> links = Fields::part(inputs.links, here.places, 72), elsewhere = links;
            uint64_t moved = 0;
            const auto look = [&](const std::vector<double> &at) {
                const uint64_t before = moved;
                milcgpu_meson_links *handle = nullptr;
                demand(cache.ready({at.data(), here.places.size(), 576, 576}, nullptr, handle, moved));
                ending.text += moved > before ? " loaded" : " kept";
            };
            look(links);
            look(links);
            if (here.rank() == 1)
                links[100] += 1;
            look(links);
            // Another address on rank 1 alone.
            look(here.rank() == 1 ? elsewhere : links);
            look(here.rank() == 1 ? elsewhere : links);
        });
    CHECK(all_well(endings));
    for (const Ending &ending : endings)
        CHECK(ending.text == " loaded kept loaded loaded kept");
}
