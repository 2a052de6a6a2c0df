// Gauge fields in files, read and written by all ranks: MILC's version 5, SciDAC and ILDG single files. Links carry no
// phases in such files. Real numbers are turned into those of the field.
//
//   version 5   byte 0   int32 20103, extents[4], char time[64], int32 order of the sites: 0 (x fastest)
//               byte 88  uint32 sum29, sum31
//               byte 96  for each site four 3x3 complex matrices of floats, row by row. All in one byte order
//   LIME        records of a header of 144 bytes and data padded to 8 bytes, big endian; the links are in
//               scidac-binary-data or ildg-binary-data, float or double
//
// All functions throw Error(bad_argument), on all ranks: file, byte, what it is and what to do.
#pragma once
#include "gpu_kernels/machine/comm/boxes.h"
#include "milc_glue/host/file_sums.h"
#include "milc_glue/host/site_records.h"
#include <optional>
#include <string>

namespace milcgpu {

enum class FileKind { milc = 1, scidac = 2 };

// What a file says of itself.
struct SiteFileHead {
    FileKind kind;
    std::array<int, 4> extents;
    int real_bytes, reals; // of a number, and numbers of a site
    int turned;            // 1: of the other byte order than this machine
    int listed;            // 1: the sites are in an order of their own or in several files, which is not read
    size_t data;           // byte of the first site
    int has_sums;          // 0: none are there (ILDG files of other programs)
    SumPair sums;          // of kind milc: sum29, sum31; scidac: suma, sumb
    char time[64];         // empty where the format has none
    size_t site_bytes() const { return size_t(reals) * real_bytes; }
    double sites() const { return double(extents[0]) * extents[1] * extents[2] * extents[3]; }
};
constexpr int reals_of_links = 4 * 18, reals_of_vector = 6;

// By the first word of the file, on this rank. Nothing, where the file is of another kind.
std::optional<FileKind> kind_of(const std::string &path);
// Reads the head alone, on this rank. reals: what each site is to have. Nothing, where the file is of another kind.
std::optional<SiteFileHead> known_head_of(const std::string &path, int reals = reals_of_links);
// Throws where it is of another kind, or listed.
SiteFileHead head_of(const std::string &path, int reals = reals_of_links);
// Of a SciDAC or ILDG file the texts (XML) of the file and of its first field; QIO's where it has none.
struct FileTexts {
    std::string about, record;
};
FileTexts texts_of(const std::string &path);

// Throws where it is of another lattice.
void require_extents(const std::string &path, const SiteFileHead &head, const std::array<int, 4> &whole);

// A field of the caller's: `reals` numbers a site of a box, in MILC's order (even sites first, x fastest), each site
// `pitch` bytes behind the one before.
struct SiteField {
    void *data;
    bool in_double;
    size_t pitch;
    const int *map = nullptr; // the caller's index of the k-th site in that order; nullptr: that order
};

// What follows is called by all ranks, with the same path.

// Files are slow, and a rank may read for long: while one of these lives, waits of other ranks for it have this many of
// the time limit.
class FilePatience {
  public:
    static constexpr double factor = 60;
    explicit FilePatience(Ranks &ranks) : ranks_(ranks), before_(ranks.time_limit()) {
        ranks.set_time_limit(factor * before_);
    }
    FilePatience(const FilePatience &) = delete;
    ~FilePatience() { ranks_.set_time_limit(before_); }

  private:
    Ranks &ranks_;
    double before_;
};

// How a file is shared. everyone: each rank must see the file; able: those that see the same file as rank 0 take part;
// first: rank 0 alone reads or writes, and the others have their sites from it.
enum class Readers { everyone, able, first };

// The head, on all ranks, of the file that rank 0 sees; throws where it is not of these extents.
SiteFileHead common_head(Ranks &ranks, const std::string &path, const std::array<int, 4> &whole, int reals);
// Reads all sites. The answer is the checksum of what was read. If it throws, the field has a part of the file,
// and 0 where it could not be read.
SumPair read_sites(Ranks &ranks, const Box &box, const std::string &path, const SiteFileHead &head,
                   const SiteField &field, Readers readers = Readers::everyone,
                   const SiteRecords::Grain &grain = SiteRecords::usual);
// Throws where it is not that of the head.
void require_sums(const std::string &path, const SiteFileHead &head, const SumPair &found);

// How a file is written: version 5 in single precision and the machine's byte order, SciDAC and ILDG with QIO's bytes.
struct GaugeForm {
    FileKind kind = FileKind::milc;
    std::string time = {};               // of writing; of version 5 at most 63 characters count
    int real_bytes = 4;                  // scidac: 4 or 8
    std::string about = {}, record = {}; // scidac: the texts (XML) of the file and of the field
    std::optional<std::string> lfn = {}; // scidac: ILDG, with this name
};
// The file has its name when it is whole and on the disk; until then an older one of that name stays. Returns what it
// says of itself. Throws Error(nan_or_inf) if a number is not finite, as the file has it.
// disk_failed (out), on rank 0: if it throws, whether the file was begun and is not whole.
SiteFileHead write_gauge(Ranks &ranks, const Box &box, const std::string &path, const SiteField &links,
                         const GaugeForm &form, Readers writers = Readers::everyone,
                         const SiteRecords::Grain &grain = SiteRecords::usual, bool *disk_failed = nullptr);
// Of version 5.
double gauge_file_bytes(const std::array<int, 4> &extents);

} // namespace milcgpu
