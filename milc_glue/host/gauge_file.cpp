#include "milc_glue/host/gauge_file.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/host/lime.h"
#include "milc_glue/host/nersc_file.h"
#include "milc_glue/host/whole_file.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace milcgpu {

void check_extents(const std::string &path, size_t byte, const long long (&extents)[4], SiteFileHead &head) {
    double volume = 1;
    for (int mu = 0; mu < 4; ++mu) {
        volume *= double(extents[mu]);
        if (extents[mu] < 1 || volume > 1e13 || extents[mu] > 1 << 30)
            refuse_file(path, byte, format("extent %lld in direction %c", extents[mu], "xyzt"[mu]), file_is_damaged);
        head.extents[mu] = int(extents[mu]);
    }
}

namespace {

constexpr uint32_t milc_magic = 20103;
constexpr size_t sums_at = 88, data_at = 96, time_bytes = 64;

std::string text_of(const std::array<int, 4> &n) { return format("%d x %d x %d x %d", n[0], n[1], n[2], n[3]); }

uint32_t first_word(const FileBytes &file) {
    uint32_t first;
    if (file.size() < sizeof first)
        refuse_file(file.path(), file.size(), "the file ends inside its header", file_is_truncated);
    file.read(0, &first, sizeof first);
    return first;
}

std::optional<FileKind> kind_of(uint32_t first) {
    const auto is = [&](uint32_t magic) { return first == magic || __builtin_bswap32(first) == magic; };
    return is(lime_magic)                                        ? std::optional(FileKind::scidac)
           : is(milc_magic)                                      ? std::optional(FileKind::milc)
           : std::memcmp(&first, nersc_start, sizeof first) == 0 ? std::optional(FileKind::nersc)
                                                                 : std::nullopt;
}

// ---- version 5

SiteFileHead milc_head(const FileBytes &file, bool turned) {
    const std::string &path = file.path();
    if (file.size() < data_at)
        refuse_file(path, file.size(), "the file ends inside its header", file_is_truncated);
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
    const double bytes = gauge_file_bytes(head.extents); // bytes behind them are not read
    if (double(file.size()) < bytes)
        refuse_file(path, file.size(), format("the file should have %.0f bytes", bytes), file_is_truncated);
    return head;
}

// ---- SciDAC and ILDG

// An ILDG file that QIO wrote has its extents and its precision twice.
void require_same_in_ildg(const FileBytes &file, const LimeRecord &of_ildg, const SiteFileHead &head) {
    const Xml xml(file, of_ildg);
    const std::pair<const char *, int> said[] = {{"lx", head.extents[0]},
                                                 {"ly", head.extents[1]},
                                                 {"lz", head.extents[2]},
                                                 {"lt", head.extents[3]},
                                                 {"precision", 8 * head.real_bytes}};
    for (const auto &[tag, number] : said)
        if (const std::string text = xml.optional(tag); !text.empty() && text != std::to_string(number))
            refuse_file(file.path(), of_ildg.at,
                        format("<%s> of the record ildg-format is '%s', the SciDAC records say %d", tag,
                               quoted(text).c_str(), number),
                        "the file contradicts itself: write it again");
}

SiteFileHead lime_head(const FileBytes &file, int reals) {
    const std::string &path = file.path();
    SiteFileHead head{};
    head.kind = FileKind::scidac;
    head.turned = 1;
    head.reals = reals;
    long long n[4] = {};
    const LimeField field(file);
    const std::optional<LimeRecord> lattice = field.find("scidac-private-file-xml"),
                                    of_ildg = field.find("ildg-format");
    if (lattice && !(of_ildg && !field.find("scidac-private-record-xml"))) {
        const Xml about(file, *lattice);
        const std::string dims = about("dims"), parts = about.optional("volfmt");
        int count = 0;
        if (std::sscanf(dims.c_str(), "%lld %lld %lld %lld %n", &n[0], &n[1], &n[2], &n[3], &count) != 4 ||
            dims[size_t(count)] != '\0')
            refuse_file(path, lattice->at, format("dims '%s' are not four numbers", quoted(dims).c_str()),
                        "only four-dimensional lattices are read");
        check_extents(path, lattice->at, n, head);
        if (parts != "" && parts != "0") {
            head.listed = 1;
            return head;
        }
        const LimeRecord described = field.require("scidac-private-record-xml");
        const Xml xml(file, described);
        head.real_bytes = xml("precision") == "D" ? 8 : 4;
        if (std::atof(xml("datacount").c_str()) * std::atof(xml("typesize").c_str()) != double(head.site_bytes()))
            refuse_file(path, described.at, format("not %d reals of %d bytes a site", reals, head.real_bytes),
                        "use the reader of the file's own kind (gauge field or colour vector)");
        if (of_ildg)
            require_same_in_ildg(file, *of_ildg, head);
    } else { // an ILDG file of another program
        const LimeRecord described = field.require("ildg-format");
        const Xml xml(file, described);
        for (int mu = 0; mu < 4; ++mu)
            n[mu] = std::atoll(xml(std::string{'l', "xyzt"[mu]}).c_str());
        check_extents(path, described.at, n, head);
        const std::string precision = xml("precision");
        head.real_bytes = precision == "64" ? 8 : 4;
        if (reals != reals_of_links || (precision != "32" && precision != "64"))
            refuse_file(path, described.at, format("precision '%s' of a gauge field", quoted(precision).c_str()),
                        "32 and 64 bits are read");
    }
    const LimeRecord data = field.data();
    if (double(data.bytes) != head.sites() * double(head.site_bytes()))
        refuse_file(path, data.at,
                    format("the data record has %zu bytes, the lattice needs %.0f", data.bytes,
                           head.sites() * double(head.site_bytes())),
                    file_is_damaged);
    head.data = data.at;
    if (const std::optional<LimeRecord> record = field.find("scidac-checksum")) {
        const Xml xml(file, *record);
        if (std::sscanf(xml("suma").c_str(), "%x", &head.sums.first) != 1 ||
            std::sscanf(xml("sumb").c_str(), "%x", &head.sums.second) != 1)
            refuse_file(path, record->at, "the checksums are not hexadecimal", file_is_damaged);
        head.has_sums = 1;
    }
    return head;
}

// ---- the caller's field

// The address of the box's k-th site, x fastest, in the field.
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

// Converts records of a file to numbers of the field, and back.
using Convert = void (*)(void *, const void *, int);
Convert to_field(int real_bytes, const SiteField &field) {
    return real_bytes == 8 ? (field.in_double ? convert<double, double> : convert<float, double>)
                           : (field.in_double ? convert<double, float> : convert<float, float>);
}
Convert from_field(int real_bytes, const SiteField &field) {
    return real_bytes == 8 ? (field.in_double ? convert<double, double> : convert<double, float>)
                           : (field.in_double ? convert<float, double> : convert<float, float>);
}

template <class Real> bool are_finite_as(const void *numbers, int reals) {
    bool finite = true;
    for (int k = 0; k < reals; ++k) {
        Real value;
        std::memcpy(&value, static_cast<const Real *>(numbers) + k, sizeof value);
        finite = finite && std::isfinite(value);
    }
    return finite;
}
bool are_finite(const void *numbers, int reals, int real_bytes) {
    return real_bytes == 8 ? are_finite_as<double>(numbers, reals) : are_finite_as<float>(numbers, reals);
}

// The coordinates of the box's k-th site, x fastest, as text.
std::string place_in(const Box &box, size_t k) {
    std::string text;
    for (int mu = 0; mu < 4; ++mu) {
        text += format(mu == 0 ? "%d" : " %d", box.origin[mu] + int(k % box.extent[mu]));
        k /= box.extent[mu];
    }
    return text;
}

// Completes a link of which two rows are known: row 2 is the complex conjugate of row 0 x row 1.
template <class From, class To> void convert_two_rows(void *to, const void *from, int links) {
    for (int link = 0; link < links; ++link) {
        From u[12];
        std::memcpy(u, static_cast<const From *>(from) + 12 * link, sizeof u);
        To *const made = static_cast<To *>(to) + 18 * link;
        for (int k = 0; k < 12; ++k)
            made[k] = To(u[k]);
        for (int c = 0; c < 3; ++c) {
            const int a = 2 * ((c + 1) % 3), b = 2 * ((c + 2) % 3);
            const auto product = [&](int i, int j) { // conj(u[0][i] u[1][j])
                const double re = double(u[i]) * u[6 + j] - double(u[i + 1]) * u[7 + j],
                             im = double(u[i]) * u[7 + j] + double(u[i + 1]) * u[6 + j];
                return std::array<double, 2>{re, -im};
            };
            const auto first = product(a, b), second = product(b, a);
            made[12 + 2 * c] = To(first[0] - second[0]), made[13 + 2 * c] = To(first[1] - second[1]);
        }
    }
}
Convert to_field_of_two_rows(int real_bytes, const SiteField &field) {
    return real_bytes == 8 ? (field.in_double ? convert_two_rows<double, double> : convert_two_rows<double, float>)
                           : (field.in_double ? convert_two_rows<float, double> : convert_two_rows<float, float>);
}

// Sums records that pass through, and corrects their byte order.
class PassingSums {
  public:
    // turned_word: bytes of the numbers whose order is corrected; 0: none. turned: the records come in the other order.
    PassingSums(FileKind kind, size_t record, bool turned, size_t turned_word = 0)
        : kind_(kind), turned_(turned), record_(record), turned_word_(turned_word) {}
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
            uint32_t plain = 0;
#pragma omp for schedule(static)
            for (size_t k = 0; k < parts.size(); ++k) {
                const auto &[place, count, at] = parts[k];
                for (size_t i = 0; i < count && kind_ == FileKind::scidac; ++i)
                    crc.join(record_sums(place + i, crc32_of(at + i * record_, record_)));
                if (kind_ == FileKind::nersc)
                    plain += sum_of_words(at, count * record_, turned_);
                if (turned_word_ != 0)
                    turn_round(at, count * record_, turned_word_);
                if (kind_ == FileKind::milc)
                    words.add_at(place * (record_ / 4), at, count * record_);
            }
#pragma omp critical(sums_of_a_file)
            words_.join(words), crc_.join(crc), plain_ += plain;
        }
    }
    SumPair of_all_ranks(Ranks &ranks) const {
        struct Mine {
            SumPair pair;
            uint32_t plain;
        };
        SumPair sums;
        uint32_t plain = 0;
        for (const Mine &there :
             ranks.gathered("checksums of a file", Mine{kind_ == FileKind::milc ? words_.pair() : crc_, plain_}))
            sums.join(there.pair), plain += there.plain;
        return kind_ == FileKind::nersc ? SumPair{plain, 0} : sums;
    }

  private:
    FileKind kind_;
    bool turned_;
    size_t record_, turned_word_;
    RotatedSums words_;
    SumPair crc_;
    uint32_t plain_ = 0;
};

SiteRecords::Fault fault_of(const Ranks &ranks, const std::string &path, const char *verb) {
    return [&ranks, path, verb](int code, size_t byte) {
        return Error(Status::bad_argument,
                     format("%s, byte %zu: cannot be %s%s (%s); %s", quoted_name(path).c_str(), byte, verb,
                            ranks.size() > 1 ? " on this rank" : "",
                            code < 0 ? "the file ends here" : std::strerror(code),
                            code < 0 ? "copy it again, and make sure that nothing writes to it" : "check the disk"));
    };
}

// Returns whether this rank takes part. Throws on all ranks if all must take part and one cannot.
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
                        format("%s %s; put it where the hosts of all ranks see it under this name",
                               quoted_name(path).c_str(),
                               mine.code != 0
                                   ? format("cannot be opened (%s)", std::strerror(mine.code)).c_str()
                                   : format("has %zu bytes here, and %zu on rank 0", mine.bytes, first.bytes).c_str()));
    });
    return same;
}

// ---- what is written around the data

// The bytes before the data: the first 96 of version 5, the records of SciDAC.
std::string front_of(const std::array<int, 4> &n, const GaugeForm &form, const SumPair &sums) {
    if (form.kind == FileKind::milc) {
        std::string head(data_at, '\0');
        const auto put = [&](size_t at, uint32_t word) { std::memcpy(&head[at], &word, 4); };
        put(0, milc_magic);
        for (size_t mu = 0; mu < 4; ++mu)
            put(4 + 4 * mu, uint32_t(n[mu]));
        form.time.copy(&head[20], time_bytes - 1);
        put(sums_at, sums.first), put(sums_at + 4, sums.second);
        return head;
    }
    if (form.kind == FileKind::nersc)
        return nersc_front(n, form, sums.first);
    const char *const xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    const bool is_double = form.real_bytes == 8;
    const size_t bytes = size_t(form.real_bytes) * reals_of_links * size_t(n[0]) * n[1] * n[2] * n[3];
    std::string front =
        lime_record("scidac-private-file-xml",
                    format("%s<scidacFile><version>1.1</version><spacetime>4</spacetime><dims>%d %d %d "
                           "%d </dims><volfmt>0</volfmt></scidacFile>",
                           xml, n[0], n[1], n[2], n[3]),
                    {true, false}) +
        lime_record("scidac-file-xml", form.about, {false, true}) +
        lime_record("scidac-private-record-xml",
                    format("%s<scidacRecord><version>1.1</version><date>%s</date><recordtype>0</recordtype>"
                           "<datatype>USQCD_%c3_ColorMatrix</datatype><precision>%c</precision>"
                           "<colors>3</colors><typesize>%d</typesize><datacount>4</datacount>"
                           "</scidacRecord>",
                           xml, form.time.c_str(), is_double ? 'D' : 'F', is_double ? 'D' : 'F', 18 * form.real_bytes),
                    {true, false}) +
        lime_record("scidac-record-xml", form.record, {false, false});
    if (form.lfn)
        front += lime_record("ildg-format",
                             format("%s<ildgFormat xmlns=\"http://www.lqcd.org/ildg\" "
                                    "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                                    "xsi:schemaLocation=\"http://www.lqcd.org/ildg/filefmt.xsd\"><version>1.0</version>"
                                    "<field>su3gauge</field><precision>%d</precision><lx>%d</lx><ly>%d</ly><lz>%d</lz>"
                                    "<lt>%d</lt></ildgFormat>",
                                    xml, 8 * form.real_bytes, n[0], n[1], n[2], n[3]),
                             {false, false}) +
                 lime_record("ildg-data-lfn", *form.lfn, {false, false});
    return front + lime_header(form.lfn ? "ildg-binary-data" : "scidac-binary-data", bytes, {false, false});
}

std::string end_of(const GaugeForm &form, const SumPair &sums) {
    if (form.kind != FileKind::scidac)
        return "";
    return lime_record("scidac-checksum",
                       format("<?xml version=\"1.0\" encoding=\"UTF-8\"?><scidacChecksum><version>1.0</version>"
                              "<suma>%x</suma><sumb>%x</sumb></scidacChecksum>",
                              sums.first, sums.second),
                       {false, true});
}

} // namespace

FileTexts texts_of(const std::string &path) {
    const FileBytes file(path);
    const LimeField field(file);
    const auto text = [&](const char *type, const char *of_others) {
        const std::optional<LimeRecord> record = field.find(type);
        return record ? std::string(Xml(file, *record).text.c_str())
                      : format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s/>\n", of_others);
    };
    return {text("scidac-file-xml", "NonSciDACFile"), text("scidac-record-xml", "NonSciDACRecord")};
}

double gauge_file_bytes(const std::array<int, 4> &n) {
    return double(data_at) + 4.0 * reals_of_links * n[0] * n[1] * n[2] * n[3];
}

std::optional<SiteFileHead> known_head_of(const std::string &path, int reals) {
    const FileBytes file(path);
    const uint32_t first = first_word(file);
    const std::optional<FileKind> kind = kind_of(first);
    if (!kind)
        return {};
    return *kind == FileKind::scidac  ? lime_head(file, reals)
           : *kind == FileKind::nersc ? nersc_head(file)
                                      : milc_head(file, first != milc_magic);
}

std::optional<FileKind> kind_of(const std::string &path) { return kind_of(first_word(FileBytes(path))); }

SiteFileHead head_of(const std::string &path, int reals) {
    const std::optional<SiteFileHead> head = known_head_of(path, reals);
    if (!head)
        refuse_file(path, 0, "neither a gauge file of MILC's version 5 nor a SciDAC, ILDG or NERSC file",
                    "write it in one of these formats");
    if (head->listed && head->kind == FileKind::scidac)
        refuse_file(path, 0, "one of several files of a lattice",
                    "join them with QIO, or save a single file with MILC");
    if (head->listed)
        refuse_file(path, 84, "the sites are in an order of their own (coordinate table)",
                    "save it with MILC as a serial file (save_serial)");
    if (head->reals != reals)
        refuse_file(path, 0, format("a gauge field, not %d reals a site", reals),
                    "use the reader of the file's own kind (gauge field or colour vector)");
    return *head;
}

void require_extents(const std::string &path, const SiteFileHead &head, const std::array<int, 4> &whole) {
    if (head.extents != whole)
        refuse_file(path, head.kind == FileKind::milc ? 4 : 0,
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
    const bool whole_links = head.rows == 3;
    const Convert converted =
        whole_links ? to_field(head.real_bytes, field) : to_field_of_two_rows(head.real_bytes, field);
    PassingSums sums(head.kind, bytes, head.turned != 0, head.turned ? size_t(head.real_bytes) : 0);
    const auto take = [&](size_t first, size_t count, unsigned char *at) {
#pragma omp parallel for schedule(static) if (count * bytes >= few_bytes)
        for (size_t k = 0; k < count; ++k)
            converted(address(first + k), at + k * bytes, whole_links ? head.reals : head.reals / 18);
    };
    records.read(file, std::ref(sums), take, fault_of(ranks, path, "read"));
    return sums.of_all_ranks(ranks);
}

void require_sums(const std::string &path, const SiteFileHead &head, const SumPair &found) {
    const auto text = [&](const SumPair &sums) {
        return head.kind == FileKind::nersc ? format("%x", sums.first) : format("%x %x", sums.first, sums.second);
    };
    if (head.has_sums && !(found == head.sums))
        refuse_file(path, head.data,
                    format("checksum %s, but the file says %s", text(found).c_str(), text(head.sums).c_str()),
                    "the data are damaged: copy the file again from its source");
}

SiteFileHead write_gauge(Ranks &ranks, const Box &box, const std::string &path, const SiteField &links,
                         const GaugeForm &form, Readers writers, const SiteRecords::Grain &grain, bool *disk_failed) {
    bool unused;
    bool &is_begun = *(disk_failed != nullptr ? disk_failed : &unused) = false;
    const bool big_endian = form.kind != FileKind::milc;
    const size_t bytes = size_t(form.real_bytes) * reals_of_links / 3 * form.rows;
    const double data_bytes = double(bytes) * box.whole_sites();
    WholeFile whole; // on rank 0
    struct Start {
        char name[4096];
        size_t data;
    } start{};
    ranks.collective("a file that is written", [&] {
        if (ranks.rank() != 0)
            return;
        start.data = front_of(box.whole, form, {}).size();
        const double all = double(start.data) + data_bytes;
        whole.open(path, all + double(end_of(form, {}).size()), true);
        if (whole.part().size() >= sizeof start.name)
            throw Error(Status::bad_argument, quoted_name(path) + " is too long a name");
        is_begun = true;
        whole.extend(size_t(all));
        std::snprintf(start.name, sizeof start.name, "%s", whole.part().c_str());
    });
    start = ranks.gathered("the name of a file", start)[0];
    const std::string part = start.name;
    OpenFile file;
    const bool takes = takes_part(ranks, part, file, writers, true);
    SiteRecords records(ranks, box, bytes, start.data, takes, grain);
    const SiteAddresses address(box, links);
    const Convert converted = from_field(form.real_bytes, links);
    PassingSums sums(form.kind, bytes, big_endian);
    size_t lost = SIZE_MAX; // the first site of the box with a number that the file cannot hold
    const int reals = 6 * form.rows;
    const size_t link_bytes = size_t(reals) * form.real_bytes, own_link_bytes = links.in_double ? 144 : 72;
    const auto give = [&](size_t first, size_t count, unsigned char *at) {
#pragma omp parallel for schedule(static) reduction(min : lost) if (count * bytes >= few_bytes)
        for (size_t k = 0; k < count; ++k) {
            for (int mu = 0; mu < 4; ++mu)
                converted(at + k * bytes + mu * link_bytes, address(first + k) + mu * own_link_bytes, reals);
            if (!are_finite(at + k * bytes, 4 * reals, form.real_bytes))
                lost = std::min(lost, first + k);
            if (big_endian)
                turn_round(at + k * bytes, bytes, size_t(form.real_bytes));
        }
    };
    records.write(file, give, std::ref(sums), fault_of(ranks, part, "written"));
    ranks.collective("a file that is written", [&] {
        if (lost != SIZE_MAX)
            throw Error(Status::nan_or_inf,
                        format("%s is not written: the links of x y z t = %s have NaN or infinity, or more than a "
                               "number of %d bytes holds",
                               quoted_name(path).c_str(), place_in(box, lost).c_str(), form.real_bytes));
    });
    SiteFileHead head{form.kind, box.whole, form.real_bytes, reals_of_links, int(big_endian), 0, start.data, 1,
                      {},        "",        form.rows,       form.plaquette};
    head.sums = sums.of_all_ranks(ranks);
    if (form.kind != FileKind::scidac)
        form.time.copy(head.time, time_bytes - 1);
    ranks.collective("a file that is written", [&] {
        const int synced = file.sync(), closed = file.close();
        if (synced != 0 || closed != 0)
            throw fault_of(ranks, part, "written")(synced != 0 ? synced : closed, 0);
    });
    ranks.collective("a file that is written", [&] {
        if (ranks.rank() != 0)
            return;
        // Another host may have written to the last page of the data. A file that is opened after that shows it.
        const std::string front = front_of(box.whole, form, head.sums), end = end_of(form, head.sums);
        const size_t behind = start.data + size_t(data_bytes);
        int code = file.open(part, true);
        code = code != 0 ? code : file.write(behind, end.data(), end.size());
        const int closed = file.close();
        if (code != 0 || closed != 0)
            throw fault_of(ranks, part, "written")(code != 0 ? code : closed, behind);
        whole.write(front.data(), front.size());
        whole.complete();
        is_begun = false;
        whole.finish();
    });
    return head;
}

} // namespace milcgpu
