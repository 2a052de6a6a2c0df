// Checksums of device memory: by a separate pass, and by the residual, which reads the links anyway. How solves use
// them.
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;

namespace {

using Checksums = std::array<uint64_t, NormalOperator::most_checksums>;

void flip(Device &device, const void *at, int bit) {
    unsigned char *const byte = const_cast<unsigned char *>(static_cast<const unsigned char *>(at)) + bit / 8;
    unsigned char value;
    device.copy_to_host(&value, byte, 1);
    value ^= static_cast<unsigned char>(1u << bit % 8);
    device.copy_to_device(byte, &value, 1);
}

// Links on a device, and their checksums by a residual and by a separate pass.
struct Looked {
    Device device;
    Geometry geometry;
    SiteMap map;
    ResidentLinks links;
    double norm_error = 0; // of the last residual with checksums, relative to the residual without

    template <class Real>
    Looked(Backend backend, const Geometry &on, Real)
        : device(backend, 0), geometry(on), links(device, map, geometry, host_real<Real>()) {
        update<Real>();
    }
    template <class Real> static Precision host_real() {
        return sizeof(Real) == 8 ? Precision::double_ : Precision::single;
    }
    template <class Real> void update() {
        const auto &n = geometry.lattice().extent;
        const reference::Lattice lattice{{n[0], n[1], n[2], n[3]}};
        auto fat = reference::links_to_milc<Real>(lattice, random_links(lattice, 1)),
             lng = reference::links_to_milc<Real>(lattice, random_links(lattice, 2));
        links.update({fat.data(), host_real<Real>(), 72 * sizeof(Real)},
                     {lng.data(), host_real<Real>(), 72 * sizeof(Real)});
    }
    StaggeredOperator full(int parity) const {
        return {geometry, parity, {Precision::double_, links.host_real(), 18}, links.full()};
    }
    // By the residual on `parity`.
    Checksums seen(int parity) {
        const StaggeredOperator A = full(parity);
        REQUIRE(A.takes_checksums());
        const SpinorField x = A.vectors(device, "test"), r = A.vectors(device, "test"),
                          between = A.between(device, "test");
        const std::vector<double> ones(x.bytes() / sizeof(double), 1.0);
        device.copy_to_device(x.data(), ones.data(), x.bytes());
        const DeviceArray<double> norms(device, 2, "test");
        const DeviceArray<uint64_t> sums(device, NormalOperator::most_checksums, "test");
        residual(device, A, 0.3, {x, x, between, r}, norms.data());
        for (int times = 0; times < 2; ++times) // the second residual overwrites the sums of the first
            residual(device, A, 0.3, {x, x, between, r}, norms.data() + 1, sums.data());
        const std::vector<double> norm = norms.to_host();
        norm_error = std::fabs(norm[1] / norm[0] - 1);
        const std::vector<uint64_t> host = sums.to_host();
        return {host[0], host[1]};
    }
    Checksums expected() const { return {links.full().fat->checksum, links.full().lng->checksum}; }
    Checksums of_a_pass() {
        const auto of = [&](const LinkField &field) { return checksum(device, field.block(0, 0), field.bytes()); };
        return {of(*links.full().fat), of(*links.full().lng)};
    }
};

// Both parities, one thread a site and four.
template <class Check> void each_way(Looked &looked, const Check &check) {
    for (const int parts_below : both_ways)
        for (int parity = 0; parity < 2; ++parity) {
            looked.device.set_parts_below(parts_below);
            CAPTURE(name(looked.device.backend()), name(looked.links.host_real()), parity, parts_below);
            check(parity);
        }
}

template <class Check> void each_precision(const Geometry &geometry, const Check &check) {
    for (const Backend backend : backends()) {
        Looked in_double(backend, geometry, double()), in_single(backend, geometry, float());
        check(in_double);
        check(in_single);
    }
}

} // namespace

TEST_CASE("a residual computes the checksums that a separate pass computes", "[checksums][faults][sanitize]") {
    for (const Geometry &geometry :
         {Geometry({4, 6, 2, 10}), Geometry({6, 6, 6, 6}), Geometry({2, 2, 2, 2}), Geometry({2, 4, 6, 4})})
        each_precision(geometry, [&](Looked &looked) {
            CAPTURE(geometry.volume(), geometry.stride());
            CHECK(looked.of_a_pass() == looked.expected());
            each_way(looked, [&](int parity) {
                CHECK(looked.seen(parity) == looked.expected());
                CHECK(looked.norm_error <= 1e-14);
            });
        });
}

TEST_CASE("a residual and a pass see each bit that flips in a link, and in which field it is", "[checksums][faults]") {
    each_precision(Geometry({2, 4, 6, 4}), [](Looked &looked) {
        reference::Rng rng(5);
        const int halves = static_cast<int>(link_bytes(looked.links.host_real(), 18)) / 8; // of 16 bytes
        const bool striped = looked.device.on_gpu() || MILCGPU_STRIPES;
        each_way(looked, [&](int parity) {
            for (const int field : {0, 1})
                for (int block = 0; block < 8; ++block) {
                    const LinkField &links = field == 0 ? *looked.links.full().fat : *looked.links.full().lng;
                    const size_t site = rng() % looked.geometry.sites(0),
                                 half = block == 0 ? halves - 1 : rng() % halves;
                    const size_t row = half / 2 * 2 * links.stride(); // of a stripe; the rest of a link: 8 bytes a site
                    const bool rest = halves % 2 == 1 && half == static_cast<size_t>(halves - 1);
                    const size_t at = !striped ? site * halves + half : row + (rest ? site : 2 * site + half % 2);
                    const int bit = static_cast<int>(rng() % 64);
                    CAPTURE(field, block, site, half, bit);
                    flip(looked.device, links.block(block / 4, block % 4) + 8 * at, bit);
                    for (const Checksums &now : {looked.seen(parity), looked.of_a_pass()}) {
                        CHECK(now[field] != looked.expected()[field]);
                        CHECK(now[1 - field] == looked.expected()[1 - field]);
                    }
                    flip(looked.device, links.block(block / 4, block % 4) + 8 * at, bit);
                }
            CHECK(looked.seen(parity) == looked.expected());
        });
    });
}

TEST_CASE("padding behind the last link is in no checksum, and a reload of links clears the padding", "[checksums]") {
    each_precision(Geometry({2, 4, 6, 4}), [](Looked &looked) {
        const LinkField &fat = *looked.links.full().fat;
        const unsigned char *const end = fat.block(0, 0) + fat.block_bytes(); // the last 16 bytes are padding
        each_way(looked, [&](int parity) {
            flip(looked.device, end - 16, 77);
            CHECK(looked.seen(parity) == looked.expected());
            looked.links.host_real() == Precision::double_ ? looked.update<double>() : looked.update<float>();
            CHECK(looked.seen(parity) == looked.expected());
            CHECK(looked.of_a_pass() == looked.expected());
        });
    });
}

TEST_CASE("a kernel takes checksums only if it reads each link once, and only in the second half",
          "[checksums][smoke]") {
    Looked looked(Backend::host, Geometry({4, 4, 4, 4}), double());
    const OperatorSpec in_double{Precision::double_, Precision::double_, 18};
    const Geometry &geometry = looked.geometry;
    CHECK(looked.full(0).takes_checksums());
    const LinkPair packed = looked.links.version(Precision::single, 18);
    CHECK(!StaggeredOperator(geometry, 0, {Precision::double_, Precision::single, 18}, packed).takes_checksums());
    CHECK(!StaggeredOperator(geometry, 0, {Precision::single, Precision::single, 18}, packed).takes_checksums());
    // On a cut lattice a launch reads some links twice and others not at all; a separate pass reads all.
    Looked cut(Backend::host, Geometry({4, 4, 2, 6}, {0, 0, 0, 6}, {4, 4, 2, 12}, 3), double());
    CHECK(!cut.full(0).takes_checksums());
    CHECK(cut.of_a_pass() == cut.expected());
    const StaggeredOperator A(geometry, 0, in_double, looked.links.full());
    const SpinorField in = A.vectors(looked.device, "test"), out = A.between(looked.device, "test");
    const DeviceArray<uint64_t> sums(looked.device, NormalOperator::most_checksums, "test");
    HalfCall call;
    call.in = in, call.out = out, call.checksums = sums.data();
    CHECK(has(refusal_by(Status::bad_argument, [&] { A.apply_half(looked.device, call, Epilogue::plain); }),
              "checksums"));
}

namespace {

// Edits words in memory, and counts the edits that the checksum and the check words of ghosts do not see.
struct SumOfWords {
    std::vector<uint32_t> words;
    long edits = 0, unseen = 0, unseen_by_check_word = 0;
    explicit SumOfWords(std::vector<uint32_t> of) : words(std::move(of)) {}
    uint64_t weight(size_t piece) const { return weigh<4>(&words[4 * piece], static_cast<uint32_t>(piece)); }
    template <class Edit> void edited(std::vector<size_t> at, const Edit &edit) {
        for (size_t &piece : at)
            piece /= 4;
        std::sort(at.begin(), at.end());
        at.erase(std::unique(at.begin(), at.end()), at.end());
        constexpr size_t ghost = 12; // words
        uint64_t before = 0, after = 0;
        const uint64_t ghost_before = check_word<ghost>(words.data(), 7);
        const std::vector<uint32_t> first(words.begin(), words.begin() + ghost);
        for (const size_t piece : at)
            before += weight(piece);
        const bool changed = edit();
        for (const size_t piece : at)
            after += weight(piece);
        edits += changed;
        unseen += changed && before == after;
        unseen_by_check_word += !std::equal(first.begin(), first.end(), words.begin()) &&
                                check_word<ghost>(words.data(), 7) == ghost_before;
        edit(); // back
    }
    void turn_signs(const std::vector<size_t> &of) {
        edited(of, [&] {
            for (const size_t k : of)
                words[k] ^= 0x80000000u;
            return true;
        });
    }
    void swap(size_t a, size_t b, size_t count) {
        std::vector<size_t> at;
        for (size_t k = 0; k < count; ++k)
            at.push_back(a + k), at.push_back(b + k);
        edited(at, [&] {
            const bool differ = !std::equal(&words[a], &words[a] + count, &words[b]);
            std::swap_ranges(&words[a], &words[a] + count, &words[b]);
            return differ;
        });
    }
};

} // namespace

TEST_CASE("no simple edit of a field with few bits leaves its checksum as it is", "[checksums]") {
    reference::Rng rng(6);
    const int n = 40000;
    long edits = 0;
    for (const int bytes : {8, 4}) // of a real
        for (const bool z2 : {true, false}) {
            const size_t step = bytes / 4, reals = 6 * 2000;
            std::vector<uint32_t> words(step * reals, 0);
            for (size_t k = 0; k < reals; ++k) // +-1, or 1 and 0
                words[step * k + step - 1] = z2 || k % 4 == 0 ? (bytes == 8 ? 0x3FF00000u : 0x3F800000u) : 0;
            for (size_t k = 0; z2 && k < reals; ++k)
                words[step * k + step - 1] ^= rng() % 2 == 0 ? 0x80000000u : 0;
            SumOfWords sum(words);
            const auto sign = [&](size_t real) { return step * (real % reals) + step - 1; };
            const auto any = [&](size_t below) { return static_cast<size_t>(rng() % below); };
            for (int k = 0; k < n; ++k) {
                const size_t a = any(reals), gap = 1 + any(k % 2 == 0 ? 12 : reals / 16), far = 1 + any(reals / 4 - 1);
                sum.turn_signs({sign(a), sign(a + far)});
                sum.turn_signs({sign(a), sign(a + gap), sign(a + 2 * gap), sign(a + 3 * gap)}); // sums of two are equal
                sum.turn_signs({sign(a), sign(a + gap), sign(a + 8 * gap), sign(a + 9 * gap)});
                const size_t site = any(reals / 6), other = any(reals / 6), complex = 2 * any(reals / 2 - 1);
                sum.swap(step * 6 * site, step * 6 * other, site == other ? 0 : step * 6);
                sum.swap(step * complex, step * (complex + 1), step);
                sum.swap(step * complex, step * (complex + 2), 2 * step);
                const size_t in_ghost = any(12);
                sum.turn_signs({in_ghost, (in_ghost + 1) % 12, (in_ghost + 5) % 12, (in_ghost + 6) % 12});
            }
            CHECK(sum.unseen == 0);
            CHECK(sum.unseen_by_check_word == 0);
            edits += sum.edits;
        }
    CHECK(edits > 900000);
}

// The content decides whether packed links are made again.
TEST_CASE("the content of links on the device changes with each simple edit", "[checksums]") {
    const auto check = [](auto real, Backend backend) {
        using Real = decltype(real);
        Looked looked(backend, Geometry({2, 2, 2, 4}), real);
        const Precision precision = looked.template host_real<Real>();
        std::vector<Real> fat(72 * 32), lng(72 * 32, 0);
        for (size_t k = 0; k < fat.size(); ++k) // unit links, and signs
            fat[k] = k % 18 % 8 == 0 ? (k / 18 % 5 == 0 ? -1 : 1) : 0;
        const auto update = [&] {
            return looked.links.update({fat.data(), precision, 72 * sizeof(Real)},
                                       {lng.data(), precision, 72 * sizeof(Real)});
        };
        REQUIRE(update());
        CHECK_FALSE(update());
        reference::Rng rng(14);
        for (int k = 0; k < 300; ++k) {
            const std::vector<Real> before = fat;
            const auto link = [&](size_t number) { return 18 * (number % 128); };
            const auto negate = [&](size_t number) {
                for (size_t j = link(number); j < link(number) + 18; ++j)
                    fat[j] = -fat[j];
            };
            const size_t a = rng() % 128, gap = 1 + rng() % 31;
            if (k % 4 == 0)
                negate(a), negate(a + gap), negate(a + 2 * gap), negate(a + 3 * gap);
            else if (k % 4 == 1)
                negate(a), negate(a + gap);
            else if (k % 4 == 2)
                std::swap_ranges(&fat[link(a)], &fat[link(a)] + 18, &fat[link(a + gap)]);
            else
                fat.swap(lng);
            CHECK(update() == (k % 4 == 3 || fat != before));
            if (k % 4 == 3)
                fat.swap(lng);
            fat = before;
            update();
        }
    };
    for (const Backend backend : backends()) {
        check(double(), backend);
        check(float(), backend);
    }
}

namespace {

// Flips a bit of the caller's links at a step of a solve.
struct FlipAtStep {
    Device &device;
    const unsigned char *at;
    bool done = false;
    static void progress(void *user, int step, double) {
        FlipAtStep &flip_it = *static_cast<FlipAtStep *>(user);
        if (step >= 4 && !std::exchange(flip_it.done, true))
            flip(flip_it.device, flip_it.at, 40); // of the mantissa: 1e-4 of the real; the solve converges
    }
};

template <class Real> struct Solving {
    reference::Lattice lattice{{4, 4, 2, 4}};
    AsqtadLinks links = asqtad_links(lattice, 94);
    Session<Real> session;
    std::vector<Real> source, x;
    explicit Solving(Backend backend) : session(lattice, backend, 0, 0) {
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        source = reference::vector_to_milc<Real>(lattice, random_fermion(lattice, 95));
        x.resize(source.size());
    }
    milcgpu_status solve(milcgpu_solve_spec spec) {
        const milcgpu_field from = session.field(source), to = session.field(x);
        return milcgpu_staggered_solve(session.links, &spec, &from, &to, nullptr);
    }
    const LinkField &field(bool fat) const {
        const LinkPair full = session.links->links->full();
        return fat ? *full.fat : *full.lng;
    }
    // The checksums that the last residual of the solve took; zeros if it took none.
    Checksums taken() const {
        const std::vector<uint64_t> all = session.context->checksums.to_host();
        const size_t first = Verification(*session.context, emptying(*session.links)).checksums_of_links() -
                             session.context->checksums.data();
        return {all[first], all[first + 1]};
    }
    Checksums expected() const { return {field(true).checksum, field(false).checksum}; }
};

} // namespace

TEST_CASE("the last residual of a solve takes the checksums of the links as handed over", "[checksums][cg]") {
    constexpr int precisions[][2] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE},
                                     {MILCGPU_DOUBLE, MILCGPU_HALF},
                                     {MILCGPU_SINGLE, MILCGPU_SINGLE},
                                     {MILCGPU_HALF, MILCGPU_HALF}};
    const auto check = [&](auto real, Backend backend) {
        using Real = decltype(real);
        for (const auto &p : precisions)
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                Solving<Real> s(backend);
                milcgpu_solve_spec spec = solve_spec(0.5, p[0] == MILCGPU_DOUBLE ? 1e-9 : 1e-2, p[0], p[1]);
                spec.parity = parity;
                CAPTURE(name(backend), sizeof(Real), p[0], p[1], parity);
                REQUIRE(s.solve(spec) == MILCGPU_OK);
                CHECK(s.taken() == s.expected());
                const Checksums none{};
                // If the guess is right, or the source is zero, a separate pass takes the checksums.
                spec.tolerance *= 2;
                if (sizeof(Real) == 8 && p[0] == MILCGPU_DOUBLE) {
                    REQUIRE(s.solve(spec) == MILCGPU_OK);
                    CHECK(s.taken() == none);
                    flip(*s.session.context->device, s.field(true).block(0, 0), 0);
                    CHECK(s.solve(spec) == MILCGPU_CORRUPTED);
                }
                s.source.assign(s.source.size(), 0);
                REQUIRE(s.session.load(s.links.fat, s.links.lng) == MILCGPU_OK);
                CHECK(s.solve(spec) == MILCGPU_OK);
                CHECK(s.taken() == none);
            }
    };
    for (const Backend backend : backends()) {
        check(double(), backend);
        check(float(), backend);
    }
}

TEST_CASE("a solve names the links that changed while it ran, fat or long, of either parity", "[checksums][faults]") {
    const auto check = [](auto real, Backend backend) {
        Solving<decltype(real)> s(backend);
        for (const bool fat : {true, false})
            for (const int block : {0, 7})
                for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                    REQUIRE(s.session.load(s.links.fat, s.links.lng) == MILCGPU_OK);
                    s.x.assign(s.x.size(), 0);
                    FlipAtStep flip_it{*s.session.context->device, s.field(fat).block(block / 4, block % 4)};
                    milcgpu_solve_spec spec = solve_spec(0.3, 1e-6, MILCGPU_DOUBLE, MILCGPU_SINGLE);
                    spec.parity = parity;
                    spec.progress = FlipAtStep::progress, spec.user = &flip_it;
                    CAPTURE(name(backend), sizeof real, fat, block, parity);
                    CHECK(s.solve(spec) == MILCGPU_CORRUPTED);
                    CHECK(flip_it.done);
                    CHECK(last_error_says(fat ? "fat links" : "long links"));
                    CHECK_FALSE(last_error_says(fat ? "long links" : "fat links"));
                    const Checksums taken = s.taken(), expected = s.expected();
                    CHECK(taken[!fat] != expected[!fat]);
                    CHECK(taken[fat] == expected[fat]);
                }
    };
    for (const Backend backend : backends()) {
        check(double(), backend);
        check(float(), backend);
    }
}
