// Gauge and vector files: written files can be read, and damaged files are refused with a reason.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "examples/lib/lattice_file.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/lime.h"
#include "tests/ranks_support.h"
#include "tests/reference/gauge.h"
#include "tests/reference/su3.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include "tests/support.h"

using namespace reference;
using tests::has;

namespace {

const Lattice lattice{{2, 4, 6, 4}};
constexpr std::size_t header_bytes = 96;

// A file that is removed when the test ends.
class TemporaryFile {
  public:
    TemporaryFile() { set(""); }
    const std::string &name() const { return name_; }
    std::string bytes() const { return tests::text_of(name_); }
    void set(const std::string &bytes) const { std::ofstream(name_, std::ios::binary) << bytes; }

  private:
    tests::Folder folder_;
    std::string name_ = folder_.path / "file";
};

// The message of the exception that read(path) throws; empty if it throws none.
template <class Read> std::string refusal(const Read &read, const std::string &path) {
    return tests::thrown_by([&] { read(path); });
}

std::string milc_refusal(const TemporaryFile &file) { return refusal(examples::read_gauge, file.name()); }

// The file in the other byte order: words of 32 bits, except the text of the time stamp.
std::string other_byte_order(std::string bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 4)
        if (at < 20 || at >= 84) {
            std::swap(bytes[at], bytes[at + 3]);
            std::swap(bytes[at + 1], bytes[at + 2]);
        }
    return bytes;
}

void check_milc_sample(const std::string &name, const Lattice &expected) {
    const auto file = examples::read_gauge(sample_file(name));
    INFO(name);
    CHECK(file.lattice.n == expected.n);
    double worst = 0;
    for (const auto &link : file.links) {
        const double off = frobenius_norm(link * adjoint(link) - identity());
        worst = off <= worst || worst != worst ? worst : off; // NaN stays
    }
    CHECK(worst < 1e-5);
}

// A file of version 5 by MILC's description, word by word.
std::string file_by_hand(const Lattice &of, const Gauge &links, const std::string &time) {
    std::string data;
    std::uint32_t sums[2] = {0, 0};
    const auto put = [](std::string &to, std::uint32_t word) { to.append(reinterpret_cast<const char *>(&word), 4); };
    std::size_t place = 0;
    for (const auto &link : links)
        for (const auto &row : link.e)
            for (const auto &e : row)
                for (const float part : {float(e.real()), float(e.imag())}) {
                    std::uint32_t word;
                    std::memcpy(&word, &part, 4);
                    put(data, word);
                    for (int k = 0; k < 2; ++k) {
                        const unsigned turn = unsigned(place % (k == 0 ? 29 : 31));
                        sums[k] ^= turn == 0 ? word : word << turn | word >> (32 - turn);
                    }
                    ++place;
                }
    std::string head;
    put(head, 20103);
    for (const int extent : of.n)
        put(head, std::uint32_t(extent));
    head += time + std::string(64 - time.size(), '\0');
    put(head, 0), put(head, sums[0]), put(head, sums[1]);
    return head + data;
}

// A NERSC archive, line by line. Numbers are in `order` (BIG or LITTLE), which the header may omit.
struct Nersc {
    int rows = 3, real_bytes = 4;
    std::string order = "BIG", floating = "";
    double plaquette = NAN;
    std::string time = "now";

    template <class Real> std::string data(const Gauge &links, std::uint32_t &sum) const {
        std::string data;
        for (const auto &link : links)
            for (int row = 0; row < rows; ++row)
                for (const auto &e : link.e[row])
                    for (const Real part : {Real(e.real()), Real(e.imag())}) {
                        char bytes[sizeof part];
                        std::memcpy(bytes, &part, sizeof part);
                        for (std::size_t k = 0; k < sizeof part; k += 4) {
                            std::uint32_t word;
                            std::memcpy(&word, bytes + k, 4);
                            sum += word;
                        }
                        if (order == "BIG")
                            std::reverse(bytes, bytes + sizeof part);
                        data.append(bytes, sizeof part);
                    }
        return data;
    }
    std::string file(const Lattice &of, const Gauge &links) const {
        std::uint32_t sum = 0;
        const std::string all = real_bytes == 8 ? data<double>(links, sum) : data<float>(links, sum);
        std::ostringstream head;
        head << "BEGIN_HEADER\nHDR_VERSION = 1.0\nDATATYPE = 4D_SU3_GAUGE" << (rows == 3 ? "_3x3" : "")
             << "\nSTORAGE_FORMAT=1.0\n";
        for (int mu = 0; mu < 4; ++mu)
            head << "DIMENSION_" << mu + 1 << " =  " << of.n[mu] << " \nBOUNDARY_" << mu + 1 << " = PERIODIC\n";
        head.precision(12);
        if (!std::isnan(plaquette))
            head << "PLAQUETTE = " << plaquette << "\n";
        head << "CHECKSUM = " << std::hex << sum << "\nCREATION_DATE = " << time
             << "\nFLOATING_POINT = " << (floating != "" ? floating : (real_bytes == 8 ? "IEEE64" : "IEEE32") + order)
             << "\nEND_HEADER\n";
        return head.str() + all;
    }
};
double plaquette_of(const Lattice &of, const Gauge &links) {
    const PlaquetteParts parts = plaquette_parts(of, links);
    return (parts.space_space + parts.space_time) / 2;
}

// Shares have several pages and pieces even on the smallest lattices.
constexpr milcgpu::SiteRecords::Grain fine{512, 3000, true}, own{512, 3000, false};

struct Cut {
    std::array<int, 4> whole, grid;
    int ranks() const { return grid[0] * grid[1] * grid[2] * grid[3]; }
    milcgpu::Box box(int rank) const { return milcgpu::box_of(tests::layout_on_grid(whole, grid, rank), rank); }
};
const Cut cuts[] = {{{4, 4, 4, 8}, {1, 1, 1, 1}},
                    {{4, 4, 4, 8}, {1, 1, 1, 2}},
                    {{6, 4, 4, 8}, {2, 1, 1, 2}},
                    {{4, 4, 6, 8}, {1, 2, 2, 2}}};

template <class Real> std::vector<Real> box_of_links(const Lattice &of, const Gauge &links, const milcgpu_layout &box) {
    const std::vector<Real> whole = links_to_milc<Real>(of, links);
    std::vector<Real> part;
    for (const std::size_t place : examples::places_of(box))
        part.insert(part.end(), whole.begin() + 72 * place, whole.begin() + 72 * (place + 1));
    return part;
}

} // namespace

TEST_CASE("files of ranks have the bytes that one rank writes, and each rank reads its box",
          "[lattice_file][ranks][smoke][sanitize]") {
    using milcgpu::Readers;
    const TemporaryFile file;
    const std::string time = "Thu Jan 01 00:00:00 1970 UTC";
    for (const Cut &cut : cuts)
        for (const auto &how : {std::pair(Readers::everyone, fine), std::pair(Readers::everyone, own),
                                std::pair(Readers::able, fine), std::pair(Readers::first, fine)}) {
            const Readers who = how.first;
            const milcgpu::SiteRecords::Grain &grain = how.second;
            INFO(cut.ranks() << " ranks, readers " << int(who) << ", by shares " << grain.by_shares);
            const Lattice of{cut.whole};
            const Gauge links = random_gauge(of, 8);
            const std::string expected = file_by_hand(of, links, time);
            file.set("");
            CHECK(tests::all_well(tests::on_ranks(cut.ranks(), [&](milcgpu::Ranks &ranks) {
                const milcgpu_layout layout = tests::layout_on_grid(cut.whole, cut.grid, ranks.rank());
                std::vector<double> part = box_of_links<double>(of, links, layout);
                milcgpu::write_gauge(ranks, cut.box(ranks.rank()), file.name(), {part.data(), true, 576},
                                     {milcgpu::FileKind::milc, time}, who, grain);
            })));
            CHECK(file.bytes() == expected);
            for (const std::string &bytes : {expected, other_byte_order(expected)}) {
                file.set(bytes);
                std::vector<int> wrong(std::size_t(cut.ranks()), 1);
                const auto endings = tests::on_ranks(cut.ranks(), [&](milcgpu::Ranks &ranks) {
                    const milcgpu_layout layout = tests::layout_on_grid(cut.whole, cut.grid, ranks.rank());
                    const auto head = milcgpu::common_head(ranks, file.name(), cut.whole, 72);
                    std::vector<float> part(72 * examples::places_of(layout).size());
                    // If a rank does not see the file, the other ranks read it.
                    const bool blind = who == Readers::able && ranks.rank() == 1;
                    const auto sums =
                        milcgpu::read_sites(ranks, cut.box(ranks.rank()), blind ? "/nowhere" : file.name(), head,
                                            {part.data(), false, 288}, who, grain);
                    wrong[std::size_t(ranks.rank())] =
                        part != box_of_links<float>(of, links, layout) || !(sums == head.sums);
                });
                CHECK(tests::all_well(endings));
                CHECK(std::count(wrong.begin(), wrong.end(), 1) == 0);
            }
        }
}

TEST_CASE("SciDAC and ILDG files of ranks have the bytes that one rank writes", "[lattice_file][ranks][sanitize]") {
    using milcgpu::Readers;
    const TemporaryFile file;
    std::vector<milcgpu::GaugeForm> forms;
    for (const int real_bytes : {4, 8}) {
        forms.push_back(
            {milcgpu::FileKind::scidac, "Thu Jan  1 00:00:00 1970 UTC", real_bytes, "<a/>", "<title>b</title>"});
        forms.push_back(forms.back());
        forms.back().lfn = "lfn://here/c";
    }
    const std::array<int, 4> whole = {6, 4, 4, 8};
    const Lattice of{whole};
    const Gauge links = random_gauge(of, 11);
    for (const milcgpu::GaugeForm &form : forms) {
        std::string of_one;
        for (const Cut &cut : {Cut{whole, {1, 1, 1, 1}}, Cut{whole, {2, 1, 1, 2}}})
            for (const auto &how : {std::pair(Readers::everyone, fine), std::pair(Readers::everyone, own),
                                    std::pair(Readers::first, fine)}) {
                INFO(form.real_bytes << " bytes, " << cut.ranks() << " ranks, readers " << int(how.first));
                file.set("");
                std::vector<int> wrong(std::size_t(cut.ranks()), 1);
                CHECK(tests::all_well(tests::on_ranks(cut.ranks(), [&](milcgpu::Ranks &ranks) {
                    const milcgpu::Box box = cut.box(ranks.rank());
                    const milcgpu_layout layout = tests::layout_on_grid(cut.whole, cut.grid, ranks.rank());
                    std::vector<double> part = box_of_links<double>(of, links, layout);
                    const auto written = milcgpu::write_gauge(ranks, box, file.name(), {part.data(), true, 576}, form,
                                                              how.first, how.second);
                    const auto head = milcgpu::common_head(ranks, file.name(), whole, 72);
                    std::vector<double> read(part.size());
                    const auto sums = milcgpu::read_sites(ranks, box, file.name(), head, {read.data(), true, 576},
                                                          how.first, how.second);
                    if (form.real_bytes == 4)
                        for (double &x : part)
                            x = float(x);
                    wrong[std::size_t(ranks.rank())] = read != part || !(sums == head.sums) ||
                                                       !(sums == written.sums) || head.data != written.data ||
                                                       head.real_bytes != form.real_bytes;
                })));
                CHECK(std::count(wrong.begin(), wrong.end(), 1) == 0);
                of_one = of_one.empty() ? file.bytes() : of_one;
                CHECK(file.bytes() == of_one);
                CHECK(milcgpu::texts_of(file.name()).about == "<a/>");
                CHECK(milcgpu::texts_of(file.name()).record == "<title>b</title>");
                CHECK(has(of_one, "lfn://here/c") == form.lfn.has_value());
            }
    }
}

TEST_CASE("SciDAC and ILDG files of other programs are read as QIO reads them", "[lattice_file][smoke][sanitize]") {
    using milcgpu::lime_header;
    const TemporaryFile file;
    const Gauge links = random_gauge(lattice, 11);
    std::vector<double> reals = links_to_milc<double>(lattice, links);
    milcgpu::Ranks one;
    const milcgpu::Box box{lattice.n, lattice.n, {}, {}, 0};
    const auto written = milcgpu::write_gauge(one, box, file.name(), {reals.data(), true, 576},
                                              {milcgpu::FileKind::scidac, "now", 8, "<a/>", "<b/>"});
    const std::string data = file.bytes().substr(written.data, reals.size() * 8);
    const auto record = [](const char *type, std::string text, milcgpu::LimePlace place) {
        const std::string head = lime_header(type, text.size(), place);
        text.resize((text.size() + 7) / 8 * 8);
        return head + text;
    };
    const auto ildg = [&](const std::string &open = "<ildgFormat>", const std::string &n = "> 2 </lx>") {
        return record("ildg-format",
                      "<?xml version=\"1.0\"?><!-- <lx>8</lx> -->" + open +
                          "<version> 1.0 </version><precision>\n64\t" + "</precision><lx" + n +
                          "<ly>4</ly> <lz>6</lz><lt> 4</lt></ildgFormat>",
                      {true, false});
    };
    const auto field = [&](bool last) { return record("ildg-binary-data", data, {false, last}); };
    const auto sum = [&](unsigned a, bool first) {
        return record("scidac-checksum",
                      milcgpu::format("<c><suma> %x </suma><sumb>%x</sumb></c>", a, written.sums.second),
                      {first, true});
    };
    const unsigned right = written.sums.first;
    const auto scidac = [&](const std::string &size, const std::string &text, const std::string &of_ildg = "") {
        return record("scidac-private-file-xml", "<f><dims> 2 4 6 4 </dims><volfmt> 0 </volfmt></f>", {true, false}) +
               record("scidac-file-xml", text, {false, true}) +
               record("scidac-private-record-xml", "<r><precision> D </precision>" + size + "</r>", {true, false}) +
               of_ildg + record("scidac-binary-data", data, {false, false});
    };
    const std::string plain = ildg() + field(true), size = "<typesize> 144 </typesize><datacount> 4 </datacount>",
                      other = record("ildg-format", "<precision>32</precision>", {true, false});
    const auto reads = [&](const std::string &bytes, bool has_sums) {
        file.set(bytes);
        std::string said = refusal(examples::read_gauge, file.name());
        if (said.empty() && links_to_milc<double>(lattice, examples::read_gauge(file.name()).links) != reals)
            said = "other links";
        if (said.empty() && (milcgpu::head_of(file.name()).has_sums != 0) != has_sums)
            said = "sums";
        return said;
    };
    CHECK(reads(plain, false) == "");
    CHECK(reads(ildg("<i:ildgFormat xmlns:i=\"a>b\">", " unit=\"1\">2</lx>") + field(true), false) == "");
    CHECK(reads(ildg("<e/><f></f>", "\n>2</lx>") + field(false) + sum(right, false), true) == "");
    CHECK(reads(ildg() + field(true) + sum(right, true), true) == "");       // in a message of its own
    CHECK(reads(plain + other + field(false) + sum(1, false), false) == ""); // of the next field
    CHECK(reads(record("x", "y", {true, true}) + plain, false) == "");
    CHECK(reads(scidac(size, "<x/>") + sum(right, false), true) == "");
    CHECK(reads(scidac("<datacount>1</datacount><typesize>576</typesize>", "<x/>") + sum(right, false), true) == "");
    CHECK(reads(scidac(size, std::string(3 << 20, 'x')) + sum(right, false), true) == "");
    CHECK(milcgpu::texts_of(file.name()).about.size() == 3 << 20);
    // Records that contradict each other.
    const std::string both = scidac(size, "<x/>", ildg());
    CHECK(reads(both + sum(right, false), true) == "");
    for (const auto &[from, to, what] :
         {std::tuple("> 2 </lx>", "> 8 </lx>", "<lx> of the record ildg-format is '8', "),
          {" 4</lt>", " 6</lt>", "<lt> of the record ildg-format is '6', "},
          {"\n64\t", "\n32\t", "<precision> of the record ildg-format is '32', "}}) {
        std::string other_size = both;
        other_size.replace(other_size.find(from), std::strlen(from), to);
        CHECK(has(reads(other_size + sum(right, false), true), what));
    }
    for (const std::string &between : {field(false), field(true), record("scidac-binary-data", data, {true, true}),
                                       ildg(), record("scidac-record-xml", "<a/>", {false, false})})
        CHECK(has(reads(ildg() + field(false) + between + sum(right, false), true), "before their "));
    CHECK(has(reads(plain + field(false) + sum(right, false), true), "before their "));
    for (const std::string &tail : {std::string(512, '\0'), std::string("more"), sum(right, false).substr(0, 100),
                                    lime_header("x", 1 << 20, {true, false})}) {
        CHECK(reads(ildg() + field(false) + sum(right, false) + tail, true) == "");
        CHECK(reads(plain + tail, false) == "");
        CHECK(has(reads(ildg() + field(false) + tail, false), file.name() + ", byte ")); // the message goes on
    }
    CHECK(has(reads(ildg() + field(false) + sum(1, false), true), "says 1 "));
    CHECK(has(reads(plain + sum(1, true), true), "says 1 "));
    CHECK(has(reads(plain + sum(1, true).substr(0, 150), true), "past the end"));
    CHECK(has(reads(ildg("<ildgFormat>", "></lx>") + field(true), false), "<lx>"));
    CHECK(has(reads(ildg("<ildgFormat>", "/>") + field(true), false), "<lx>"));
}

TEST_CASE("a file with a wrong header or wrong links is refused on all ranks, with the byte",
          "[lattice_file][ranks][smoke][sanitize]") {
    const TemporaryFile file;
    const Cut &cut = cuts[2];
    const Lattice of{cut.whole};
    const std::string good = file_by_hand(of, random_gauge(of, 9), "now");
    const auto refused = [&](const std::string &bytes, const std::string &text, int blind = -1) {
        file.set(bytes);
        return tests::all_ended(
            tests::on_ranks(
                cut.ranks(),
                [&](milcgpu::Ranks &ranks) {
                    const milcgpu::Box box = cut.box(ranks.rank());
                    std::vector<float> part(72 * std::size_t(box.sites()));
                    const auto head = milcgpu::common_head(ranks, file.name(), box.whole, 72);
                    const std::string name = ranks.rank() == blind ? "/nowhere" : file.name();
                    const auto sums = milcgpu::read_sites(ranks, box, name, head, {part.data(), false, 288});
                    milcgpu::require_sums(name, head, sums);
                }),
            milcgpu::Status::bad_argument, text);
    };
    const std::string name = file.name();
    CHECK(refused(good.substr(0, 5000), "rank 0 of 4: " + name + ", byte 5000: the file should have 221280 "));
    std::string bad = good;
    bad[16] = 4;
    CHECK(refused(bad, "byte 4: "));
    CHECK_FALSE(refused(good + "more", "")); // bytes behind the links are not read
    bad = file_by_hand({{4, 6, 4, 8}}, random_gauge({{4, 6, 4, 8}}, 9), "now");
    CHECK(refused(bad, name + ", byte 4: the file is of a lattice of 4 x 6 x 4 x 8"));
    bad = good;
    bad[3000] = char(bad[3000] ^ 1);
    CHECK(refused(bad, name + ", byte 96: checksum "));
    bad = good;
    bad[0] = 1;
    CHECK(refused(bad, name + ", byte 0: "));
    // If a file becomes shorter, sites that cannot be read are 0, not a copy of earlier sites.
    milcgpu::Ranks one;
    const milcgpu::Box whole{cut.whole, cut.whole, {}, {}, 0};
    for (const auto &grain : {own, fine, milcgpu::SiteRecords::usual}) {
        file.set(good);
        const auto head = milcgpu::head_of(file.name());
        file.set(good.substr(0, good.size() / 2));
        std::vector<float> links(72 * std::size_t(of.volume()), 7),
            right = links_to_milc<float>(of, random_gauge(of, 9));
        CHECK(has(refusal(
                      [&](const std::string &path) {
                          milcgpu::read_sites(one, whole, path, head, {links.data(), false, 288},
                                              milcgpu::Readers::everyone, grain);
                      },
                      file.name()),
                  "the file ends"));
        std::size_t read = 0, zero = 0;
        for (std::size_t k = 0; k < links.size(); k += 72) {
            read += std::equal(&links[k], &links[k] + 72, &right[k]);
            zero += std::all_of(&links[k], &links[k] + 72, [](float x) { return x == 0; });
        }
        CHECK(read + zero == links.size() / 72);
        CHECK(zero >= links.size() / 144);
    }
    CHECK(refused(good, "rank 2 of 4: /nowhere cannot be opened", 2));
}

TEST_CASE("gauge files by the C interface, with sites in another order and a pitch", "[lattice_file][smoke]") {
    const TemporaryFile file;
    const Lattice of{{4, 4, 4, 8}};
    const Gauge links = random_gauge(of, 10);
    file.set(file_by_hand(of, links, "then"));
    const std::string good = file.bytes();
    auto layout = tests::sized<milcgpu_layout>();
    std::copy(of.n.begin(), of.n.end(), layout.extent);
    std::vector<int> map(std::size_t(of.volume()));
    for (int k = 0; k < of.volume(); ++k)
        map[std::size_t(k)] = of.volume() - 1 - k;
    layout.site_map = map.data();
    auto about = tests::sized<milcgpu_gauge_file>();
    CHECK(milcgpu_gauge_file_look(file.name().c_str(), &about) == MILCGPU_OK);
    CHECK(about.format == MILCGPU_FILE_MILC);
    CHECK(std::equal(of.n.begin(), of.n.end(), about.extent));
    CHECK(about.precision == MILCGPU_SINGLE);
    CHECK(about.has_checksums == 1);
    CHECK(std::memcmp(about.checksums, &good[88], 8) == 0);
    CHECK(std::string(about.time) == "then");
    for (const milcgpu::Backend backend : tests::backends()) {
        const tests::Context context(layout, backend);
        constexpr std::size_t pitch = 80; // doubles
        std::vector<double> sites(pitch * std::size_t(of.volume()), 7);
        const milcgpu_field field{sites.data(), MILCGPU_DOUBLE, pitch * sizeof(double)};
        CHECK(milcgpu_gauge_file_read(context, file.name().c_str(), &field, nullptr) == MILCGPU_OK);
        const std::vector<float> expected = links_to_milc<float>(of, links);
        bool right = true;
        for (std::size_t k = 0; k < map.size(); ++k)
            for (std::size_t i = 0; i < pitch; ++i)
                right = right && sites[pitch * std::size_t(map[k]) + i] == (i < 72 ? expected[72 * k + i] : 7);
        CHECK(right);
        const TemporaryFile copy;
        auto written = tests::sized<milcgpu_gauge_file>();
        CHECK(milcgpu_gauge_file_write(context, copy.name().c_str(), &field, "then", &written) == MILCGPU_OK);
        CHECK(copy.bytes() == good);
        CHECK(std::memcmp(&about, &written, sizeof about) == 0);
        copy.set(good.substr(0, good.size() - 4));
        CHECK(milcgpu_gauge_file_read(context, copy.name().c_str(), &field, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), copy.name() + ", byte "));
        CHECK(milcgpu_gauge_file_write(context, "/nowhere/lattice", &field, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "/nowhere/lattice cannot be written"));
        // If a number does not fit single precision, the older file stays.
        double &one = sites[pitch * std::size_t(map[1]) + 5]; // of the second even site
        for (const double lost : {double(NAN), 1e39}) {
            one = lost;
            copy.set("older");
            CHECK(milcgpu_gauge_file_write(context, copy.name().c_str(), &field, nullptr, nullptr) ==
                  MILCGPU_NAN_OR_INF);
            CHECK(has(milcgpu_last_error(), copy.name() + " is not written: the links of x y z t = 2 0 0 0"));
            CHECK(copy.bytes() == "older");
        }
        const std::string pipe = copy.name() + ".pipe"; // without a reader
        REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
        CHECK(milcgpu_gauge_file_write(context, pipe.c_str(), &field, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), pipe + " cannot be written"));
        auto seen = tests::sized<milcgpu_gauge_file>();
        CHECK(milcgpu_gauge_file_look(pipe.c_str(), &seen) == MILCGPU_BAD_ARGUMENT); // does not wait for a writer
        std::remove(pipe.c_str());
    }
}

TEST_CASE("NERSC archives are read in both byte orders and precisions, with two rows or three, by all ranks",
          "[lattice_file][ranks][smoke][sanitize]") {
    const TemporaryFile file;
    for (const Cut &cut : cuts) {
        const Lattice of{cut.whole};
        const Gauge links = random_gauge(of, 12);
        for (const Nersc &form : {Nersc{}, Nersc{2, 4, "LITTLE"}, Nersc{3, 8, "LITTLE"}, Nersc{2, 8},
                                  Nersc{3, 4, "BIG", "IEEE32"}, Nersc{2, 4, "LITTLE", "IEEE32"}}) {
            CAPTURE(cut.ranks(), form.rows, form.real_bytes, form.order, form.floating);
            file.set(form.file(of, links));
            std::vector<double> worst(std::size_t(cut.ranks()), INFINITY);
            CHECK(tests::all_well(tests::on_ranks(cut.ranks(), [&](milcgpu::Ranks &ranks) {
                const milcgpu_layout layout = tests::layout_on_grid(cut.whole, cut.grid, ranks.rank());
                const auto head = milcgpu::common_head(ranks, file.name(), cut.whole, 72);
                std::vector<double> part(72 * examples::places_of(layout).size());
                milcgpu::require_sums(file.name(), head,
                                      milcgpu::read_sites(ranks, cut.box(ranks.rank()), file.name(), head,
                                                          {part.data(), true, 576}, milcgpu::Readers::everyone, fine));
                const std::vector<double> right = box_of_links<double>(of, links, layout);
                double &most = worst[std::size_t(ranks.rank())] = 0;
                for (std::size_t k = 0; k < part.size(); ++k)
                    most = std::fmax(most, std::fabs(part[k] - right[k]));
            })));
            for (const double most : worst)
                CHECK(most < (form.real_bytes == 8 ? 1e-15 : 2e-7));
        }
    }
}

TEST_CASE("NERSC archives: the plaquette is compared, and written files can be read", "[lattice_file][smoke]") {
    const TemporaryFile file;
    const Gauge links = random_gauge(lattice, 13);
    const double plaquette = plaquette_of(lattice, links);
    for (const milcgpu::Backend backend : tests::backends()) {
        tests::Session<double> session(lattice, backend);
        std::vector<double> numbers = links_to_milc<double>(lattice, links), read(numbers.size());
        const milcgpu_field from = session.field(numbers), to = session.field(read);
        auto said = tests::sized<milcgpu_gauge_file>();
        const auto status = [&] { return milcgpu_gauge_file_read(session.context, file.name().c_str(), &to, &said); };
        Nersc by_hand{3, 8};
        for (const double off : {0.0, 0.9e-5, 1.2e-5, -1.0, 1e300}) {
            by_hand.plaquette = plaquette + off;
            file.set(by_hand.file(lattice, links));
            said.plaquette = 7;
            CHECK(status() == (std::fabs(off) < 1e-5 ? MILCGPU_OK : MILCGPU_BAD_ARGUMENT));
            CHECK(said.plaquette == (std::fabs(off) < 1e-5 ? Approx(by_hand.plaquette).epsilon(1e-11) : Approx(7)));
            CHECK(read == numbers);
        }
        CHECK(has(milcgpu_last_error(), "plaquette"));
        by_hand.plaquette = 0;
        Gauge with_nan = links;
        with_nan[7].e[1][1] = NAN;
        file.set(by_hand.file(lattice, with_nan));
        CHECK(status() == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "the plaquette of the links is nan"));
        by_hand.plaquette = NAN;
        file.set(by_hand.file(lattice, links));
        CHECK(status() == MILCGPU_OK);
        CHECK(std::isnan(said.plaquette));
        CHECK(said.format == MILCGPU_FILE_NERSC);
        CHECK(said.precision == MILCGPU_DOUBLE);

        auto spec = tests::filled(milcgpu_nersc_defaults);
        spec.ensemble_id = "l2464", spec.ensemble_label = "a = 0.12 fm", spec.sequence_number = 500;
        for (spec.rows = 0; spec.rows <= 3; spec.rows += spec.rows == 0 ? 2 : 1)
            for (const int precision : {MILCGPU_SINGLE, MILCGPU_DOUBLE}) {
                spec.precision = precision;
                CAPTURE(spec.rows, precision);
                auto written = tests::sized<milcgpu_gauge_file>();
                CHECK(milcgpu_gauge_file_write_nersc(session.context, file.name().c_str(), &from, &spec, &written) ==
                      MILCGPU_OK);
                CHECK(written.plaquette == Approx(plaquette).epsilon(1e-12));
                const std::string bytes = file.bytes();
                Nersc expected{spec.rows == 2 ? 2 : 3, precision == MILCGPU_DOUBLE ? 8 : 4};
                const std::string other = expected.file(lattice, links), end = "END_HEADER\n";
                CHECK(bytes.substr(bytes.find(end)) == other.substr(other.find(end)));
                double trace = 0;
                for (const Matrix &link : links)
                    for (int k = 0; k < 3; ++k)
                        trace += link.e[k][k].real() / 3 / double(links.size());
                const auto number = [&](const std::string &key) {
                    return std::stod(bytes.substr(bytes.find(key + " = ") + key.size() + 3));
                };
                CHECK(number("LINK_TRACE") == Approx(trace).margin(1e-9));
                CHECK(number("PLAQUETTE") == Approx(plaquette).epsilon(1e-11));
                CHECK(number("SEQUENCE_NUMBER") == 500);
                CHECK(has(bytes, "\nENSEMBLE_LABEL = a = 0.12 fm\n"));
                CHECK(has(bytes, "\nENSEMBLE_ID = l2464\n"));
                std::fill(read.begin(), read.end(), 7);
                CHECK(status() == MILCGPU_OK);
                CHECK(said.checksums[0] == written.checksums[0]);
                double most = 0;
                for (std::size_t k = 0; k < read.size(); ++k)
                    most = std::fmax(most, std::fabs(read[k] - numbers[k]));
                CHECK(most < (precision == MILCGPU_DOUBLE ? 1e-15 : 2e-7));
            }
        const std::string before = file.bytes();
        spec.rows = 3, spec.precision = MILCGPU_SINGLE, spec.ensemble_id = "two\nlines";
        CHECK(milcgpu_gauge_file_write_nersc(session.context, file.name().c_str(), &from, &spec, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "spec.ensemble_id"));
        const std::string long_text(101, 'x');
        spec.ensemble_id = nullptr, spec.ensemble_label = long_text.c_str();
        CHECK(milcgpu_gauge_file_write_nersc(session.context, file.name().c_str(), &from, &spec, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        spec.rows = 2, spec.ensemble_label = nullptr;
        for (const double factor : {-1.0, 1 / -1.001}) { // the phase of a staggered link; a link that is not unitary
            for (std::size_t k = 90; k < 108; ++k)
                numbers[k] *= factor;
            CHECK(milcgpu_gauge_file_write_nersc(session.context, file.name().c_str(), &from, &spec, nullptr) ==
                  MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "spec.rows is 2, but third rows of links differ from those in SU(3)"));
        }
        spec.rows = 3, numbers[100] = NAN;
        CHECK(milcgpu_gauge_file_write_nersc(session.context, file.name().c_str(), &from, &spec, nullptr) ==
              MILCGPU_NAN_OR_INF);
        CHECK(has(milcgpu_last_error(), "milcgpu_gauge_file_write_nersc: "));
        CHECK(!has(milcgpu_last_error(), "milcgpu_gauge_load"));
        CHECK(file.bytes() == before);
    }
}

TEST_CASE("NERSC archives: damaged files are refused with the reason", "[lattice_file][smoke][sanitize]") {
    const TemporaryFile file;
    const std::string good = Nersc{}.file(lattice, random_gauge(lattice, 14));
    file.set(good);
    CHECK(milc_refusal(file) == "");
    const auto refused = [&](const std::string &what, const std::string &with, const std::string &why) {
        std::string bad = good;
        bad.replace(bad.find(what), what.size(), with);
        file.set(bad);
        const std::string said = milc_refusal(file);
        INFO(with << ": " << said);
        CHECK(has(said, why));
        CHECK(has(said, file.name()));
    };
    refused("4D_SU3_GAUGE_3x3", "4D_SU2_GAUGE", "DATATYPE is '4D_SU2_GAUGE'");
    refused("IEEE32BIG", "IEEE16BIG", "FLOATING_POINT is 'IEEE16BIG'");
    refused("IEEE32BIG", "IEEE32MIDDLE", "FLOATING_POINT");
    refused("IEEE32BIG", "IEEE32LITTLE", "checksum");
    refused("IEEE32BIG", "IEEE64BIG", "the file should have");
    refused("DIMENSION_3", "DIMENSION_9", "DIMENSION_3");
    refused("DIMENSION_3 =  6", "DIMENSION_3 =  6x", "DIMENSION_3 is '6x'");
    refused("DIMENSION_3 =  6", "DIMENSION_3 =  0", "extent 0");
    refused("DIMENSION_3 =  6", "DIMENSION_3 = 99999999999999999999", "DIMENSION_3");
    refused("DIMENSION_3 =  6", "DIMENSION_3 = 8", "the file should have");
    refused("CHECKSUM = ", "CHECKSUM = 123", "CHECKSUM");
    refused("CHECKSUM = ", "CHECKSUM = z", "CHECKSUM");
    refused("CHECKSUM = ", "PLAQUETTE = nan\nCHECKSUM = ", "PLAQUETTE is 'nan', which is not a number");
    refused("CHECKSUM = ", "PLAQUETTE = inf\nCHECKSUM = ", "PLAQUETTE is 'inf', which is not a number");
    refused("CHECKSUM = ", "DIMENSION_3 = 4\nCHECKSUM = ", "DIMENSION_3 is '4' here, but '6' before");
    refused("END_HEADER\n", "END_HEADER\r\n", "end with carriage returns; a transfer as text has changed the file");
    refused("END_HEADER", "END_HEADRE", "END_HEADER");
    refused("BEGIN_HEADER", "BEGAN_HEADER", "version 5");
    file.set(good.substr(0, good.size() - 1));
    CHECK(has(milc_refusal(file), "truncated"));
    file.set(good.substr(0, 60));
    CHECK(has(milc_refusal(file), "END_HEADER"));
    file.set(good + "more");
    CHECK(milc_refusal(file) == "");
    std::string bad = good;
    bad[bad.size() - 300] = char(bad[bad.size() - 300] ^ 1);
    file.set(bad);
    CHECK(has(milc_refusal(file), "checksum"));
}

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
    check(examples::read_gauge(file.name()));
    file.set(other_byte_order(bytes));
    check(examples::read_gauge(file.name()));

    examples::write_milc_gauge(file.name(), lattice, links, std::string(200, 'x'));
    CHECK(examples::read_gauge(file.name()).time_stamp == std::string(63, 'x'));
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
    const auto with = [&](std::size_t at, const std::string &bytes) {
        return std::string(good).replace(at, bytes.size(), bytes);
    };
    refused_with(with(header_bytes + 1000, std::string(1, char(good[header_bytes + 1000] ^ 4))), "checksum");
    refused_with(with(90, std::string(1, char(good[90] ^ 1))), "checksum");
    // A plain sum would not notice that two words are exchanged.
    std::string bad = good;
    for (int i = 0; i < 4; i++)
        std::swap(bad[header_bytes + i], bad[header_bytes + 400 + i]);
    refused_with(bad, "checksum");

    refused_with(good.substr(0, good.size() - 1), "truncated");
    file.set(good + "abcd"); // bytes behind the links are not read
    CHECK(milc_refusal(file) == "");
    refused_with(good.substr(0, 50), "header");
    refused_with("", "header");
    refused_with(with(0, "\1"), "version 5");
    refused_with(with(84, "\1"), "coordinate table");
    refused_with(with(4, std::string(4, '\0')), "extent 0");
    refused_with(with(4, "\xff\xff\xff\xff"), "extent");
}

TEST_CASE("links that are not in SU(3) are named by site and direction", "[lattice_file][smoke]") {
    Gauge links = random_gauge(lattice, 7);
    Matrix &link = links[4 * lattice.site({1, 2, 5, 3}) + 1];
    const Matrix good = link;
    const auto refused = [&] {
        examples::UnitaryLinks unitary;
        for (std::size_t k = 0; k < links.size(); ++k)
            unitary.add(links[k], lattice.coordinates(int(k / 4)), int(k % 4));
        const std::string why = refusal([&](const std::string &path) { unitary.check(path); }, "lat");
        INFO(why);
        return has(why, "lat: the link at x y z t = 1 2 5 3 in direction y is not in SU(3)") &&
               has(why, "1 of 768 links");
    };
    for (const Complex factor : {Complex(1 + 1e-5), Complex(1)}) {
        link = factor * good;
        CHECK(!refused());
    }
    for (const Complex factor : {Complex(5), Complex(1.001), Complex(-1), Complex(0, 1), Complex(0), Complex(NAN)}) {
        link = factor * good; // -1: as by a staggered phase
        CHECK(refused());
    }
}

TEST_CASE("files that cannot be opened or written are named", "[lattice_file][smoke]") {
    const std::string nowhere = "/nonexistent/milcgpu/lattice";
    CHECK(has(refusal(examples::read_gauge, nowhere), nowhere));
    CHECK(has(refusal(examples::read_scidac_fermion, nowhere), nowhere));
    const auto write = [&](const std::string &path) { examples::write_milc_gauge(path, lattice, unit_gauge(lattice)); };
    CHECK(has(refusal(write, nowhere), "cannot be written"));
    CHECK(has(refusal(write, "/dev/null"), "cannot be written"));
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
    const auto file = examples::read_gauge(sample_file("lat.sample.l4444"));
    const TemporaryFile copy;
    examples::write_milc_gauge(copy.name(), file.lattice, file.links, file.time_stamp);
    // MILC leaves what follows the end of the time stamp as it was in memory.
    const std::string bytes = tests::text_of(sample_file("lat.sample.l4444")), written = copy.bytes();
    CHECK(written.size() == bytes.size());
    CHECK(written.substr(0, 20) == bytes.substr(0, 20));
    CHECK(written.substr(84) == bytes.substr(84));
}

TEST_CASE("a SciDAC file is QIO's own, byte for byte", "[lattice_file][samples]") {
    NEED_SAMPLE("lat.sample.l8");
    const auto file = examples::read_gauge(sample_file("lat.sample.l8"));
    std::vector<double> links = links_to_milc<double>(file.lattice, file.links);
    const auto texts = milcgpu::texts_of(sample_file("lat.sample.l8"));
    const TemporaryFile copy;
    milcgpu::Ranks one;
    milcgpu::write_gauge(one, {file.lattice.n, file.lattice.n, {}, {}, 0}, copy.name(), {links.data(), true, 576},
                         {milcgpu::FileKind::scidac, "Wed Feb 16 17:54:52 2005 UTC", 4, texts.about, texts.record});
    std::string bytes = tests::text_of(sample_file("lat.sample.l8"));
    // The sample is of 2005: QIO's version 1.1 has other words in the record's private text, which is longer.
    const std::size_t at = bytes.find("<version>1.0</version><date>"), length = bytes.rfind('\x1d', at);
    bytes[length] = char(bytes[length] + 2);
    bytes.erase(bytes.find("</scidacRecord>") + 16, 2); // of the padding
    const std::pair<const char *, const char *> words[] = {
        {"<version>1.0</version><date>", "<version>1.1</version><date>"},
        {"<globaldata>0</globaldata>", "<recordtype>0</recordtype>"},
        {"QDP_F3", "USQCD_F3"}};
    for (const auto &[then, now] : words)
        bytes.replace(bytes.find(then), std::strlen(then), now);
    CHECK(copy.bytes() == bytes);
}

TEST_CASE("SciDAC: MILC's samples, and damaged copies of one", "[lattice_file][samples]") {
    const char *name = "ksvector.src.sample.l8";
    NEED_SAMPLE(name);
    NEED_SAMPLE("lat.sample.l8");
    CHECK(examples::read_gauge(sample_file("lat.sample.l8")).links.size() == 4 * 4096);
    CHECK(examples::read_scidac_fermion(sample_file(name)).vectors.size() == 4096);

    const std::string good = tests::text_of(sample_file(name));
    const TemporaryFile file;
    const auto refused_with = [&](const std::string &bytes, const std::string &reason) {
        file.set(bytes);
        const std::string message = refusal(examples::read_scidac_fermion, file.name());
        INFO("'" << message << "'");
        CHECK(has(message, reason));
    };
    const auto with = [&](std::size_t at, const std::string &bytes) {
        return std::string(good).replace(at, bytes.size(), bytes);
    };
    refused_with(with(50000, std::string(1, char(good[50000] ^ 1))), "checksum");
    refused_with(good.substr(0, 50000), "truncated");
    refused_with(good.substr(0, 200), "truncated");
    refused_with(with(0, "X"), "version 5");
    refused_with(with(good.find("scidac-private-record-xml") - 16, "X"), "LIME record");
    refused_with(with(good.find("scidac-binary-data"), "spidac"), "'scidac-binary-data'");
    refused_with("", "header");
    refused_with(with(good.find("<dims>8 8 8 8"), "<dims>8 8 8 4"), "data record");
    file.set(good);
    CHECK(has(refusal(examples::read_gauge, file.name()), "kind"));
}
