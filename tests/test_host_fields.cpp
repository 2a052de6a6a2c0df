// Hashes, differences and copies of MILC's fields in the host's memory, and the residual that they serve.
#include "milc_glue/host/host_fields.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace milcgpu;

TEST_CASE("hash of records: every bit, its place, the pitch, the parts", "[host_fields][sanitize]") {
    const size_t count = 2500, words = 9, gap = 2; // two pieces and a bit, blocks that are not full
    std::vector<uint64_t> strided(count * (words + gap), 77), packed(count * words);
    reference::Rng rng(5);
    for (size_t i = 0; i < count; ++i)
        for (size_t w = 0; w < words; ++w)
            strided[i * (words + gap) + w] = packed[i * words + w] = rng();
    const HostRecords flat{packed.data(), count, 8 * words, 8 * words};
    const uint64_t hash = hash_records(flat);
    const PartHashes parts = hash_all_parts(flat);
    CHECK(hash_records({strided.data(), count, 8 * words, 8 * (words + gap)}) == hash);
    CHECK(hash_all_parts({strided.data(), count, 8 * words, 8 * (words + gap)}) == parts);
    const auto changed_parts = [&] {
        const PartHashes now = hash_all_parts(flat);
        int changed = 0;
        for (int k = 0; k < hash_parts; ++k)
            changed += now[k] != parts[k];
        return changed;
    };
    for (const size_t at : {size_t{0}, size_t{4}, 8 * words + 3, 1500 * words, count * words - 1})
        for (const int bit : {0, 31, 32, 63}) {
            packed[at] ^= uint64_t{1} << bit;
            CHECK(hash_records(flat) != hash);
            CHECK(changed_parts() == 1); // each record is in one part
            packed[at] ^= uint64_t{1} << bit;
        }
    std::swap(packed[0], packed[1]); // words of a record
    CHECK(hash_records(flat) != hash);
    CHECK(changed_parts() == 1);
    std::swap(packed[0], packed[1]);
    for (size_t w = 0; w < words; ++w) // records of one block, and of two
        std::swap(packed[w], packed[7 * words + w]);
    CHECK(hash_records(flat) != hash);
    CHECK(changed_parts() == 1);
    for (size_t w = 0; w < words; ++w)
        std::swap(packed[w], packed[(7 + 300) * words + w]);
    CHECK(changed_parts() >= 1);
    for (size_t w = 0; w < words; ++w)
        std::swap(packed[w], packed[(7 + 300) * words + w]);
    for (size_t w = 0; w < words; ++w)
        std::swap(packed[w], packed[7 * words + w]);
    for (int part = 0; part < hash_parts; ++part) {
        uint64_t sum = 0;
        for (size_t piece = 0; piece < hash_pieces(flat); ++piece)
            sum += hash_piece(flat, part, piece);
        CHECK(sum == parts[part]);
        CHECK(hash_part(flat, part) == parts[part]);
    }
    // Every part shows an edit of 128 neighbours wherever it is, and of every 8th or every 64th record.
    const auto all_show = [&](size_t from, size_t to, size_t step) {
        for (size_t i = from; i < to; i += step)
            packed[i * words] ^= 1;
        const int changed = changed_parts();
        for (size_t i = from; i < to; i += step)
            packed[i * words] ^= 1;
        return changed == hash_parts;
    };
    for (size_t from = 0; from + 128 <= count; from += 60)
        CHECK(all_show(from, from + 128, 1));
    for (const size_t step : {8, 64})
        for (const size_t from : {0, 5})
            CHECK(all_show(from, count, step));
}

TEST_CASE("differences of fields and of links, NaN included", "[host_fields]") {
    std::vector<double> a(6 * 3000, 1.0), b = a;
    a[17] = 3;
    const auto records = [](const std::vector<double> &v) { return HostRecords{v.data(), v.size() / 6, 48, 48}; };
    const Difference d = difference_of(records(a), records(b), true);
    CHECK(d.difference == 2.0);
    CHECK(d.size == std::sqrt(18000.0));
    std::vector<float> u(18 * 40, 0.5f), v = u;
    u[18 * 3] = 1.0f;
    CHECK(worst_link_difference(u.data(), v.data(), 40, false) == std::sqrt(0.25 / 4.5));
    u[18 * 39 + 17] = NAN;
    CHECK(worst_link_difference(u.data(), v.data(), 40, false) == INFINITY);
}

TEST_CASE("gathered records and backward links", "[host_fields][sanitize]") {
    const reference::Lattice lattice{{4, 4, 2, 6}}; // 3 hops are more than once around Z
    const reference::Gauge links = tests::random_links(lattice, 3);
    const auto order = reference::milc_order(lattice); // lexicographic index of MILC's k-th site
    std::vector<int> map(lattice.volume()), milc_of(lattice.volume());
    for (int k = 0; k < lattice.volume(); ++k) {
        map[k] = (7 * k + 5) % lattice.volume(); // sites in any order
        milc_of[order[k]] = map[k];
    }
    for (const int hops : {1, 3}) {
        reference::Gauge back(links.size());
        gather_adjoint_links(links.data(), {lattice.n.data(), map.data()}, hops, true, back.data());
        double worst = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            for (int mu = 0; mu < 4; ++mu)
                for (int k = 0; k < 9; ++k)
                    worst = tests::worse(
                        worst,
                        std::abs(back[4 * milc_of[s] + mu].e[k / 3][k % 3] -
                                 std::conj(links[4 * milc_of[lattice.neighbour(s, mu, -hops)] + mu].e[k % 3][k / 3])));
        CHECK(worst == 0.0);
    }
    reference::Gauge every_second(links.size() / 2);
    gather_records({links.data(), links.size() / 2, sizeof(reference::Matrix), 2 * sizeof(reference::Matrix)},
                   every_second.data());
    CHECK(std::memcmp(&every_second[5], &links[10], sizeof(reference::Matrix)) == 0);
    void *room = host_allocate(size_t{40} << 20); // large enough for large pages
    REQUIRE(room != nullptr);
    std::memset(room, 1, size_t{40} << 20);
    std::free(room);
}

TEST_CASE("residual of any field, against the reference", "[host_fields]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const auto links = tests::asqtad_links(lattice, 12);
    const auto b = reference::random_fermion(lattice, 1), x = reference::random_fermion(lattice, 2);
    for (const milcgpu::Backend backend : tests::backends()) {
        const milcgpu_layout layout = tests::layout_of(lattice);
        auto options = tests::sized<milcgpu_options>();
        options.backend = backend == milcgpu::Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST;
        milcgpu_context *context = nullptr;
        REQUIRE(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
        const auto order = reference::milc_order(lattice);
        const auto in_milc_order = [&](const auto &from, int each) {
            auto to = from;
            for (int k = 0; k < lattice.volume(); ++k)
                for (int j = 0; j < each; ++j)
                    to[each * k + j] = from[each * order[k] + j];
            return to;
        };
        auto fat = in_milc_order(links.fat, 4), lng = in_milc_order(links.lng, 4);
        auto source = in_milc_order(b, 1), solution = in_milc_order(x, 1);
        const auto field = [](auto &v) { return milcgpu_field{v.data(), MILCGPU_DOUBLE, 0}; };
        const milcgpu_field fat_field = field(fat), lng_field = field(lng), source_field = field(source),
                            solution_field = field(solution);
        milcgpu_links *handle = nullptr;
        REQUIRE(milcgpu_links_create(context, &fat_field, &lng_field, &handle) == MILCGPU_OK);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            const int on = parity == MILCGPU_EVEN ? 0 : 1;
            double residual = -1;
            REQUIRE(milcgpu_staggered_residual(handle, parity, 0.1, &source_field, &solution_field, &residual) ==
                    MILCGPU_OK);
            const auto ax = reference::normal_operator(lattice, links.fat, links.lng, 0.1, on, x);
            double rr = 0, bb = 0;
            for (int s = 0; s < lattice.volume(); ++s)
                for (int c = 0; c < 3 && lattice.parity(s) == on; ++c) {
                    rr += std::norm(b[s].c[c] - ax[s].c[c]);
                    bb += std::norm(b[s].c[c]);
                }
            CHECK(residual == Approx(std::sqrt(rr / bb)).epsilon(1e-12));
        }
        double residual = -1;
        CHECK(milcgpu_staggered_residual(handle, 3, 0.1, &source_field, &solution_field, &residual) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(std::string(milcgpu_version()) == MILCGPU_VERSION);
        milcgpu_links_destroy(handle);
        milcgpu_context_destroy(context);
    }
}
