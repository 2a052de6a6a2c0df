#include "tests/fuzz_support.h"
#include "examples/lib/csv.h"
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/lime.h"
#include "milc_glue/solve/eigen_file.h"
#include "tests/sized.h"
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

namespace tests::fuzz {

namespace {

using namespace milcgpu;
using Bytes = std::string;

[[noreturn]] void broken(const char *promise, int line, const std::string &message = "") {
    throw std::logic_error(format("tests/fuzz_support.cpp:%d: not true: %s %s", line, promise, message.c_str()));
}
#define MUST(promise) (static_cast<bool>(promise) ? void() : broken(#promise, __LINE__))

// A file in memory.
class MemoryFile {
  public:
    explicit MemoryFile(const Bytes &bytes) : number_(memfd_create("fuzz", MFD_CLOEXEC)) {
        MUST(number_ >= 0 && pwrite(number_, bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()));
        path = "/proc/self/fd/" + std::to_string(number_);
    }
    MemoryFile(const MemoryFile &) = delete;
    ~MemoryFile() { close(number_); }
    std::string path;

  private:
    int number_;
};

void check_message(const std::string &message, const std::string &path) {
    const auto shown = [](unsigned char c) { return c >= 0x20 && c != 0x7f; };
    if (message.find(path) == message.npos || message.size() >= 600 ||
        !std::all_of(message.begin(), message.end(), shown))
        broken("a message names the file, is short and has no control characters:", __LINE__, message);
}

// ---- an independent reading

uint32_t crc_of(const Bytes &bytes) {
    uint32_t value = ~0u;
    for (const unsigned char c : bytes) {
        value ^= c;
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
    }
    return ~value;
}

void add_rotated(SumPair &sums, uint32_t word, size_t place) {
    const auto turned = [&](unsigned by) { return by == 0 ? word : word << by | word >> (32 - by); };
    sums.first ^= turned(unsigned(place % 29)), sums.second ^= turned(unsigned(place % 31));
}

SumPair word_sums(const Bytes &data) {
    SumPair sums;
    for (size_t k = 0; 4 * k + 4 <= data.size(); ++k) {
        uint32_t word;
        std::memcpy(&word, &data[4 * k], 4);
        add_rotated(sums, word, k);
    }
    return sums;
}

uint32_t plain_sum(const Bytes &data) {
    uint32_t sum = 0;
    for (size_t k = 0; 4 * k + 4 <= data.size(); ++k) {
        uint32_t word;
        std::memcpy(&word, &data[4 * k], 4);
        sum += word;
    }
    return sum;
}

SumPair site_sums(const Bytes &data, size_t record) {
    SumPair sums;
    for (size_t k = 0; k * record < data.size(); ++k)
        add_rotated(sums, crc_of(data.substr(k * record, record)), k);
    return sums;
}

Bytes turned_round(Bytes data, size_t word) {
    for (size_t at = 0; at + word <= data.size(); at += word)
        std::reverse(&data[at], &data[at] + word);
    return data;
}

double number_in(const Bytes &data, size_t k, size_t bytes) {
    float single;
    double number;
    std::memcpy(bytes == 8 ? static_cast<void *>(&number) : &single, &data[k * bytes], bytes);
    return bytes == 8 ? number : double(single);
}

bool is_same(double a, double b) { return a == b || (a != a && b != b); }

// ---- lattices

constexpr std::array<int, 4> sizes[] = {{2, 2, 2, 2}, {4, 2, 2, 4}};

struct Context {
    std::array<int, 4> extents;
    milcgpu_context *of = nullptr;
    milcgpu_links *links = nullptr;
    size_t sites() const { return size_t(extents[0]) * extents[1] * extents[2] * extents[3]; }
};

const std::vector<Context> &contexts() {
    static const std::vector<Context> *const all = [] {
        auto *const made = new std::vector<Context>; // for as long as the program runs, reachable at its end
        for (const std::array<int, 4> &n : sizes) {
            Context c{n};
            milcgpu_layout layout{};
            layout.struct_size = sizeof layout;
            std::copy(n.begin(), n.end(), layout.extent);
            milcgpu_options options{};
            options.struct_size = sizeof options, options.backend = MILCGPU_HOST, options.device = -1;
            MUST(milcgpu_context_create(&layout, &options, &c.of) == MILCGPU_OK);
            std::mt19937_64 random(5);
            std::normal_distribution<double> normal;
            std::vector<double> fat(72 * c.sites()), lng(fat.size());
            for (size_t k = 0; k < fat.size(); ++k)
                fat[k] = normal(random) / 4, lng[k] = normal(random) / 40;
            const milcgpu_field f = {fat.data(), MILCGPU_DOUBLE, 0}, l = {lng.data(), MILCGPU_DOUBLE, 0};
            MUST(milcgpu_links_create(c.of, &f, &l, &c.links) == MILCGPU_OK);
            made->push_back(c);
        }
        return made;
    }();
    return *all;
}

// Sites, sums and numbers as the head says, by one byte after the other.
void check_sites(const std::string &path, const Bytes &file, const SiteFileHead &head) {
    const size_t sites = size_t(head.sites()), record = head.site_bytes(), word = size_t(head.real_bytes);
    const Bytes raw = file.substr(head.data, sites * record), native = head.turned ? turned_round(raw, word) : raw;
    MUST(raw.size() == sites * record);
    const SumPair sums = head.kind == FileKind::milc     ? word_sums(native)
                         : head.kind == FileKind::scidac ? site_sums(raw, record)
                                                         : SumPair{plain_sum(native), 0};
    const std::unique_ptr<double[]> field(new double[sites * size_t(head.reals)]); // no byte more
    Ranks one;
    const SumPair found = read_sites(one, {head.extents, head.extents, {}, {}, 0}, path, head,
                                     {field.get(), true, 8 * size_t(head.reals)});
    MUST(found == sums);
    for (size_t k = 0, slots[2] = {0, 0}; k < sites; ++k) {
        size_t rest = k, odd = 0;
        for (const int n : head.extents)
            odd += rest % size_t(n), rest /= size_t(n);
        const size_t slot = (odd % 2 != 0 ? (sites + 1) / 2 : 0) + slots[odd % 2]++;
        const size_t in_file = 6 * size_t(head.rows); // of 18 reals of a link
        for (size_t i = 0; i < size_t(head.reals); ++i)
            if (head.rows == 3)
                MUST(is_same(field[slot * head.reals + i], number_in(native, k * head.reals + i, word)));
            else if (i % 18 < in_file)
                MUST(is_same(field[slot * head.reals + i],
                             number_in(native, k * 4 * in_file + i / 18 * in_file + i % 18, word)));
    }
    bool refused = false;
    try {
        require_sums(path, head, found);
    } catch (const Error &error) {
        refused = true;
        check_message(error.what(), path);
    }
    MUST(refused == (head.has_sums && !(head.sums == found)));
}

void read_lattice(const Bytes &bytes) {
    const MemoryFile file(bytes);
    const std::string &path = file.path;
    bool is_gauge = false;
    for (const int reals : {reals_of_vector, reals_of_links})
        try {
            const SiteFileHead head = head_of(path, reals);
            MUST(head.reals == reals && !head.listed && (head.real_bytes == 4 || head.real_bytes == 8));
            MUST(head.sites() >= 1 &&
                 double(head.data) + head.sites() * double(head.site_bytes()) <= double(bytes.size()));
            MUST(std::memchr(head.time, 0, sizeof head.time) != nullptr);
            if (head.sites() <= 1024)
                check_sites(path, bytes, head);
            is_gauge = reals == reals_of_links;
        } catch (const Error &error) {
            MUST(error.status() == Status::bad_argument);
            check_message(error.what(), path);
        }
    try {
        texts_of(path);
    } catch (const Error &error) {
        check_message(error.what(), path);
    }
    milcgpu_gauge_file before;
    std::memset(&before, 0x5a, sizeof before);
    before.struct_size = sizeof before;
    milcgpu_gauge_file looked = before;
    MUST((milcgpu_gauge_file_look(path.c_str(), &looked) == MILCGPU_OK) == is_gauge);
    MUST(is_gauge || std::memcmp(&looked, &before, sizeof before) == 0);
    for (const Context &context : contexts()) {
        std::vector<double> links(72 * context.sites(), 7.25);
        const milcgpu_field to = {links.data(), MILCGPU_DOUBLE, 0};
        milcgpu_gauge_file read = before;
        const milcgpu_status status = milcgpu_gauge_file_read(context.of, path.c_str(), &to, &read);
        const bool fits = is_gauge && std::equal(looked.extent, looked.extent + 4, context.extents.begin());
        MUST(status == MILCGPU_OK ? fits : status == MILCGPU_BAD_ARGUMENT);
        MUST(std::memcmp(&read, status == MILCGPU_OK ? &looked : &before, sizeof read) == 0);
        MUST(fits || std::all_of(links.begin(), links.end(), [](double x) { return x == 7.25; }));
        if (status != MILCGPU_OK)
            check_message(milcgpu_last_error(), path);
    }
}

// What is written there, with a name that is gone at once.
Bytes written(const std::function<void(const std::string &)> &write) {
    char folder[] = "/tmp/milcgpu-fuzz-XXXXXX";
    MUST(mkdtemp(folder) != nullptr);
    const std::string path = std::string(folder) + "/file";
    write(path);
    Bytes bytes(1 << 20, '\0');
    OpenFile file;
    MUST(file.open(path, false) == 0);
    bytes.resize(file.bytes());
    MUST(file.read(0, &bytes[0], bytes.size()) == 0);
    unlink(path.c_str());
    rmdir(folder);
    return bytes;
}

std::vector<Bytes> lattices() {
    std::vector<Bytes> files;
    Ranks one;
    for (const Context &context : contexts()) {
        std::vector<float> links(72 * context.sites());
        for (size_t k = 0; k < links.size(); ++k)
            links[k] = float(std::sin(double(k)));
        const auto add = [&](const GaugeForm &form) {
            files.push_back(written([&](const std::string &path) {
                write_gauge(one, {context.extents, context.extents, {}, {}, 0}, path, {links.data(), false, 288}, form);
            }));
        };
        add({FileKind::milc, "now"});
        Bytes other = turned_round(files.back(), 4); // the byte order
        other.replace(20, 64, files.back(), 20, 64);
        files.push_back(other);
        add({FileKind::scidac, "now", 4, "<a/>", "<b/>"});
        add({FileKind::scidac, "now", 8, "<a/>", "<b/>", "lfn://c"});
        const size_t begin = files.back().find("ildg-format") - 16; // ILDG alone
        files.push_back(files.back().substr(begin));
        Bytes vectors = files[files.size() - 3];
        vectors.replace(vectors.find("<datacount>4"), 12, "<datacount>1");
        vectors.replace(vectors.find("<typesize>72"), 12, "<typesize>24");
        const size_t data = vectors.find("scidac-binary-data") - 16, bytes = 24 * context.sites();
        vectors =
            vectors.substr(0, data) + lime_header("scidac-binary-data", bytes, {false, true}) + Bytes(bytes, '\x3f');
        files.push_back(vectors);
        GaugeForm nersc;
        nersc.kind = FileKind::nersc, nersc.time = "now", nersc.plaquette = NAN; // not compared
        for (nersc.rows = 2; nersc.rows <= 3; ++nersc.rows)
            for (nersc.real_bytes = 4; nersc.real_bytes <= 8; nersc.real_bytes += 4)
                add(nersc);
    }
    return files;
}

// ---- eigenvectors

std::vector<Bytes> eigenvectors() {
    std::vector<Bytes> files;
    for (const Context &context : contexts())
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            auto spec = filled(milcgpu_eigen_defaults);
            spec.parity = parity, spec.count = parity == MILCGPU_EVEN ? 1 : 4, spec.tolerance = 0.1;
            spec.precision = MILCGPU_SINGLE;
            milcgpu_eigenvectors *made = nullptr;
            if (milcgpu_eigenvectors_compute(context.links, &spec, &made, nullptr) != MILCGPU_OK)
                throw std::logic_error(milcgpu_last_error());
            for (const int precision : {MILCGPU_SINGLE, MILCGPU_DOUBLE})
                files.push_back(written([&](const std::string &path) {
                    MUST(milcgpu_eigenvectors_write(made, path.c_str(), precision, "now") == MILCGPU_OK);
                }));
            milcgpu_eigenvectors_destroy(made);
        }
    return files;
}

void read_eigenvectors(const Bytes &bytes) {
    const MemoryFile file(bytes);
    const std::string &path = file.path;
    for (const Context &context : contexts()) {
        bool holds = false;
        int count = 0;
        try {
            EigenFileReader reader;
            reader.open(path, context.extents);
            const EigenFileHead &head = reader.head();
            count = head.count;
            MUST(count >= 1 && reader.values().size() == size_t(count) && (head.parity == 1 || head.parity == 2));
            MUST(head.bytes() == bytes.size());
            for (int k = 0; k < count; ++k) {
                const std::unique_ptr<char[]> vector(new char[head.vector_bytes()]); // no byte more
                reader.next(vector.get());
                MUST(std::memcmp(vector.get(), &bytes[head.vector_at(k)], head.vector_bytes()) == 0);
            }
            const size_t begin = head.vector_at(0);
            SumPair said;
            std::memcpy(&said, &bytes[bytes.size() - 8], 8);
            holds = said == word_sums(bytes.substr(begin, bytes.size() - 8 - begin));
            reader.finish();
            MUST(holds);
        } catch (const Error &error) {
            MUST(!holds);
            check_message(error.what(), path);
        }
        auto *read = reinterpret_cast<milcgpu_eigenvectors *>(1);
        const milcgpu_status status = milcgpu_eigenvectors_read(context.links, path.c_str(), MILCGPU_SINGLE, 0, &read);
        MUST(status == MILCGPU_OK ? holds && milcgpu_eigenvectors_count(read) == count : read == nullptr);
        if (status != MILCGPU_OK) {
            MUST(status == MILCGPU_BAD_ARGUMENT || status == MILCGPU_NAN_OR_INF);
            check_message(milcgpu_last_error(), path);
            continue;
        }
        std::vector<double> l(size_t(count), NAN), residuals(l);
        MUST(milcgpu_eigenvectors_values(read, l.data(), residuals.data()) == MILCGPU_OK);
        for (int k = 0; k < count; ++k)
            MUST(std::isfinite(l[k]) && std::isfinite(residuals[k]));
        milcgpu_eigenvectors_destroy(read);
    }
}

// ---- tables

void read_table(const Bytes &bytes) {
    const Bytes line = bytes.substr(0, bytes.find_first_of("\r\n"));
    const examples::Cells cells = examples::csv_cells(line);
    Bytes again = examples::csv_line(cells);
    again.pop_back();
    MUST(examples::csv_cells(again) == cells);
}

// ---- changes

const char *const magic = "\x45\x67\x89\xab"; // of a LIME record

size_t up_to(std::mt19937 &random, size_t most) { return random() % (most + 1); }

void put(Bytes &file, size_t at, uint64_t number, int bytes, bool big_endian) {
    for (int k = 0; k < bytes && at + size_t(k) < file.size(); ++k)
        file[at + size_t(k)] = char(number >> 8 * (big_endian ? bytes - 1 - k : k));
}

// Between a tag and its end, in a record that stays whole.
void change_text(Bytes &file, std::mt19937 &random) {
    static const char *const tags[] = {"dims", "volfmt", "precision", "datacount", "typesize", "lx",
                                       "ly",   "lz",     "lt",        "suma",      "sumb"};
    static const char *const values[] = {"0",
                                         "1",
                                         "2",
                                         "-1",
                                         "2147483648",
                                         "99999999999999999999",
                                         "1e3",
                                         "32",
                                         "64",
                                         "F",
                                         " D ",
                                         "",
                                         "2 2 2 2",
                                         "4 2 2 4\n",
                                         "1 1 1 1",
                                         "3 1",
                                         "65536 65536 2 2",
                                         "\x1b[2J",
                                         "\x9b",
                                         "<!-- -->2",
                                         "\xe2\x80\xae"};
    const size_t header = file.rfind(magic, up_to(random, file.size())), text_at = header + 144;
    if (header == file.npos || text_at > file.size())
        return;
    uint64_t bytes = 0;
    for (size_t k = header + 8; k < header + 16; ++k)
        bytes = bytes << 8 | static_cast<unsigned char>(file[k]);
    bytes = std::min<uint64_t>(bytes, file.size() - text_at);
    Bytes text = file.substr(text_at, bytes);
    const std::string tag = tags[up_to(random, std::size(tags) - 1)];
    const size_t open = text.find("<" + tag), begin = text.find('>', open), end = text.find("</" + tag, open);
    if (open == text.npos || begin == text.npos || end == text.npos || end < begin)
        return;
    text.replace(begin + 1, end - begin - 1, values[up_to(random, std::size(values) - 1)]);
    if (up_to(random, 3) == 0)
        text.insert(begin, " a=\"b\"");
    put(file, header + 8, text.size(), 8, true);
    text.resize((text.size() + 7) / 8 * 8);
    file.replace(text_at, (bytes + 7) / 8 * 8, text);
}

void change_once(Bytes &file, std::mt19937 &random) {
    static const uint64_t numbers[] = {
        0,         1,        2,       3,        4,        7,          100,        288,        576,   4608,
        1u << 16,  1u << 24, INT_MAX, 1u << 31, UINT_MAX, 1ull << 32, 1ull << 40, 1ull << 63, ~0ull, 0x7ff8000000000000,
        0x7f800000};
    const size_t size = file.size(), at = up_to(random, size), length = up_to(random, std::min<size_t>(size - at, 300));
    switch (up_to(random, 12)) {
    case 0:
        if (at < size)
            file[at] = char(file[at] ^ 1 << up_to(random, 7));
        break;
    case 1:
        put(file, at / 4 * 4, numbers[up_to(random, std::size(numbers) - 1)], up_to(random, 1) == 0 ? 4 : 8,
            up_to(random, 1) == 0);
        break;
    case 2: // where heads have their numbers
        put(file, up_to(random, 24) * 4, numbers[up_to(random, std::size(numbers) - 1)], 4, up_to(random, 1) == 0);
        break;
    case 3:
        file.erase(at, length);
        break;
    case 4:
        file.insert(up_to(random, size), file.substr(at, length));
        break;
    case 5:
        file.resize(at);
        break;
    case 6:
        file.append(length, '\0');
        break;
    default:
        change_text(file, random);
    }
}

// Of files whose data are where the head says.
void right_sums(Bytes &file) {
    uint32_t first = 0;
    std::memcpy(&first, file.data(), std::min<size_t>(4, file.size()));
    if (file.size() >= 100 && (first == 20103 || first == __builtin_bswap32(20103))) {
        const bool turned = first != 20103;
        const Bytes data = file.substr(96);
        const SumPair sums = word_sums(turned ? turned_round(data, 4) : data);
        put(file, 88, sums.first, 4, turned), put(file, 92, sums.second, 4, turned);
        return;
    }
    const size_t data = file.find("-binary-data");
    int32_t count = 0;
    if (data == file.npos && file.size() >= 108) { // eigenvectors
        std::memcpy(&count, &file[88], 4);
        const size_t begin = 92 + 8 * size_t(count > 0 && count < 100 ? count : 0);
        if (begin + 8 < file.size()) {
            const SumPair sums = word_sums(file.substr(begin, file.size() - 8 - begin));
            std::memcpy(&file[file.size() - 8], &sums, 8);
        }
        return;
    }
    const size_t begin = data == file.npos ? data : file.rfind(magic, data) + 144;
    if (data == file.npos || begin < 144 || begin > file.size())
        return;
    uint64_t bytes = 0;
    for (size_t k = begin - 136; k < begin - 128; ++k)
        bytes = bytes << 8 | static_cast<unsigned char>(file[k]);
    const bool is_double = file.find("<precision>D") != file.npos || file.find("<precision>64") != file.npos;
    const SumPair sums = site_sums(file.substr(begin, std::min<uint64_t>(bytes, file.size())), is_double ? 576 : 288);
    for (const auto &[tag, sum] : {std::pair("<suma>", sums.first), std::pair("<sumb>", sums.second)}) {
        const size_t open = file.find(tag), close = file.find('<', open + 1);
        if (open != file.npos && close != file.npos)
            file.replace(open + 6, close - open - 6, format("%x", sum));
    }
}

} // namespace

std::string changed(const std::string &file, std::mt19937 &random) {
    Bytes other = file;
    for (size_t k = 0; k <= up_to(random, 3); ++k)
        change_once(other, random);
    if (up_to(random, 1) == 0)
        right_sums(other);
    return other;
}

const std::vector<Reader> &readers() {
    static const std::vector<Reader> all = {
        {"lattice", lattices, read_lattice},
        {"eigenvectors", eigenvectors, read_eigenvectors},
        {"table", [] { return std::vector<Bytes>{"a,\"b, c\",\"d \"\"e\"\"\",,1.5\n"}; }, read_table}};
    return all;
}

} // namespace tests::fuzz
