// Gauge fields in files, read and written by all ranks: MILC's version 5, SciDAC and ILDG single files, NERSC archives.
// Links carry no phases in such files. Real numbers are converted to the precision of the field.
//
//   version 5   byte 0   int32 20103, extents[4], char time[64], int32 order of the sites: 0 (x fastest)
//               byte 88  uint32 sum29, sum31
//               byte 96  for each site four 3x3 complex matrices of floats, row by row. All in one byte order
//   LIME        records of a header of 144 bytes and data padded to 8 bytes, big endian; the links are in
//               scidac-binary-data or ildg-binary-data, float or double
//   NERSC       nersc_file.h
//
// All functions throw Error(bad_argument) on all ranks. The message has the file, the byte, what is wrong and what to
// do.
#pragma once
#include "gpu_kernels/machine/comm/boxes.h"
#include "milc_glue/host/file_sums.h"
#include "milc_glue/host/site_records.h"
#include <cmath>
#include <optional>
#include <string>

namespace milcgpu {

enum class FileKind { milc = 1, scidac = 2, nersc = 3 };

// The head of a file.
struct SiteFileHead {
    FileKind kind;
    std::array<int, 4> extents;
    int real_bytes, reals;  // bytes of a number; numbers per site of a field
    int turned;             // 1: the byte order is not this machine's
    int listed;             // 1: the sites are in an order of their own or in several files, which is not read
    size_t data;            // byte of the first site
    int has_sums;           // 0: the file has no checksums (ILDG files of other programs)
    SumPair sums;           // kind milc: sum29, sum31; scidac: suma, sumb; nersc: the sum of all words, 0
    char time[64];          // empty if the format has no time
    int rows = 3;           // of each link in the file; 2: kind nersc without the third rows
    double plaquette = NAN; // kind nersc: mean of Re tr / 3, if the file says it
    size_t site_bytes() const { return size_t(reals) / 3 * rows * real_bytes; }
    double sites() const { return double(extents[0]) * extents[1] * extents[2] * extents[3]; }
};
constexpr int reals_of_links = 4 * 18, reals_of_vector = 6;

// The kind by the first word of the file, on this rank. No value if it is another kind.
std::optional<FileKind> kind_of(const std::string &path);
// Reads only the head, on this rank. reals: the numbers that each site must have. No value if the file is of another
// kind.
std::optional<SiteFileHead> known_head_of(const std::string &path, int reals = reals_of_links);
// The same, but throws if the file is of another kind, or listed.
SiteFileHead head_of(const std::string &path, int reals = reals_of_links);
// The texts (XML) of a SciDAC or ILDG file and of its first field; QIO's defaults if it has none.
struct FileTexts {
    std::string about, record;
};
FileTexts texts_of(const std::string &path);

// Throws if these cannot be the extents of a lattice; byte: where the file says them. Else fills head.extents.
void check_extents(const std::string &path, size_t byte, const long long (&extents)[4], SiteFileHead &head);
// Throws if the file is of another lattice.
void require_extents(const std::string &path, const SiteFileHead &head, const std::array<int, 4> &whole);

// A field of the caller: `reals` numbers per site of a box, in MILC's order (even sites first, x fastest), each site
// `pitch` bytes behind the one before.
struct SiteField {
    void *data;
    bool in_double;
    size_t pitch;
    const int *map = nullptr; // the caller's index of the k-th site in that order; nullptr: that order
};

// All ranks call the functions below, with the same path.

// Files are slow, and a rank may read for a long time: while such an object exists, other ranks wait for it `factor`
// times as long.
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

// How a file is shared. everyone: each rank must see the file; able: ranks that see the same file as rank 0 take part;
// first: rank 0 alone reads or writes the sites of all ranks.
enum class Readers { everyone, able, first };

// The head of the file that rank 0 sees, on all ranks. Throws if its extents are not these.
SiteFileHead common_head(Ranks &ranks, const std::string &path, const std::array<int, 4> &whole, int reals);
// Reads all sites and returns the checksum of what was read. If it throws, the field has a part of the file, and 0 at
// sites that could not be read.
SumPair read_sites(Ranks &ranks, const Box &box, const std::string &path, const SiteFileHead &head,
                   const SiteField &field, Readers readers = Readers::everyone,
                   const SiteRecords::Grain &grain = SiteRecords::usual);
// Throws if the checksum is not the head's.
void require_sums(const std::string &path, const SiteFileHead &head, const SumPair &found);

// How a file is written: version 5 in single precision and the machine's byte order, SciDAC and ILDG with QIO's bytes,
// NERSC in big endian.
struct GaugeForm {
    FileKind kind = FileKind::milc;
    std::string time = {};                  // of writing; version 5 keeps at most 63 characters
    int real_bytes = 4;                     // scidac, nersc: 4 or 8
    std::string about = {}, record = {};    // scidac: the texts (XML) of the file and of the field
    std::optional<std::string> lfn = {};    // scidac: ILDG, with this name
    int rows = 3;                           // nersc: 2 leaves the third rows out
    double plaquette = NAN, link_trace = 0; // nersc: means of Re tr / 3
    std::string ensemble_id = {}, ensemble_label = {};
    int sequence_number = 0;
};
// The file gets its name when it is whole and on the disk; until then an older file of that name stays. Returns its
// head. Throws Error(nan_or_inf) if a number is not finite in the file's precision. disk_failed (out), on rank 0: if
// the function throws, whether the file was begun and is not whole.
SiteFileHead write_gauge(Ranks &ranks, const Box &box, const std::string &path, const SiteField &links,
                         const GaugeForm &form, Readers writers = Readers::everyone,
                         const SiteRecords::Grain &grain = SiteRecords::usual, bool *disk_failed = nullptr);
// The size of a file of version 5.
double gauge_file_bytes(const std::array<int, 4> &extents);

} // namespace milcgpu
