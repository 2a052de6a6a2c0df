// Eigenvectors in MILC's files: the library writes the bytes that it read, also on ranks, and refuses damaged files.
#include "examples/lib/mode_line.h"
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/solve/eigen_file.h"
#include "milc_glue/solve/eigen_handle.h"
#include "tests/cut_support.h"
#include "tests/handles.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <cstring>
#include <fstream>
#include <sys/stat.h>

using namespace tests;
using milcgpu::Backend;

namespace {

const char *const written_at = "Thu Nov 26 06:46:05 2026";
constexpr int vectors = 5;

using Handle = EigenvectorsHandle;

template <class Value> void append(std::string &to, const Value &value) {
    to.append(reinterpret_cast<const char *>(&value), sizeof value);
}

// A file by MILC's description, of vectors on all sites in MILC's order.
template <class Real>
std::string milc_file(const std::array<int, 4> &extents, int parity, const std::vector<double> &l,
                      const std::vector<std::vector<float>> &fields) {
    std::string file;
    for (const int n : extents)
        append(file, std::int32_t(n));
    std::string time = written_at;
    time.resize(64);
    file += time;
    for (const int number : {0, parity, int(l.size())})
        append(file, std::int32_t(number));
    for (const double value : l)
        append(file, value);
    const size_t begin = file.size();
    for (const std::vector<float> &field : fields) {
        const size_t half = field.size() / 2, first = parity == MILCGPU_EVEN ? 0 : half;
        for (size_t k = first; k < first + half; ++k)
            append(file, Real(field[k]));
    }
    std::uint32_t sums[2] = {0, 0};
    for (size_t at = begin, place = 0; at < file.size(); at += 4, ++place) {
        std::uint64_t word = 0;
        std::memcpy(&word, &file[at], 4);
        word |= word << 32;
        sums[0] ^= std::uint32_t(word >> (32 - place % 29)), sums[1] ^= std::uint32_t(word >> (32 - place % 31));
    }
    append(file, sums);
    return file;
}

void write_bytes(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Links, their eigenvectors, and files.
struct Made {
    Session<double> session;
    Handle own;
    std::vector<double> l;
    std::vector<std::vector<float>> fields;
    Folder folder;
    std::string path = (folder.path / "vectors").string(), again = (folder.path / "again").string();

    explicit Made(Backend backend, int parity = MILCGPU_EVEN, const reference::Lattice &lattice = {{4, 4, 4, 4}})
        : session(lattice, backend), l(vectors),
          fields(vectors, std::vector<float>(6 * static_cast<size_t>(lattice.volume()))) {
        const AsqtadLinks links = asqtad_links(lattice, 5);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        auto spec = filled(milcgpu_eigen_defaults);
        spec.count = vectors, spec.parity = parity, spec.precision = MILCGPU_SINGLE;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &own.of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_values(*own, l.data(), nullptr) == MILCGPU_OK);
        for (int k = 0; k < vectors; ++k) {
            const milcgpu_field to = {fields[k].data(), MILCGPU_SINGLE, 0};
            REQUIRE(milcgpu_eigenvectors_save(*own, k, &to) == MILCGPU_OK);
        }
    }
    milcgpu_status read(Handle &to, int precision, int most = 0, const char *from = nullptr) {
        return milcgpu_eigenvectors_read(session.links, from != nullptr ? from : path.c_str(), precision, most, &to.of);
    }
};

} // namespace

TEST_CASE("eigenvectors of a file of MILC's are written again with the same bytes", "[eigen][sanitize]") {
    for (const Backend backend : backends())
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            Made made(backend, parity);
            CAPTURE(milcgpu::name(backend), parity, milcgpu_last_error());
            const auto &n = made.session.lattice.n;
            const std::string single = milc_file<float>(n, parity, made.l, made.fields),
                              in_double = milc_file<double>(n, parity, made.l, made.fields);
            for (const int real : {MILCGPU_SINGLE, MILCGPU_DOUBLE}) {
                const std::string &file = real == MILCGPU_SINGLE ? single : in_double;
                // The library writes the file of the description.
                REQUIRE(milcgpu_eigenvectors_write(*made.own, made.path.c_str(), real, written_at) == MILCGPU_OK);
                CHECK(text_of(made.path) == file);
                Handle read;
                REQUIRE(made.read(read, MILCGPU_SINGLE) == MILCGPU_OK);
                REQUIRE(milcgpu_eigenvectors_count(*read) == vectors);
                std::vector<double> values(vectors), residuals(vectors);
                REQUIRE(milcgpu_eigenvectors_values(*read, values.data(), residuals.data()) == MILCGPU_OK);
                CHECK(values == made.l);
                CHECK(residuals[0] < 0.1);
                REQUIRE(milcgpu_eigenvectors_write(*read, made.again.c_str(), real, written_at) == MILCGPU_OK);
                CHECK(text_of(made.again) == file);
            }
            // A file written from half precision is read into half precision without loss.
            Handle half, of_half, few;
            REQUIRE(made.read(half, 0) == MILCGPU_OK);
            REQUIRE(milcgpu_eigenvectors_write(*half, made.path.c_str(), MILCGPU_SINGLE, written_at) == MILCGPU_OK);
            const std::string file = text_of(made.path);
            CHECK(file.size() == single.size());
            CHECK(file != single);
            REQUIRE(made.read(of_half, MILCGPU_HALF) == MILCGPU_OK);
            REQUIRE(milcgpu_eigenvectors_write(*of_half, made.again.c_str(), MILCGPU_SINGLE, written_at) == MILCGPU_OK);
            CHECK(text_of(made.again) == file);
            REQUIRE(made.read(few, 0, 2) == MILCGPU_OK);
            CHECK(milcgpu_eigenvectors_count(*few) == 2);
            // Without a time, the file gets the current time.
            REQUIRE(milcgpu_eigenvectors_write(*few, made.again.c_str(), MILCGPU_SINGLE, nullptr) == MILCGPU_OK);
            CHECK(has(text_of(made.again).substr(16, 64), " UTC"));
            // Solves use them.
            auto spec = solve_spec(0.01, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            spec.parity = parity, spec.eigenvectors = *half;
            auto b = reference::vector_to_milc<double>(made.session.lattice, random_fermion(made.session.lattice, 3));
            std::vector<double> x(b.size());
            const milcgpu_field from = made.session.field(b), to = made.session.field(x);
            auto report = sized<milcgpu_solve_report>();
            CHECK(milcgpu_staggered_solve(made.session.links, &spec, &from, &to, &report) == MILCGPU_OK);
            CHECK(report.deflations > 1);
            CHECK(report.deflation_off == 0);
        }
}

TEST_CASE("if a file of eigenvectors has wrong l, they are computed again", "[eigen]") {
    Made made(Backend::host);
    CAPTURE(milcgpu_last_error());
    const std::vector<double> wrong(vectors, 1e9);
    write_bytes(made.path, milc_file<float>(made.session.lattice.n, MILCGPU_EVEN, wrong, made.fields));
    Handle read;
    REQUIRE(made.read(read, MILCGPU_SINGLE, 1) == MILCGPU_OK);
    double l;
    REQUIRE(milcgpu_eigenvectors_values(*read, &l, nullptr) == MILCGPU_OK);
    CHECK(l == Approx(made.l[0]).epsilon(1e-9));
}

TEST_CASE("the lowest eigenvectors of a file are read in any order of the file; they must be independent", "[eigen]") {
    for (const Backend backend : backends()) {
        Made made(backend);
        const auto &n = made.session.lattice.n;
        std::vector<double> l = made.l, first(2);
        auto fields = made.fields;
        CAPTURE(milcgpu::name(backend), milcgpu_last_error());
        for (const std::vector<int> &order : {std::vector<int>{4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}}) {
            for (int k = 0; k < vectors; ++k)
                l[k] = made.l[order[k]], fields[k] = made.fields[order[k]];
            write_bytes(made.path, milc_file<float>(n, MILCGPU_EVEN, l, fields));
            Handle all, two;
            REQUIRE(made.read(all, MILCGPU_SINGLE) == MILCGPU_OK);
            REQUIRE(milcgpu_eigenvectors_write(*all, made.again.c_str(), MILCGPU_SINGLE, written_at) == MILCGPU_OK);
            CHECK(text_of(made.again) == milc_file<float>(n, MILCGPU_EVEN, made.l, made.fields));
            REQUIRE(made.read(two, MILCGPU_SINGLE, 2) == MILCGPU_OK);
            REQUIRE(milcgpu_eigenvectors_count(*two) == 2);
            REQUIRE(milcgpu_eigenvectors_values(*two, first.data(), nullptr) == MILCGPU_OK);
            CHECK(first == std::vector<double>{made.l[0], made.l[1]});
            std::vector<float> lowest(fields[0].size());
            const milcgpu_field to = {lowest.data(), MILCGPU_SINGLE, 0};
            REQUIRE(milcgpu_eigenvectors_save(*two, 1, &to) == MILCGPU_OK);
            CHECK(lowest == made.fields[1]);
        }
        // One vector twice, and one that is the sum of two.
        for (const bool sum : {false, true}) {
            l = made.l, fields = made.fields;
            for (size_t k = 0; k < fields[3].size(); ++k)
                fields[3][k] = sum ? (fields[1][k] + fields[2][k]) / std::sqrt(2.0f) : fields[1][k];
            l[3] = sum ? (l[1] + l[2]) / 2 : l[1];
            write_bytes(made.path, milc_file<float>(n, MILCGPU_EVEN, l, fields));
            Handle read;
            CHECK(made.read(read, 0) == MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "orthogonal"));
            CHECK(has(milcgpu_last_error(), made.path));
        }
    }
}

TEST_CASE("damaged files of eigenvectors are refused with the byte and the reason", "[eigen]") {
    Made made(Backend::host);
    const auto &n = made.session.lattice.n;
    const std::string whole = milc_file<float>(n, MILCGPU_EVEN, made.l, made.fields);
    const size_t values = 92, first = values + 8 * vectors, vector_bytes = 128 * 24;
    const auto refused = [&](const std::string &file, const char *words, int status = MILCGPU_BAD_ARGUMENT) {
        write_bytes(made.path, file);
        Handle read;
        read.of = *made.own; // becomes NULL
        const int got = made.read(read, 0);
        CAPTURE(words, milcgpu_last_error());
        CHECK(got == status);
        CHECK(*read == nullptr);
        CHECK(has(milcgpu_last_error(), words));
        CHECK(has(milcgpu_last_error(), made.path));
    };
    const auto with = [&](size_t at, auto value) {
        std::string file = whole;
        std::memcpy(&file[at], &value, sizeof value);
        return file;
    };
    refused("", "byte 0: ");
    refused(whole.substr(0, 91), "byte 91: ");
    refused(with(8, 6), "4 x 4 x 6 x 4");
    refused(std::string("\0\0\0\4\0\0\0\4\0\0\0\4\0\0\0\4", 16) + whole.substr(16), "the other byte order");
    refused(with(80, 1), "byte 80: ");
    refused(with(84, 3), "byte 84: ");
    refused(with(84, 7), "parity is 7");
    refused(with(88, 0), "byte 88: there are 0");
    refused(with(88, vectors + 1), "18580 bytes, or 37012");
    refused(with(88, 5000000), "5000000 vectors");
    refused(std::string("\x45\x67\x89\xab\0\1", 6) + whole.substr(6), "QIO");
    refused(whole.substr(0, whole.size() - 1), "truncated");
    refused(whole + "x", "truncated");
    refused(with(values + 8, double(NAN)), "byte 100: l of vector 1", MILCGPU_NAN_OR_INF);
    refused(with(first + 2 * vector_bytes + 12, INFINITY), "byte 6288: vector 2", MILCGPU_NAN_OR_INF);
    refused(with(first + vector_bytes + 1, char(whole[first + vector_bytes + 1] ^ 4)), "byte 132: the vectors have");
    refused(with(whole.size() - 8, 5), "says 5 ");
    std::string zero = whole;
    zero.replace(first, vector_bytes, vector_bytes, '\0');
    refused(zero, "byte 132: vector 0");
    auto fields = made.fields;
    for (float &number : fields[3])
        number = 1; // no eigenvector
    refused(milc_file<float>(n, MILCGPU_EVEN, made.l, fields), "vector 3");
    for (const std::string &name : {made.folder.path.string(), made.path + "/no"}) {
        Handle read;
        CHECK(made.read(read, 0, 0, name.c_str()) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), name + " "));
    }
    write_bytes(made.path, whole);
    Handle read;
    CHECK(made.read(read, 4) == MILCGPU_BAD_ARGUMENT);
    CHECK(has(milcgpu_last_error(), "precision"));
    CHECK(made.read(read, 0, -1) == MILCGPU_BAD_ARGUMENT);
    // Other links.
    const AsqtadLinks other = asqtad_links(made.session.lattice, 6);
    REQUIRE(made.session.load(other.fat, other.lng) == MILCGPU_OK);
    refused(whole, "vector 0");
}

TEST_CASE("if a file of eigenvectors cannot be written, the older file stays", "[eigen]") {
    Made made(Backend::host);
    write_bytes(made.path, "old");
    const auto refused = [&](milcgpu_eigenvectors *of, const std::string &path, int precision, const char *words) {
        CHECK(milcgpu_eigenvectors_write(of, path.c_str(), precision, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), words));
    };
    refused(*made.own, made.path, MILCGPU_HALF, "precision");
    const std::string pipe = made.path + ".pipe"; // without a reader
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    for (const std::string &path : {made.path + "/no", made.folder.path.string(), std::string("/dev/full"), pipe})
        refused(*made.own, path, MILCGPU_SINGLE, (path + " cannot be written: ").c_str());
    std::filesystem::remove(pipe);
    Handle empty;
    REQUIRE(milcgpu_eigenvectors_create(made.session.links, MILCGPU_EVEN, 0, 2, &empty.of) == MILCGPU_OK);
    refused(*empty, made.path, MILCGPU_SINGLE, "empty");
    milcgpu::Device &device = *made.session.context->device;
    unsigned char byte;
    device.copy_to_host(&byte, (*made.own.of->set)[1].data, 1);
    byte ^= 1;
    device.copy_to_device((*made.own.of->set)[1].data, &byte, 1);
    CHECK(milcgpu_eigenvectors_write(*made.own, made.path.c_str(), MILCGPU_SINGLE, nullptr) == MILCGPU_CORRUPTED);
    CHECK(text_of(made.path) == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(made.folder.path), {}) == 1);
}

TEST_CASE("files of eigenvectors do not depend on ranks and on the order of sites", "[eigen]") {
    const Extents whole = {4, 4, 6, 8};
    Fields fields = fields_on(whole, false);
    for (const Backend backend : backends())
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            Made made(backend, parity, {whole});
            CAPTURE(milcgpu::name(backend), parity, milcgpu_last_error());
            REQUIRE(milcgpu_eigenvectors_write(*made.own, made.path.c_str(), MILCGPU_DOUBLE, written_at) == MILCGPU_OK);
            const std::string file = text_of(made.path), damaged = made.path + ".damaged";
            write_bytes(damaged, file.substr(0, file.size() - 1));
            const Cut cut = parity == MILCGPU_EVEN ? Cut{whole, {1, 1, 1, 2}, 0, 1} : Cut{whole, {1, 1, 2, 2}, 0};
            std::vector<std::string> words(cut.ranks());
            const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
                Handle read;
                demand(milcgpu_eigenvectors_read(here.links, made.path.c_str(), MILCGPU_SINGLE, 0, &read.of));
                demand(milcgpu_eigenvectors_write(*read, made.again.c_str(), MILCGPU_DOUBLE, written_at));
                milcgpu_eigenvectors *none = *read;
                if (milcgpu_eigenvectors_read(here.links, damaged.c_str(), 0, 0, &none) == MILCGPU_BAD_ARGUMENT &&
                    none == nullptr)
                    words[here.rank()] = milcgpu_last_error();
            });
            CAPTURE(text_of(cut));
            CHECK(all_well(endings));
            CHECK(text_of(made.again) == file);
            for (const std::string &said : words)
                CHECK(has(said, "truncated"));
            // Sites of each parity in reverse order.
            const int half = 384;
            std::vector<int> map(2 * half);
            for (int k = 0; k < half; ++k)
                map[k] = half - 1 - k, map[half + k] = 2 * half - 1 - k;
            milcgpu_layout layout = layout_of(made.session.lattice);
            layout.site_map = map.data();
            const Context context(layout, backend);
            const auto turned = [&](const std::vector<double> &field, size_t reals) {
                std::vector<double> to(field.size());
                for (size_t k = 0; k < map.size(); ++k)
                    std::copy_n(field.begin() + k * reals, reals, to.begin() + map[k] * reals);
                return to;
            };
            std::vector<double> fat = turned(fields.fat, 72), lng = turned(fields.lng, 72);
            const milcgpu_field f = field_of(fat), g = field_of(lng);
            const LinksHandle links(context, &f, &g);
            {
                Handle read;
                REQUIRE(milcgpu_eigenvectors_read(links, made.path.c_str(), MILCGPU_SINGLE, 0, &read.of) == MILCGPU_OK);
                REQUIRE(milcgpu_eigenvectors_write(*read, made.again.c_str(), MILCGPU_DOUBLE, written_at) ==
                        MILCGPU_OK);
                CHECK(text_of(made.again) == file);
            }
        }
}

TEST_CASE("the checksums of a file do not depend on how it is split into pieces", "[eigen]") {
    std::vector<std::uint32_t> words(200000);
    reference::Rng rng(8);
    std::uint32_t expected[2] = {0, 0};
    for (size_t k = 0; k < words.size(); ++k) {
        words[k] = static_cast<std::uint32_t>(reference::uniform(rng) * 4294967296.0);
        const std::uint64_t twice = std::uint64_t(words[k]) << 32 | words[k];
        expected[0] ^= std::uint32_t(twice >> (32 - k % 29)), expected[1] ^= std::uint32_t(twice >> (32 - k % 31));
    }
    for (const size_t most : {size_t(200000), size_t(70001), size_t(899), size_t(17)}) {
        milcgpu::RotatedSums sums;
        for (size_t at = 0; at < words.size(); at += most)
            sums.add(&words[at], 4 * std::min(most, words.size() - at));
        CAPTURE(most);
        CHECK(sums.sum29() == expected[0]);
        CHECK(sums.sum31() == expected[1]);
    }
}

TEST_CASE("the number of modes below lambda as a straight line", "[eigen]") {
    std::vector<double> lambda;
    for (int k = 0; k < 20; ++k)
        lambda.push_back((k + 3.5) / 10); // 3 more below the first one
    const examples::ModeLine line = examples::mode_line(lambda);
    CHECK(line.slope == Approx(10));
    CHECK(line.offset == Approx(-3));
}
