// Records of all sites in a file, one behind the other, x fastest, then y, z, t; and ranks that have a box of the
// lattice each. No rank has more than its box and a few pieces of the file.
//
// Where a rank's sites lie together in runs of 64 kB, and on one host anyway, it reads and writes them itself, at the
// speed of the disk.
//
// Else the file is divided into shares of neighbouring records, one for each rank that has it open. A rank reads its
// share in large pieces and sends each box its part of a piece, which lies together in the order of the box. It is
// written the other way round, in all cases where there are several hosts: shares that are written end at multiples of
// 64 kB of the file, so that no two hosts write to one page, which NFS would lose.
#pragma once
#include "gpu_kernels/machine/comm/boxes.h"
#include <functional>
#include <memory>
#include <vector>

namespace milcgpu {

// A file that may be open on some ranks; closed at the end.
class OpenFile {
  public:
    OpenFile() = default;
    OpenFile(const OpenFile &) = delete;
    ~OpenFile() { close(); }
    int open(const std::string &path, bool to_write); // errno; 0: it is open
    int sync();                                       // to the disk: likewise
    int close();                                      // likewise
    bool is_open() const { return number_ >= 0; }
    // All of it, or errno; -1: the file ends before.
    int read(size_t at, void *to, size_t bytes) const;
    int write(size_t at, const void *from, size_t bytes) const;
    bool is_plain() const; // no folder, pipe or device
    size_t bytes() const;

  private:
    int number_ = -1;
};

class SiteRecords {
  public:
    struct Grain {
        size_t page, piece; // bytes
        bool by_shares;     // in any case
    };
    static constexpr Grain usual{size_t{1} << 16, size_t{1} << 25, false};
    // All ranks call it, and what follows. begin: the first record's place in the file. takes_part: whether this rank
    // has it open; one at least.
    SiteRecords(Ranks &ranks, const Box &box, size_t record_bytes, size_t begin, bool takes_part,
                const Grain &grain = usual);

    // Records of the file from a place on, one behind the other.
    struct Run {
        size_t place, count;
        unsigned char *records;
    };
    // pass(runs): each record on one rank once; it may change those that are read. take and give: records of the box's
    // sites `first` to first + count, x fastest, in the box and of the caller.
    using Pass = std::function<void(const std::vector<Run> &)>;
    using Body = std::function<void(size_t first, size_t count, unsigned char *records)>;
    // Throws, on all ranks, the Error that fault(errno or -1, byte) makes if a rank cannot read or write. Records that
    // could not be read are taken as 0.
    using Fault = std::function<Error(int code, size_t byte)>;
    void read(const OpenFile &file, const Pass &pass, const Body &take, const Fault &fault);
    void write(const OpenFile &file, const Body &give, const Pass &pass, const Fault &fault);

  private:
    struct Span { // of records
        size_t from, to;
        size_t count() const { return to - from; }
    };
    struct Part { // of a piece, for one rank: sites of its box
        int rank;
        Span sites;
        size_t at; // in a buffer, in bytes
    };
    struct Buffers {
        std::vector<unsigned char> raw, packed, own;
    };
    static size_t place(const Box &box, size_t site);
    static size_t before(const Box &box, size_t place); // sites of the box in front of a place
    size_t bound(int share, bool to_write) const;       // in bytes from `begin`
    Span piece(int share, size_t round, bool to_write) const;
    std::vector<Part> parts_of(const Span &piece) const;            // of all boxes
    std::vector<Part> own_parts(size_t round, bool to_write) const; // of all pieces of a round; rank: who has it
    template <class Copy> void for_rows(const Part &part, const Span &piece, const Copy &copy) const;
    void exchange(const std::vector<Part> &of_piece, const std::vector<Part> &own, bool to_boxes);
    size_t rounds(bool to_write) const;
    std::vector<Run> runs_of(const Span &sites); // of this rank's box, in `own`; none is longer than a part of a piece
    struct Trouble { // what went wrong first on a rank: it goes on with the others, and all hear of it at the end
        int code = 0;
        size_t byte = 0;
        void keep(int now, size_t at);
        void read(const OpenFile &file, size_t at, void *to, size_t bytes);
    };
    void read_shares(const OpenFile &file, const Pass &pass, const Body &take, Trouble &trouble);
    void write_shares(const OpenFile &file, const Body &give, const Pass &pass, Trouble &trouble);
    void read_own(const OpenFile &file, const Pass &pass, const Body &take, Trouble &trouble);
    void write_own(const OpenFile &file, const Body &give, const Pass &pass, Trouble &trouble);

    Ranks &ranks_;
    std::vector<Box> boxes_;
    std::vector<int> holders_; // ranks that have a share
    int share_ = -1;           // this rank's; -1: none
    bool reads_own_, writes_own_;
    size_t record_, begin_, bytes_;
    Grain grain_;
    std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
};

} // namespace milcgpu
