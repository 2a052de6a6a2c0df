// Gauge and vector files: what is written can be read, and what is damaged is refused with a reason.
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "examples/lattice_file.h"
#include "tests/reference/gauge.h"
#include "tests/reference/su3.h"
#include "tests/support.h"

using namespace reference;
using tests::has;

namespace {

const Lattice lattice{{2, 4, 6, 4}};
constexpr std::size_t header_bytes = 96;

// A file in the temporary folder that goes when the test does.
class TemporaryFile {
  public:
    TemporaryFile() {
        const char *folder = std::getenv("TMPDIR");
        name_ = std::string(folder ? folder : "/tmp") + "/milcgpu_test_XXXXXX";
        const int descriptor = mkstemp(&name_[0]);
        if (descriptor < 0)
            throw std::runtime_error("no temporary file: " + name_);
        close(descriptor);
    }
    ~TemporaryFile() { std::remove(name_.c_str()); }
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;

    const std::string &name() const { return name_; }

    std::string bytes() const {
        std::ifstream file(name_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    void set(const std::string &bytes) const { std::ofstream(name_, std::ios::binary | std::ios::trunc) << bytes; }

  private:
    std::string name_;
};

// The message of the exception that reading throws; empty where it throws none.
template <class Read> std::string refusal(const Read &read, const std::string &path) {
    try {
        read(path);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

std::string milc_refusal(const TemporaryFile &file) { return refusal(examples::read_milc_gauge, file.name()); }

// Each word of 32 bits turned round, except the text of the time stamp.
std::string other_byte_order(std::string bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 4)
        if (at < 20 || at >= 84) {
            std::swap(bytes[at], bytes[at + 3]);
            std::swap(bytes[at + 1], bytes[at + 2]);
        }
    return bytes;
}

void check_milc_sample(const std::string &name, const Lattice &expected) {
    const auto file = examples::read_milc_gauge(sample_file(name));
    INFO(name);
    CHECK(file.lattice.n == expected.n);
    double worst = 0;
    for (const auto &link : file.links) {
        const double off = frobenius_norm(link * adjoint(link) - identity());
        worst = off <= worst || worst != worst ? worst : off; // NaN stays
    }
    CHECK(worst < 1e-5);
}

} // namespace

TEST_CASE("version 5: round trip in both byte orders", "[lattice_file][smoke][sanitize]") {
    const TemporaryFile file;
    const Gauge links = random_gauge(lattice, 5);
    examples::write_milc_gauge(file.name(), lattice, links, "Thu Jan 01 00:00:00 1970 UTC");
    const std::string bytes = file.bytes();
    CHECK(bytes.size() == header_bytes + 288 * std::size_t(lattice.volume()));

    const auto check = [&](const examples::GaugeFile &read) {
        CHECK(read.lattice.n == lattice.n);
        CHECK(read.time_stamp == "Thu Jan 01 00:00:00 1970 UTC");
        CHECK(links_to_milc<float>(lattice, read.links) == links_to_milc<float>(lattice, links));
    };
    check(examples::read_milc_gauge(file.name()));
    check(examples::read_gauge(file.name()));
    file.set(other_byte_order(bytes));
    check(examples::read_milc_gauge(file.name()));

    examples::write_milc_gauge(file.name(), lattice, links, std::string(200, 'x'));
    CHECK(examples::read_milc_gauge(file.name()).time_stamp == std::string(63, 'x'));
}

TEST_CASE("version 5: damaged files are refused with the reason", "[lattice_file][smoke][sanitize]") {
    const TemporaryFile file;
    examples::write_milc_gauge(file.name(), lattice, random_gauge(lattice, 6));
    const std::string good = file.bytes();
    const auto refused_with = [&](std::string bytes, const std::string &reason) {
        file.set(bytes);
        const std::string message = milc_refusal(file);
        INFO("'" << message << "'");
        CHECK(has(message, reason));
        CHECK(has(message, file.name()));
    };
    std::string bad = good;
    bad[header_bytes + 1000] = char(bad[header_bytes + 1000] ^ 4);
    refused_with(bad, "checksum");
    bad = good;
    bad[90] = char(bad[90] ^ 1);
    refused_with(bad, "checksum");
    // Two words exchanged: a plain sum would not notice.
    bad = good;
    for (int i = 0; i < 4; i++)
        std::swap(bad[header_bytes + i], bad[header_bytes + 400 + i]);
    refused_with(bad, "checksum");

    refused_with(good.substr(0, good.size() - 1), "truncated");
    refused_with(good + "abcd", "damaged");
    refused_with(good.substr(0, 50), "header");
    refused_with("", "header");
    bad = good;
    bad[0] = 1;
    refused_with(bad, "not a MILC version-5");
    bad = good;
    bad[84] = 1;
    refused_with(bad, "coordinate table");
    bad = good;
    bad.replace(4, 4, 4, '\0');
    refused_with(bad, "extent 0");
    bad = good;
    bad.replace(4, 4, 4, '\xff');
    refused_with(bad, "extent");
}

TEST_CASE("links that are not in SU(3) are named by site and direction", "[lattice_file][smoke]") {
    examples::GaugeFile file{lattice, random_gauge(lattice, 7), ""};
    Matrix &link = file.links[4 * lattice.site({1, 2, 5, 3}) + 1];
    const Matrix good = link;
    const auto refused = [&] {
        const std::string why = refusal([&](const std::string &path) { examples::check_unitary(path, file); }, "lat");
        INFO(why);
        return has(why, "lat: the link at x y z t = 1 2 5 3 in direction y is not in SU(3)") &&
               has(why, "1 of 768 links");
    };
    for (const Complex factor : {Complex(1 + 1e-5), Complex(1)}) {
        link = factor * good;
        CHECK(!refused());
    }
    for (const Complex factor : {Complex(5), Complex(1.001), Complex(-1), Complex(0, 1), Complex(0), Complex(NAN)}) {
        link = factor * good; // -1: a staggered phase
        CHECK(refused());
    }
}

TEST_CASE("files that cannot be opened or written are named", "[lattice_file][smoke]") {
    const std::string nowhere = "/nonexistent/milcgpu/lattice";
    CHECK(has(refusal(examples::read_milc_gauge, nowhere), nowhere));
    CHECK(has(refusal(examples::read_scidac_gauge, nowhere), nowhere));
    CHECK(has(refusal(examples::read_gauge, nowhere), nowhere));
    const auto write = [&](const std::string &path) { examples::write_milc_gauge(path, lattice, unit_gauge(lattice)); };
    CHECK(has(refusal(write, nowhere), "cannot be written"));
    const auto mismatch = [&](const std::string &path) { examples::write_milc_gauge(path, lattice, Gauge(3)); };
    CHECK(has(refusal(mismatch, nowhere), "3 links"));
    CHECK(has(refusal(examples::read_gauge, "/tmp"), "/tmp"));
}

TEST_CASE("MILC's samples of version 5", "[lattice_file][samples]") {
    NEED_SAMPLE("lat.sample.l8888");
    NEED_SAMPLE("lat.sample.l6666.hisq");
    NEED_SAMPLE("lat.sample.l4444");
    check_milc_sample("lat.sample.l8888", {{8, 8, 8, 8}});
    check_milc_sample("lat.sample.l6666.hisq", {{6, 6, 6, 6}});
    check_milc_sample("lat.sample.l4444", {{4, 4, 4, 4}});
    // MILC prints these two for this file.
    const auto file = examples::read_gauge(sample_file("lat.sample.l8888"));
    const PlaquetteParts parts = plaquette_parts(file.lattice, file.links);
    CHECK(3 * parts.space_space == Approx(1.779002).margin(1e-6));
    CHECK(3 * parts.space_time == Approx(1.782359).margin(1e-6));
}

TEST_CASE("a version-5 file is MILC's own, byte for byte", "[lattice_file][samples]") {
    NEED_SAMPLE("lat.sample.l4444");
    const auto file = examples::read_milc_gauge(sample_file("lat.sample.l4444"));
    const TemporaryFile copy;
    examples::write_milc_gauge(copy.name(), file.lattice, file.links, file.time_stamp);
    std::ifstream original(sample_file("lat.sample.l4444"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(original), std::istreambuf_iterator<char>()};
    // MILC leaves what follows the end of the time stamp as it was in memory.
    const std::string written = copy.bytes();
    CHECK(written.size() == bytes.size());
    CHECK(written.substr(0, 20) == bytes.substr(0, 20));
    CHECK(written.substr(84) == bytes.substr(84));
}

TEST_CASE("SciDAC: MILC's samples, and damaged copies of one", "[lattice_file][samples]") {
    const char *name = "ksvector.src.sample.l8";
    NEED_SAMPLE(name);
    NEED_SAMPLE("lat.sample.l8");
    CHECK(examples::read_gauge(sample_file("lat.sample.l8")).links.size() == 4 * 4096);
    CHECK(examples::read_scidac_fermion(sample_file(name)).vectors.size() == 4096);

    std::ifstream original(sample_file(name), std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(original), std::istreambuf_iterator<char>()};
    const TemporaryFile file;
    const auto refused_with = [&](const std::string &bytes, const std::string &reason) {
        file.set(bytes);
        const std::string message = refusal(examples::read_scidac_fermion, file.name());
        INFO("'" << message << "'");
        CHECK(has(message, reason));
    };
    std::string bad = good;
    bad[50000] = char(bad[50000] ^ 1);
    refused_with(bad, "checksum");
    refused_with(good.substr(0, 50000), "truncated");
    refused_with(good.substr(0, 200), "truncated");
    bad = good;
    bad[0] = 'X';
    refused_with(bad, "no LIME record");
    refused_with("", "no record");
    bad = good;
    bad.replace(bad.find("<dims>8 8 8 8"), 13, "<dims>8 8 8 4");
    refused_with(bad, "data record");
    file.set(good);
    CHECK(has(refusal(examples::read_scidac_gauge, file.name()), "reader of the file's own kind"));
}
