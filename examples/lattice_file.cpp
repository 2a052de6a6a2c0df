#include "examples/lattice_file.h"
#include "examples/memory.h"
#include "examples/output_file.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace examples {

namespace {

using reference::Fermion;
using reference::Gauge;
using reference::Lattice;

using Bytes = std::vector<unsigned char>;

constexpr std::uint32_t milc_magic = 20103;
constexpr std::uint32_t lime_magic = 0x456789ab;
constexpr std::size_t milc_header_bytes = 88, milc_data_offset = 96, time_stamp_bytes = 64;
constexpr std::size_t reals_per_site = 4 * 18;

[[noreturn]] void fail(const std::string &path, std::size_t byte, const std::string &what, const std::string &remedy) {
    throw std::runtime_error(path + ", byte " + std::to_string(byte) + ": " + what + "; " + remedy);
}

Bytes read_all(const std::string &path) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error); // an error for a folder, too
    std::ifstream file(path, std::ios::binary);
    if (error || !file)
        throw std::runtime_error(path + ": cannot be opened; check that it is a file, its name and its permissions");
    need_memory(path, 4.0 * double(size)); // with its numbers in double, and the links
    Bytes bytes(size);
    if (!file.read(reinterpret_cast<char *>(bytes.data()), std::streamsize(size)))
        throw std::runtime_error(path + ": cannot be read to its end; check the disk");
    return bytes;
}

// Unsigned integers of 16, 32 and 64 bits from bytes of either order.
std::uint64_t integer(const Bytes &bytes, std::size_t at, int size, bool big_endian) {
    std::uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | bytes[at + std::size_t(big_endian ? i : size - 1 - i)];
    return value;
}

std::uint32_t rotate_left(std::uint32_t word, unsigned by) { return by == 0 ? word : word << by | word >> (32 - by); }

// Two sums over the words, each word rotated by its place: sensitive to the order, which a plain sum is not.
struct Checksum {
    std::uint32_t sum29 = 0, sum31 = 0;

    void add(std::uint32_t word, std::size_t place) {
        sum29 ^= rotate_left(word, unsigned(place % 29));
        sum31 ^= rotate_left(word, unsigned(place % 31));
    }
    bool operator==(const Checksum &other) const { return sum29 == other.sum29 && sum31 == other.sum31; }
};

std::string hexadecimal(const Checksum &sum) {
    char text[32];
    std::snprintf(text, sizeof text, "%x %x", sum.sum29, sum.sum31);
    return text;
}

void check_sums(const std::string &path, std::size_t byte, const Checksum &stored, const Checksum &found) {
    if (!(stored == found))
        fail(path, byte, "checksum " + hexadecimal(found) + ", but the file says " + hexadecimal(stored),
             "the data are damaged: copy the file again from its source");
}

// The product of the extents is bounded by what an int can index.
Lattice checked_lattice(const std::string &path, std::size_t byte, const std::array<std::int64_t, 4> &extents) {
    Lattice lattice{};
    std::int64_t volume = 1;
    for (int dir = 0; dir < 4; dir++) {
        if (extents[dir] < 1 || extents[dir] > (1 << 28) / volume)
            fail(path, byte, "extent " + std::to_string(extents[dir]) + " in direction " + std::to_string(dir),
                 "the header is damaged, or the lattice is larger than this reader takes (2^28 sites)");
        volume *= extents[dir];
        lattice.n[dir] = int(extents[dir]);
    }
    return lattice;
}

// --- LIME: records of a 144-byte header and data padded to 8 bytes, all big endian ---

struct Record {
    std::size_t at, bytes; // of the data
};

Record find_record(const std::string &path, const Bytes &file, const std::string &type,
                   const std::string &other_name = "") {
    constexpr std::size_t header_bytes = 144, type_bytes = 128;
    std::size_t at = 0;
    while (at < file.size()) {
        if (file.size() - at < header_bytes)
            fail(path, at, "the file ends inside a record header", "it is truncated: copy it again");
        if (integer(file, at, 4, true) != lime_magic)
            fail(path, at, "no LIME record starts here", "it is not a SciDAC file, or it is damaged");
        const std::uint64_t bytes = integer(file, at + 8, 8, true);
        const char *text = reinterpret_cast<const char *>(&file[at + 16]);
        const std::string name(text, strnlen(text, type_bytes));
        at += header_bytes;
        if (bytes > file.size() - at)
            fail(path, at, "record '" + name + "' of " + std::to_string(bytes) + " bytes runs past the end",
                 "the file is truncated: copy it again");
        if (name == type || name == other_name)
            return {at, std::size_t(bytes)};
        at += (std::size_t(bytes) + 7) / 8 * 8;
    }
    throw std::runtime_error(path + ": no record '" + type + "'; this reader takes SciDAC single files alone");
}

std::string text_of(const Bytes &file, const Record &record) {
    return {reinterpret_cast<const char *>(file.data()) + record.at, record.bytes};
}

// The text between <tag> and </tag>.
std::string tagged(const std::string &path, const Record &record, const std::string &xml, const std::string &tag) {
    const std::size_t open = xml.find("<" + tag + ">"), close = xml.find("</" + tag + ">");
    if (open == std::string::npos || close == std::string::npos || close < open)
        fail(path, record.at, "no <" + tag + "> in the record's text", "the file is not SciDAC, or it is damaged");
    const std::size_t begin = open + tag.size() + 2;
    return xml.substr(begin, close - begin);
}

Lattice scidac_lattice(const std::string &path, const Bytes &file) {
    const Record record = find_record(path, file, "scidac-private-file-xml");
    const std::string dims = tagged(path, record, text_of(file, record), "dims");
    long long x[4] = {};
    if (std::sscanf(dims.c_str(), "%lld %lld %lld %lld", &x[0], &x[1], &x[2], &x[3]) != 4)
        fail(path, record.at, "dims '" + dims + "' are not four numbers", "only four-dimensional lattices are read");
    return checked_lattice(path, record.at, {x[0], x[1], x[2], x[3]});
}

// The CRC of Ethernet and zlib (polynomial 0xedb88320, reflected).
std::array<std::uint32_t, 256> crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; i++) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        table[i] = value;
    }
    return table;
}

std::uint32_t crc32(const unsigned char *data, std::size_t bytes) {
    static const auto table = crc_table();
    std::uint32_t value = 0xffffffffu;
    for (std::size_t i = 0; i < bytes; i++)
        value = table[(value ^ data[i]) & 0xff] ^ value >> 8;
    return ~value;
}

Checksum stored_scidac_sums(const std::string &path, const Bytes &file) {
    const Record record = find_record(path, file, "scidac-checksum");
    const std::string xml = text_of(file, record);
    Checksum sums;
    if (std::sscanf(tagged(path, record, xml, "suma").c_str(), "%x", &sums.sum29) != 1 ||
        std::sscanf(tagged(path, record, xml, "sumb").c_str(), "%x", &sums.sum31) != 1)
        fail(path, record.at, "the checksums are not hexadecimal", "the file is damaged: copy it again");
    return sums;
}

// The reals of the binary record, `elements` objects of `reals` reals on each site, verified.
std::vector<double> scidac_reals(const std::string &path, const Bytes &file, const Lattice &lattice, int elements,
                                 int reals) {
    const Record description = find_record(path, file, "scidac-private-record-xml");
    const std::string xml = text_of(file, description);
    const int size = tagged(path, description, xml, "precision") == "D" ? 8 : 4;
    if (tagged(path, description, xml, "datacount") != std::to_string(elements) ||
        tagged(path, description, xml, "typesize") != std::to_string(reals * size))
        fail(path, description.at,
             "not " + std::to_string(elements) + " objects of " + std::to_string(reals) + " reals",
             "use the reader of the file's own kind (gauge field or colour vector)");

    const Record data = find_record(path, file, "scidac-binary-data", "ildg-binary-data");
    const std::size_t site_bytes = std::size_t(elements) * reals * size;
    if (data.bytes != site_bytes * lattice.volume())
        fail(path, data.at,
             "the data record has " + std::to_string(data.bytes) + " bytes, the lattice needs " +
                 std::to_string(site_bytes * lattice.volume()),
             "the file is damaged: copy it again");
    Checksum found;
    for (std::size_t site = 0; site < std::size_t(lattice.volume()); site++)
        found.add(crc32(&file[data.at + site * site_bytes], site_bytes), site);
    check_sums(path, data.at, stored_scidac_sums(path, file), found);

    std::vector<double> values(data.bytes / size);
    for (std::size_t k = 0; k < values.size(); k++) {
        const std::uint64_t bits = integer(file, data.at + k * size, size, true);
        if (size == 8) {
            std::memcpy(&values[k], &bits, 8);
        } else {
            const auto short_bits = std::uint32_t(bits);
            float value;
            std::memcpy(&value, &short_bits, 4);
            values[k] = value;
        }
    }
    return values;
}

template <class Element> std::vector<Element> elements_from(const std::vector<double> &reals) {
    std::vector<Element> field(reals.size() * sizeof(double) / sizeof(Element));
    std::memcpy(reinterpret_cast<double *>(field.data()), reals.data(), reals.size() * sizeof(double));
    return field;
}

template <class Value> void append(Bytes &bytes, const Value &value) {
    const auto *from = reinterpret_cast<const unsigned char *>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
}

} // namespace

GaugeFile read_milc_gauge(const std::string &path) {
    const Bytes file = read_all(path);
    if (file.size() < milc_data_offset)
        fail(path, file.size(), "the file ends inside its header", "it is truncated: copy it again");
    const bool big_endian = integer(file, 0, 4, true) == milc_magic;
    if (!big_endian && integer(file, 0, 4, false) != milc_magic)
        fail(path, 0, "not a MILC version-5 gauge file (first word " + std::to_string(integer(file, 0, 4, false)) + ")",
             "convert it with MILC, or read SciDAC files with the SciDAC reader");
    const auto word = [&](std::size_t at) { return std::uint32_t(integer(file, at, 4, big_endian)); };

    GaugeFile result;
    result.lattice = checked_lattice(path, 4, {word(4), word(8), word(12), word(16)});
    const char *stamp = reinterpret_cast<const char *>(&file[20]);
    result.time_stamp.assign(stamp, strnlen(stamp, time_stamp_bytes));
    if (word(84) != 0)
        fail(path, 84, "the sites are in an order of their own (coordinate table)",
             "save it with MILC as a serial file (save_serial)");

    const std::size_t reals = reals_per_site * result.lattice.volume();
    if (file.size() != milc_data_offset + 4 * reals)
        fail(path, file.size(), "the file should have " + std::to_string(milc_data_offset + 4 * reals) + " bytes",
             "it is truncated or damaged: copy it again");
    Checksum found;
    std::vector<double> values(reals);
    for (std::size_t k = 0; k < reals; k++) {
        const std::uint32_t bits = word(milc_data_offset + 4 * k);
        found.add(bits, k);
        float value;
        std::memcpy(&value, &bits, 4);
        values[k] = value;
    }
    Checksum stored;
    stored.sum29 = word(milc_header_bytes);
    stored.sum31 = word(milc_header_bytes + 4);
    check_sums(path, milc_data_offset, stored, found);
    result.links = elements_from<reference::Matrix>(values);
    return result;
}

void write_milc_gauge(const std::string &path, const Lattice &lattice, const Gauge &links,
                      const std::string &time_stamp) {
    if (links.size() != 4 * std::size_t(lattice.volume()))
        throw std::runtime_error(path + ": " + std::to_string(links.size()) + " links for a lattice of " +
                                 std::to_string(lattice.volume()) + " sites; four a site are needed");
    Bytes data;
    data.reserve(4 * reals_per_site * lattice.volume());
    Checksum sums;
    std::size_t place = 0;
    for (const auto &link : links)
        for (const auto &row : link.e)
            for (const auto &e : row)
                for (const float part : {float(e.real()), float(e.imag())}) {
                    std::uint32_t bits;
                    std::memcpy(&bits, &part, 4);
                    sums.add(bits, place++);
                    append(data, bits);
                }

    Bytes header;
    append(header, milc_magic);
    for (const int extent : lattice.n)
        append(header, std::int32_t(extent));
    std::array<char, time_stamp_bytes> stamp{};
    (time_stamp.empty() ? milcgpu::time_stamp() : time_stamp).copy(stamp.data(), time_stamp_bytes - 1);
    append(header, stamp);
    append(header, std::int32_t(0)); // sites in their natural order
    append(header, sums.sum29);
    append(header, sums.sum31);

    OutputFile file;
    file.open("lattice", path, double(header.size() + data.size()));
    file.write(header.data(), header.size());
    file.write(data.data(), data.size());
    file.finish();
}

double milc_gauge_bytes(const Lattice &lattice) {
    return double(milc_data_offset) + 4.0 * double(reals_per_site) * lattice.volume();
}

GaugeFile read_scidac_gauge(const std::string &path) {
    const Bytes file = read_all(path);
    GaugeFile result;
    result.lattice = scidac_lattice(path, file);
    result.links = elements_from<reference::Matrix>(scidac_reals(path, file, result.lattice, 4, 18));
    return result;
}

FermionFile read_scidac_fermion(const std::string &path) {
    const Bytes file = read_all(path);
    FermionFile result;
    result.lattice = scidac_lattice(path, file);
    result.vectors = elements_from<reference::Vector>(scidac_reals(path, file, result.lattice, 1, 6));
    return result;
}

GaugeFile read_gauge(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    Bytes first(4);
    file.read(reinterpret_cast<char *>(first.data()), 4);
    const bool is_lime = file && integer(first, 0, 4, true) == lime_magic;
    return is_lime ? read_scidac_gauge(path) : read_milc_gauge(path);
}

void check_unitary(const std::string &path, const GaugeFile &file) {
    constexpr double most = 1e-4; // MILC's own limit
    std::size_t first = 0, count = 0;
    double product = 0, determinant = 0; // of the first
    for (std::size_t k = 0; k < file.links.size(); k++) {
        const reference::Matrix &u = file.links[k];
        const double p = frobenius_norm(u * adjoint(u) - reference::identity()), d = std::abs(det(u) - 1.0);
        if (p <= most && d <= most) // false for NaN
            continue;
        if (count++ == 0)
            first = k, product = p, determinant = d;
    }
    if (count == 0)
        return;
    const auto x = file.lattice.coordinates(int(first / 4));
    char text[400];
    std::snprintf(
        text, sizeof text,
        ": the link at x y z t = %d %d %d %d in direction %c is not in SU(3): |U U^dag - 1| = %.2g, "
        "|det U - 1| = %.2g, at most %g are rounding; %zu of %zu links are like this. The checksum is right, so "
        "it was written so: gauge fields have unitary links without phases; save it again with MILC",
        x[0], x[1], x[2], x[3], "xyzt"[first % 4], product, determinant, most, count, file.links.size());
    throw std::runtime_error(path + text);
}

} // namespace examples
