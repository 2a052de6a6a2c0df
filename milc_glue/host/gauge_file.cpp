#include "milc_glue/host/gauge_file.h"
#include "gpu_kernels/backend/host_threads.h"
#include "milc_glue/host/whole_file.h"
#include <algorithm>
#include <cstring>

namespace milcgpu {

namespace {

constexpr uint32_t milc_magic = 20103, lime_magic = 0x456789ab;
constexpr size_t sums_at = 88, data_at = 96, time_bytes = 64;
constexpr const char *truncated = "the file is truncated: copy it again", *damaged = "it is damaged: copy it again";

[[noreturn]] void fail(const std::string &path, size_t byte, const std::string &what, const std::string &remedy) {
    throw Error(Status::bad_argument, format("%s, byte %zu: %s; %s", path.c_str(), byte, what.c_str(), remedy.c_str()));
}

std::string text_of(const std::array<int, 4> &n) { return format("%d x %d x %d x %d", n[0], n[1], n[2], n[3]); }
std::string text_of(const SumPair &sums) { return format("%x %x", sums.first, sums.second); }

// The bytes of a file, in any order.
class Bytes {
  public:
    explicit Bytes(const std::string &path) : path_(path) {
        const int code = file_.open(path, false);
        if (code != 0 || !file_.is_plain())
            throw Error(Status::bad_argument,
                        format("%s cannot be opened%s; check that it is a file, its name and its permissions",
                               path.c_str(), code != 0 ? format(" (%s)", std::strerror(code)).c_str() : ""));
        size_ = file_.bytes();
    }
    size_t size() const { return size_; }
    const std::string &path() const { return path_; }
    void read(size_t at, void *to, size_t bytes) const {
        const int code = file_.read(at, to, bytes);
        if (code != 0)
            fail(path_, at, code < 0 ? "the file ends here" : std::strerror(code),
                 code < 0 ? truncated : "check the disk");
    }
    uint64_t big_endian(size_t at, int size) const {
        unsigned char bytes[8];
        read(at, bytes, size_t(size));
        uint64_t value = 0;
        for (int i = 0; i < size; ++i)
            value = value << 8 | bytes[i];
        return value;
    }

  private:
    std::string path_;
    OpenFile file_;
    size_t size_ = 0;
};

void check_extents(const std::string &path, size_t byte, const long long (&extents)[4], SiteFileHead &head) {
    double volume = 1;
    for (int mu = 0; mu < 4; ++mu) {
        volume *= double(extents[mu]);
        if (extents[mu] < 1 || volume > 1e13 || extents[mu] > 1 << 30)
            fail(path, byte, format("extent %lld in direction %c", extents[mu], "xyzt"[mu]), damaged);
        head.extents[mu] = int(extents[mu]);
    }
}

// ---- version 5

SiteFileHead milc_head(const Bytes &file, bool turned) {
    const std::string &path = file.path();
    if (file.size() < data_at)
        fail(path, file.size(), "the file ends inside its header", truncated);
    SiteFileHead head{};
    head.kind = FileKind::milc;
    head.real_bytes = 4, head.reals = reals_of_links;
    head.turned = turned;
    head.data = data_at;
    head.has_sums = 1;
    const auto word = [&](size_t at) {
        uint32_t value;
        file.read(at, &value, 4);
        return turned ? __builtin_bswap32(value) : value;
    };
    const long long extents[4] = {int32_t(word(4)), int32_t(word(8)), int32_t(word(12)), int32_t(word(16))};
    check_extents(path, 4, extents, head);
    file.read(20, head.time, time_bytes);
    head.time[time_bytes - 1] = '\0';
    if (word(84) != 0) {
        head.listed = 1;
        return head;
    }
    head.sums = {word(sums_at), word(sums_at + 4)};
    const double bytes = gauge_file_bytes(head.extents);
    if (double(file.size()) != bytes)
        fail(path, file.size(), format("the file should have %.0f bytes", bytes),
             double(file.size()) < bytes ? truncated : damaged);
    return head;
}

// ---- LIME

struct Record {
    size_t at, bytes; // of the data
};

// nullopt: there is none.
std::optional<Record> find_record(const Bytes &file, const std::string &type, const std::string &other = "") {
    constexpr size_t header_bytes = 144, type_bytes = 128;
    for (size_t at = 0; at < file.size();) {
        if (file.size() - at < header_bytes)
            fail(file.path(), at, "the file ends inside a record header", truncated);
        if (file.big_endian(at, 4) != lime_magic)
            fail(file.path(), at, "no LIME record starts here", damaged);
        const uint64_t bytes = file.big_endian(at + 8, 8);
        char text[type_bytes + 1] = "";
        file.read(at + 16, text, type_bytes);
        at += header_bytes;
        if (bytes > file.size() - at)
            fail(file.path(), at,
                 format("record '%s' of %llu bytes runs past the end", text, (unsigned long long)bytes), truncated);
        if (type == text || other == text)
            return Record{at, size_t(bytes)};
        at += (size_t(bytes) + 7) / 8 * 8;
    }
    return {};
}

Record require_record(const Bytes &file, const std::string &type, const std::string &other = "") {
    const std::optional<Record> record = find_record(file, type, other);
    if (!record)
        fail(file.path(), file.size(), format("no record '%s'", type.c_str()),
             "only single files of SciDAC and ILDG are read");
    return *record;
}

// The text of a record, and what is between <tag> and </tag>; empty: there is no such tag.
struct Xml {
    Xml(const Bytes &file, const Record &record) : path(file.path()), at(record.at) {
        if (record.bytes > size_t{1} << 20)
            fail(path, at, format("a description of %zu bytes", record.bytes), damaged);
        text.resize(record.bytes);
        file.read(at, &text[0], record.bytes);
    }
    std::string optional(const std::string &tag) const {
        const size_t open = text.find("<" + tag + ">"), close = text.find("</" + tag + ">");
        const size_t begin = open + tag.size() + 2;
        return open == std::string::npos || close == std::string::npos || close < begin
                   ? ""
                   : text.substr(begin, close - begin);
    }
    std::string operator()(const std::string &tag) const {
        const std::string value = optional(tag);
        if (value.empty())
            fail(path, at, format("no <%s> in the record's text", tag.c_str()),
                 "the file is not SciDAC, or it is damaged");
        return value;
    }
    std::string path, text;
    size_t at;
};

SiteFileHead lime_head(const Bytes &file, int reals) {
    const std::string &path = file.path();
    SiteFileHead head{};
    head.kind = FileKind::scidac;
    head.turned = 1;
    head.reals = reals;
    long long n[4] = {};
    if (const std::optional<Record> lattice = find_record(file, "scidac-private-file-xml")) {
        const std::string dims = Xml(file, *lattice)("dims");
        int count = 0;
        if (std::sscanf(dims.c_str(), "%lld %lld %lld %lld %n", &n[0], &n[1], &n[2], &n[3], &count) != 4 ||
            dims[size_t(count)] != '\0')
            fail(path, lattice->at, format("dims '%s' are not four numbers", dims.c_str()),
                 "only four-dimensional lattices are read");
        check_extents(path, lattice->at, n, head);
        const Record described = require_record(file, "scidac-private-record-xml");
        const Xml xml(file, described);
        head.real_bytes = xml("precision") == "D" ? 8 : 4;
        const int objects = reals == reals_of_links ? 4 : 1;
        if (xml("datacount") != std::to_string(objects) ||
            xml("typesize") != std::to_string(reals / objects * head.real_bytes))
            fail(path, described.at, format("not %d objects of %d reals a site", objects, reals / objects),
                 "use the reader of the file's own kind (gauge field or colour vector)");
    } else { // an ILDG file of another program
        const Record described = require_record(file, "ildg-format");
        const Xml xml(file, described);
        for (int mu = 0; mu < 4; ++mu)
            n[mu] = std::atoll(xml(std::string{'l', "xyzt"[mu]}).c_str());
        check_extents(path, described.at, n, head);
        const std::string precision = xml("precision");
        head.real_bytes = precision == "64" ? 8 : 4;
        if (reals != reals_of_links || (precision != "32" && precision != "64"))
            fail(path, described.at, format("precision %s of a gauge field", precision.c_str()),
                 "32 and 64 bits are read");
    }
    const Record data = require_record(file, "scidac-binary-data", "ildg-binary-data");
    if (double(data.bytes) != head.sites() * double(head.site_bytes()))
        fail(path, data.at,
             format("the data record has %zu bytes, the lattice needs %.0f", data.bytes,
                    head.sites() * double(head.site_bytes())),
             damaged);
    head.data = data.at;
    if (const std::optional<Record> record = find_record(file, "scidac-checksum")) {
        const Xml xml(file, *record);
        if (std::sscanf(xml("suma").c_str(), "%x", &head.sums.first) != 1 ||
            std::sscanf(xml("sumb").c_str(), "%x", &head.sums.second) != 1)
            fail(path, record->at, "the checksums are not hexadecimal", damaged);
        head.has_sums = 1;
    }
    return head;
}

// ---- the caller's field

// Where the box's k-th site, x fastest, is in the field.
class SiteAddresses {
  public:
    SiteAddresses(const Box &box, const SiteField &field) : box_(box), field_(field), sites_(size_t(box.sites())) {}
    char *operator()(size_t k) const {
        size_t rest = k, odd = 0;
        for (int mu = 0; mu < 4; ++mu) {
            odd += box_.origin[mu] + rest % box_.extent[mu];
            rest /= box_.extent[mu];
        }
        const size_t slot = odd % 2 != 0 ? (k + sites_) / 2 : k / 2;
        return static_cast<char *>(field_.data) +
               (field_.map != nullptr ? size_t(field_.map[slot]) : slot) * field_.pitch;
    }

  private:
    const Box &box_;
    const SiteField &field_;
    size_t sites_;
};

template <class To, class From> void convert(void *to, const void *from, int reals) {
    for (int k = 0; k < reals; ++k) {
        From value;
        std::memcpy(&value, static_cast<const From *>(from) + k, sizeof value);
        static_cast<To *>(to)[k] = To(value);
    }
}

// From records of a file to the field, or back.
using Convert = void (*)(void *, const void *, int);
Convert to_field(const SiteFileHead &head, const SiteField &field) {
    return head.real_bytes == 8 ? (field.in_double ? convert<double, double> : convert<float, double>)
                                : (field.in_double ? convert<double, float> : convert<float, float>);
}

// The checksum of records that pass, and their byte order.
class PassingSums {
  public:
    PassingSums(FileKind kind, size_t record, size_t turned_word = 0)
        : kind_(kind), record_(record), turned_word_(turned_word) {}
    void operator()(const std::vector<SiteRecords::Run> &runs) {
        constexpr size_t most = 256; // records at once
        std::vector<SiteRecords::Run> parts;
        size_t bytes = 0;
        for (const SiteRecords::Run &run : runs)
            for (size_t k = 0; k < run.count; k += most) {
                parts.push_back({run.place + k, std::min(most, run.count - k), run.records + k * record_});
                bytes += parts.back().count * record_;
            }
#pragma omp parallel if (bytes >= few_bytes)
        {
            RotatedSums words;
            SumPair crc;
#pragma omp for schedule(static)
            for (size_t k = 0; k < parts.size(); ++k) {
                const auto &[place, count, at] = parts[k];
                for (size_t i = 0; i < count && kind_ == FileKind::scidac; ++i)
                    crc.join(record_sums(place + i, crc32_of(at + i * record_, record_)));
                if (turned_word_ != 0)
                    turn_round(at, count * record_, turned_word_);
                if (kind_ == FileKind::milc)
                    words.add_at(place * (record_ / 4), at, count * record_);
            }
#pragma omp critical(sums_of_a_file)
            words_.join(words), crc_.join(crc);
        }
    }
    SumPair of_all_ranks(Ranks &ranks) const {
        SumPair sums;
        for (const SumPair &there :
             ranks.gathered("checksums of a file", kind_ == FileKind::milc ? words_.pair() : crc_))
            sums.join(there);
        return sums;
    }

  private:
    FileKind kind_;
    size_t record_, turned_word_;
    RotatedSums words_;
    SumPair crc_;
};

SiteRecords::Fault fault_of(const Ranks &ranks, const std::string &path, const char *verb) {
    return [&ranks, path, verb](int code, size_t byte) {
        return Error(Status::bad_argument,
                     format("%s, byte %zu: cannot be %s%s (%s); %s", path.c_str(), byte, verb,
                            ranks.size() > 1 ? " on this rank" : "",
                            code < 0 ? "the file ends here" : std::strerror(code),
                            code < 0 ? "copy it again, and see that nothing writes it meanwhile" : "check the disk"));
    };
}

// Whether this rank takes part. Throws on all ranks where all must and one cannot.
bool takes_part(Ranks &ranks, const std::string &path, OpenFile &file, Readers who, bool to_write) {
    struct Seen {
        size_t bytes;
        int code;
    };
    Seen mine{0, 0};
    if (who != Readers::first || ranks.rank() == 0)
        mine.code = file.open(path, to_write);
    mine.bytes = file.is_open() ? file.bytes() : 0;
    const Seen first = ranks.gathered("a file that is opened", mine)[0];
    const bool same = file.is_open() && mine.bytes == first.bytes;
    ranks.collective("a file that is opened", [&] {
        if ((who == Readers::everyone || ranks.rank() == 0) && !same)
            throw Error(Status::bad_argument,
                        format("%s %s; put it where the hosts of all ranks have it under this name", path.c_str(),
                               mine.code != 0
                                   ? format("cannot be opened (%s)", std::strerror(mine.code)).c_str()
                                   : format("has %zu bytes here, and %zu on rank 0", mine.bytes, first.bytes).c_str()));
    });
    return same;
}

} // namespace

double gauge_file_bytes(const std::array<int, 4> &n) {
    return double(data_at) + 4.0 * reals_of_links * n[0] * n[1] * n[2] * n[3];
}

std::optional<SiteFileHead> known_head_of(const std::string &path, int reals) {
    const Bytes file(path);
    uint32_t first;
    if (file.size() < sizeof first)
        fail(path, file.size(), "the file ends inside its header", truncated);
    file.read(0, &first, sizeof first);
    const uint32_t turned = __builtin_bswap32(first);
    if (first == lime_magic || turned == lime_magic)
        return lime_head(file, reals);
    if (first == milc_magic || turned == milc_magic)
        return milc_head(file, turned == milc_magic);
    return {};
}

SiteFileHead head_of(const std::string &path, int reals) {
    const std::optional<SiteFileHead> head = known_head_of(path, reals);
    if (!head)
        fail(path, 0, "neither a gauge file of MILC's version 5 nor a SciDAC or ILDG file", "convert it with MILC");
    if (head->listed)
        fail(path, 84, "the sites are in an order of their own (coordinate table)",
             "save it with MILC as a serial file (save_serial)");
    if (head->reals != reals)
        fail(path, 0, format("a gauge field, not %d reals a site", reals),
             "use the reader of the file's own kind (gauge field or colour vector)");
    return *head;
}

void require_extents(const std::string &path, const SiteFileHead &head, const std::array<int, 4> &whole) {
    if (head.extents != whole)
        fail(path, head.kind == FileKind::milc ? 4 : 0,
             format("the file is of a lattice of %s sites, this one has %s", text_of(head.extents).c_str(),
                    text_of(whole).c_str()),
             "give the file of this lattice, or the extents of the file");
}

SiteFileHead common_head(Ranks &ranks, const std::string &path, const std::array<int, 4> &whole, int reals) {
    SiteFileHead head{};
    ranks.collective("the head of a file", [&] {
        if (ranks.rank() != 0)
            return;
        head = head_of(path, reals);
        require_extents(path, head, whole);
    });
    return ranks.gathered("the head of a file", head)[0];
}

SumPair read_sites(Ranks &ranks, const Box &box, const std::string &path, const SiteFileHead &head,
                   const SiteField &field, Readers readers, const SiteRecords::Grain &grain) {
    OpenFile file;
    const bool takes = takes_part(ranks, path, file, readers, false);
    const size_t bytes = head.site_bytes();
    SiteRecords records(ranks, box, bytes, head.data, takes, grain);
    const SiteAddresses address(box, field);
    const Convert converted = to_field(head, field);
    PassingSums sums(head.kind, bytes, head.turned ? size_t(head.real_bytes) : 0);
    const auto take = [&](size_t first, size_t count, unsigned char *at) {
#pragma omp parallel for schedule(static) if (count * bytes >= few_bytes)
        for (size_t k = 0; k < count; ++k)
            converted(address(first + k), at + k * bytes, head.reals);
    };
    records.read(file, std::ref(sums), take, fault_of(ranks, path, "read"));
    return sums.of_all_ranks(ranks);
}

void require_sums(const std::string &path, const SiteFileHead &head, const SumPair &found) {
    if (head.has_sums && !(found == head.sums))
        fail(path, head.data,
             format("checksum %s, but the file says %s", text_of(found).c_str(), text_of(head.sums).c_str()),
             "the data are damaged: copy the file again from its source");
}

SiteFileHead write_gauge(Ranks &ranks, const Box &box, const std::string &path, const SiteField &links,
                         const std::string &time, Readers writers, const SiteRecords::Grain &grain) {
    WholeFile whole; // on rank 0
    struct Name {
        char text[4096];
    } name{};
    ranks.collective("a file that is written", [&] {
        if (ranks.rank() != 0)
            return;
        whole.open(path, gauge_file_bytes(box.whole));
        if (whole.part().size() >= sizeof name.text)
            throw Error(Status::bad_argument, path + " is too long a name");
        if (!whole.extend(size_t(gauge_file_bytes(box.whole))))
            throw Error(Status::bad_argument,
                        path + " cannot be written: it is no plain file, and its parts come in any order");
        std::snprintf(name.text, sizeof name.text, "%s", whole.part().c_str());
    });
    const std::string part = ranks.gathered("the name of a file", name)[0].text;
    OpenFile file;
    const bool takes = takes_part(ranks, part, file, writers, true);
    constexpr size_t bytes = 4 * reals_of_links;
    SiteRecords records(ranks, box, bytes, data_at, takes, grain);
    const SiteAddresses address(box, links);
    const Convert converted = links.in_double ? convert<float, double> : convert<float, float>;
    PassingSums sums(FileKind::milc, bytes);
    const auto give = [&](size_t first, size_t count, unsigned char *at) {
#pragma omp parallel for schedule(static) if (count * bytes >= few_bytes)
        for (size_t k = 0; k < count; ++k)
            converted(at + k * bytes, address(first + k), reals_of_links);
    };
    records.write(file, give, std::ref(sums), fault_of(ranks, part, "written"));
    SiteFileHead head{FileKind::milc, box.whole, 4, reals_of_links, 0, 0, data_at, 1, sums.of_all_ranks(ranks), ""};
    time.copy(head.time, time_bytes - 1);
    ranks.collective("a file that is written", [&] {
        const int code = file.close();
        if (code != 0)
            throw fault_of(ranks, part, "written")(code, 0);
    });
    ranks.collective("a file that is written", [&] {
        if (ranks.rank() != 0)
            return;
        unsigned char bytes_of_head[data_at] = {};
        const auto put = [&](size_t at, uint32_t word) { std::memcpy(bytes_of_head + at, &word, 4); };
        put(0, milc_magic);
        for (size_t mu = 0; mu < 4; ++mu)
            put(4 + 4 * mu, uint32_t(box.whole[mu]));
        std::memcpy(bytes_of_head + 20, head.time, time_bytes);
        put(sums_at, head.sums.first), put(sums_at + 4, head.sums.second);
        whole.write(bytes_of_head, sizeof bytes_of_head);
        whole.finish();
    });
    return head;
}

} // namespace milcgpu
