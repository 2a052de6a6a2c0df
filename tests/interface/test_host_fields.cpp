// Hashes, differences and copies of MILC's fields in the host's memory, and the residual that they serve.
#include "gpu_kernels/machine/content_hash.h"
#include "milc_glue/host/host_fields.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace milcgpu;

namespace {

// A field, its hash, and edits of it that are taken back. Real: of the field.
template <class Real> struct Edited {
    std::vector<Real> field;
    size_t record; // reals
    long edits = 0, unseen = 0;
    uint64_t hash;
    Edited(std::vector<Real> of, size_t reals) : field(std::move(of)), record(reals), hash(now()) {}
    size_t size() const { return field.size(); }
    uint64_t now() const {
        return record == 0
                   ? hash_bytes(field.data(), size() * sizeof(Real))
                   : hash_records({field.data(), size() / record, record * sizeof(Real), record * sizeof(Real)});
    }
    template <class Edit> void each_way(const Edit &edit) {
        const std::vector<Real> before = field;
        edit(field);
        if (field != before) {
            ++edits;
            unseen += now() == hash;
        }
        field = before;
    }
    void swap(size_t a, size_t b, size_t count) {
        each_way([&](auto &f) { std::swap_ranges(&f[a], &f[a] + count, &f[b]); });
    }
    void turn_signs(std::initializer_list<size_t> of) {
        each_way([&](auto &f) {
            for (const size_t k : of)
                f[k] = -f[k];
        });
    }
};

// Edits that a program makes, n of each kind. reals: of a site, or of a link.
template <class Real> void structured_edits(Edited<Real> &e, size_t reals, int n, reference::Rng &rng) {
    const size_t size = e.size(), sites = size / reals;
    const auto any = [&](size_t below) { return static_cast<size_t>(rng() % below); };
    for (int k = 0; k < n; ++k) {
        e.swap(reals * any(sites), reals * any(sites), reals);
        const size_t a = any(size), b = any(size), c = any(size / 2), step = 1 + any(size / 8);
        e.turn_signs({a, b == a ? (a + 1) % size : b});
        e.turn_signs({c, c + step, c + 2 * step, c + 3 * step}); // places whose sums are equal
        e.turn_signs({a, (a + step) % size, (a + 7 * step) % size, (a + 8 * step) % size});
        const size_t complex = 2 * any(size / 2 - 1), site = reals * any(sites);
        e.swap(complex, complex + 1, 1);
        e.swap(complex, complex + 2, 2);
        e.each_way([&](auto &f) { // a shift
            std::rotate(f.begin(), f.begin() + static_cast<long>(reals * (1 + any(sites - 1))), f.end());
        });
        e.each_way([&](auto &f) { // the site's conjugate
            for (size_t j = 1; j < reals; j += 2)
                f[site + j] = -f[site + j];
        });
        e.each_way([&](auto &f) { // a site negated
            for (size_t j = 0; j < reals; ++j)
                f[site + j] = -f[site + j];
        });
        e.each_way([&](auto &f) { // a transpose
            for (int row = 0; reals == 18 && row < 3; ++row)
                for (int col = 0; col < row; ++col)
                    std::swap_ranges(&f[site + 2 * (3 * row + col)], &f[site + 2 * (3 * row + col)] + 2,
                                     &f[site + 2 * (3 * col + row)]);
        });
    }
}

} // namespace

TEST_CASE("no simple edit of a field with few bits leaves its hash as it is", "[host_fields]") {
    reference::Rng rng(11);
    const int n = 14000; // of each kind and field
    long edits = 0;
    const auto check = [&](auto real) {
        using Real = decltype(real);
        const auto field_of = [&](size_t size, const auto &value) {
            std::vector<Real> field(size);
            for (size_t k = 0; k < size; ++k)
                field[k] = static_cast<Real>(value(k));
            return field;
        };
        const auto z2 = [&](size_t) { return rng() % 2 == 0 ? 1 : -1; };
        const auto unit = [](size_t k) { return k % 18 % 8 == 0 ? 1 : 0; };
        const auto few = [&](size_t) { return static_cast<int>(rng() % 5) - 2; };
        // Of vectors in a row, of vectors that are members of sites, of links.
        for (Edited<Real> edited : {Edited<Real>(field_of(6 * 128, z2), 0), Edited<Real>(field_of(6 * 60, few), 0),
                                    Edited<Real>(field_of(6 * 96, z2), 6), Edited<Real>(field_of(72 * 8, unit), 72),
                                    Edited<Real>(field_of(72 * 8, few), 72)}) {
            structured_edits(edited, edited.record == 72 ? 18 : 6, n, rng);
            CHECK(edited.unseen == 0);
            edits += edited.edits;
        }
    };
    check(double());
    check(float());
    CHECK(edits > 1000000);
}

TEST_CASE("each pair of signs and of sites of a Z2 source has a hash of its own", "[host_fields]") {
    reference::Rng rng(12);
    std::vector<double> source(6 * 50);
    for (double &x : source)
        x = rng() % 2 == 0 ? 1 : -1;
    const auto hash = [&] { return hash_bytes(source.data(), source.size() * sizeof(double)); };
    std::vector<uint64_t> seen{hash()};
    for (size_t a = 0; a < source.size(); ++a)
        for (size_t b = a; b < source.size(); ++b) {
            source[a] = -source[a], source[b] = b != a ? -source[b] : source[b];
            seen.push_back(hash());
            source[a] = -source[a], source[b] = b != a ? -source[b] : source[b];
        }
    std::sort(seen.begin(), seen.end());
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
    CHECK(seen.size() == 1 + 300 * 301 / 2);
}

TEST_CASE("a hash of hashes, as of ranks: each counts, and its place, from zero on", "[host_fields]") {
    const auto of = [](std::initializer_list<uint64_t> numbers) {
        uint64_t hash = 0;
        for (const uint64_t number : numbers)
            hash = hash_with(hash, number);
        return hash;
    };
    reference::Rng rng(13);
    for (int k = 0; k < 1000; ++k) {
        const uint64_t a = k == 0 ? 0 : rng(), b = rng(), edit = rng() | 1;
        std::vector<uint64_t> all = {of({a, a}),        of({a, b}),
                                     of({b, a}),        of({a + edit, b}),
                                     of({a, b + edit}), of({a + edit, b + edit}),
                                     of({a}),           of({a + edit, a + edit})};
        std::sort(all.begin(), all.end());
        CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    }
}

TEST_CASE("hash of records: every bit, its place, the pitch, the sample and the rest", "[host_fields][sanitize]") {
    const size_t count = 2500, words = 9, gap = 2; // two pieces and a bit, blocks that are not full
    std::vector<uint64_t> strided(count * (words + gap), 77), packed(count * words);
    reference::Rng rng(5);
    for (size_t i = 0; i < count; ++i)
        for (size_t w = 0; w < words; ++w)
            strided[i * (words + gap) + w] = packed[i * words + w] = rng();
    const HostRecords flat{packed.data(), count, 8 * words, 8 * words},
        apart{strided.data(), count, 8 * words, 8 * (words + gap)};
    const ContentHash hash = hash_all_and_sample(flat);
    CHECK(hash_all_and_sample(apart) == hash);
    CHECK(hash_records(apart) == hash.all);
    CHECK(hash_records(flat, Share::sample) == hash.sample);
    CHECK(hash_records(flat, Share::rest) == hash.rest());
    for (const auto &[share, expected] :
         {std::pair(Share::all, hash.all), {Share::sample, hash.sample}, {Share::rest, hash.rest()}}) {
        uint64_t sum = 0;
        for (size_t piece = 0; piece < hash_pieces(flat); ++piece)
            sum += hash_piece(flat, share, piece);
        CHECK(sum == expected);
    }
    // Each record is in the sample or in the rest.
    const auto changes_one = [&] {
        const ContentHash now = hash_all_and_sample(flat);
        return now.all != hash.all && (now.sample != hash.sample) != (now.rest() != hash.rest());
    };
    size_t sampled = 0;
    for (size_t i = 0; i < count; ++i) {
        packed[i * words + i % words] ^= uint64_t{1} << i % 64;
        CHECK(changes_one());
        sampled += hash_records(flat, Share::sample) != hash.sample;
        packed[i * words + i % words] ^= uint64_t{1} << i % 64;
    }
    CHECK(sampled > count / 10);
    CHECK(sampled < count / 6);
    std::swap(packed[0], packed[1]); // words of a record
    CHECK(changes_one());
    std::swap(packed[0], packed[1]);
    for (size_t w = 0; w < words; ++w) // records of one block
        std::swap(packed[w], packed[7 * words + w]);
    CHECK(changes_one());
    for (size_t w = 0; w < words; ++w)
        std::swap(packed[w], packed[7 * words + w]);
    // The sample shows an edit of 128 neighbours wherever it is, and of every 8th or every 64th record.
    const auto shows = [&](size_t from, size_t to, size_t step) {
        for (size_t i = from; i < to; i += step)
            packed[i * words] ^= 1;
        const bool seen = hash_records(flat, Share::sample) != hash.sample;
        for (size_t i = from; i < to; i += step)
            packed[i * words] ^= 1;
        return seen;
    };
    for (size_t from = 0; from + 128 <= count; from += 60)
        CHECK(shows(from, from + 128, 1));
    for (const size_t step : {8, 64})
        for (const size_t from : {0, 5})
            CHECK(shows(from, count, step));
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
        tests::Session<double> session(lattice, backend, links);
        auto source = reference::vector_to_milc<double>(lattice, b),
             solution = reference::vector_to_milc<double>(lattice, x);
        const milcgpu_field of_source = session.field(source), of_solution = session.field(solution);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            const int on = parity == MILCGPU_EVEN ? 0 : 1;
            double residual = -1;
            REQUIRE(milcgpu_staggered_residual(session.links, parity, 0.1, &of_source, &of_solution, &residual) ==
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
        CHECK(milcgpu_staggered_residual(session.links, 3, 0.1, &of_source, &of_solution, &residual) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(std::string(milcgpu_version()) == MILCGPU_VERSION);
    }
}
