#include "milc_glue/host/site_records.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/open_file.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>

namespace milcgpu {

// ---- files

int OpenFile::open(const std::string &path, bool to_write) {
    close();
    number_ = open_file(path.c_str(), (to_write ? O_WRONLY | O_NOFOLLOW : O_RDONLY) | O_NONBLOCK); // a pipe would wait
    return number_ < 0 ? errno : 0;
}

int OpenFile::sync() { return is_open() ? sync_file(number_) : 0; }

int OpenFile::close() {
    const int number = number_;
    number_ = -1;
    return number >= 0 && ::close(number) != 0 ? errno : 0;
}

bool OpenFile::is_plain() const {
    struct stat there;
    return fstat(number_, &there) == 0 && S_ISREG(there.st_mode);
}

size_t OpenFile::bytes() const {
    struct stat there;
    return fstat(number_, &there) == 0 ? size_t(there.st_size) : 0;
}

int OpenFile::read(size_t at, void *to, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(number_, static_cast<char *>(to) + done, bytes - done, off_t(at + done));
        if (n == 0)
            return -1;
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? size_t(n) : 0;
    }
    return 0;
}

int OpenFile::write(size_t at, const void *from, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(number_, static_cast<const char *>(from) + done, bytes - done, off_t(at + done));
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? size_t(n) : 0;
    }
    return 0;
}

// ---- which rank has what

namespace {

// The bytes that a rank reads or writes by itself at a time: they are still in the cache when they are summed and
// copied.
constexpr size_t in_cache = size_t{1} << 22;

// Identifies the running system until its next boot; all zeros: not known.
struct HostName {
    char text[40];
};
HostName host_name() {
    HostName name{};
    OpenFile file;
    if (file.open("/proc/sys/kernel/random/boot_id", false) == 0)
        file.read(0, name.text, 36);
    return name;
}

// The number of sites of a box that are contiguous in the file.
size_t sites_in_a_row(const Box &box) {
    size_t sites = 1;
    for (int mu = 0; mu < 4; ++mu) {
        sites *= box.extent[mu];
        if (box.cut(mu))
            break;
    }
    return sites;
}

} // namespace

SiteRecords::SiteRecords(Ranks &ranks, const Box &box, size_t record_bytes, size_t begin, bool takes_part,
                         const Grain &grain)
    : ranks_(ranks), boxes_(ranks.gathered("boxes of a file", box)), record_(record_bytes), begin_(begin),
      bytes_(size_t(box.whole_sites()) * record_bytes), grain_(grain) {
    struct Reader {
        HostName host;
        int takes_part;
    };
    const std::vector<Reader> readers = ranks.gathered("readers of a file", Reader{host_name(), takes_part});
    bool one_host = ranks.size() == 1 || readers[0].host.text[0] != '\0';
    reads_own_ = true;
    for (int rank = 0; rank < ranks.size(); ++rank) {
        one_host = one_host && std::memcmp(&readers[rank].host, &readers[0].host, sizeof(HostName)) == 0;
        reads_own_ = reads_own_ && sites_in_a_row(boxes_[rank]) * record_ >= grain.page;
    }
    reads_own_ = reads_own_ || one_host;
    writes_own_ = one_host;
    for (int rank = 0; rank < ranks.size(); ++rank)
        if (readers[rank].takes_part == 0) {
            reads_own_ = writes_own_ = false;
        } else {
            if (rank == ranks.rank())
                share_ = int(holders_.size());
            holders_.push_back(rank);
        }
    if (grain.by_shares)
        reads_own_ = writes_own_ = false;
}

size_t SiteRecords::place(const Box &box, size_t site) {
    size_t place = 0, stride = 1;
    for (int mu = 0; mu < 4; ++mu) {
        place += (box.origin[mu] + site % box.extent[mu]) * stride;
        site /= box.extent[mu], stride *= box.whole[mu];
    }
    return place;
}

size_t SiteRecords::before(const Box &box, size_t place) {
    size_t count = 0;
    std::array<size_t, 4> stride{1}, inner{1};
    for (int mu = 1; mu < 4; ++mu) {
        stride[mu] = stride[mu - 1] * box.whole[mu - 1];
        inner[mu] = inner[mu - 1] * box.extent[mu - 1];
    }
    for (int mu = 3; mu >= 0; --mu) {
        const long at = long(place / stride[mu]) - box.origin[mu];
        place %= stride[mu];
        count += size_t(std::clamp(at, 0L, long(box.extent[mu]))) * inner[mu];
        if (at < 0 || at >= box.extent[mu])
            break;
    }
    return count;
}

size_t SiteRecords::bound(int share, bool to_write) const {
    const size_t shares = holders_.size(), records = bytes_ / record_;
    if (size_t(share) == shares)
        return bytes_;
    const size_t even = records / shares * share + records % shares * share / shares;
    if (!to_write || share == 0)
        return even * record_;
    const size_t in_file = (begin_ + even * record_ + grain_.page - 1) / grain_.page * grain_.page;
    return std::min(in_file - begin_, bytes_);
}

// Records that a piece has a byte of. When shares are written, two ranks have a record at the end of a share.
SiteRecords::Span SiteRecords::piece(int share, size_t round, bool to_write) const {
    const size_t from = bound(share, to_write), to = bound(share + 1, to_write),
                 step = std::max(grain_.piece / record_, size_t{1});
    const Span all{from / record_, from == to ? from / record_ : (to + record_ - 1) / record_};
    return {std::min(all.from + round * step, all.to), std::min(all.from + (round + 1) * step, all.to)};
}

size_t SiteRecords::rounds(bool to_write) const {
    size_t most = 0;
    for (int share = 0; share < int(holders_.size()); ++share)
        while (piece(share, most, to_write).count() > 0)
            ++most;
    return most;
}

std::vector<SiteRecords::Part> SiteRecords::parts_of(const Span &piece) const {
    std::vector<Part> parts;
    size_t at = 0;
    for (int rank = 0; rank < ranks_.size() && piece.count() > 0; ++rank) {
        const Span sites{before(boxes_[rank], piece.from), before(boxes_[rank], piece.to)};
        if (sites.count() > 0)
            parts.push_back({rank, sites, at});
        at += sites.count() * record_;
    }
    return parts;
}

std::vector<SiteRecords::Part> SiteRecords::own_parts(size_t round, bool to_write) const {
    std::vector<Part> parts;
    size_t at = 0;
    for (int share = 0; share < int(holders_.size()); ++share) {
        const Span of = piece(share, round, to_write);
        const Box &box = boxes_[ranks_.rank()];
        const Span sites{before(box, of.from), before(box, of.to)};
        if (sites.count() > 0)
            parts.push_back({holders_[share], sites, at});
        at += sites.count() * record_;
    }
    return parts;
}

// copy(byte in the piece, byte in the part's buffer, bytes), in rows along x.
template <class Copy> void SiteRecords::for_rows(const Part &part, const Span &piece, const Copy &copy) const {
    const Box &box = boxes_[part.rank];
    for (size_t site = part.sites.from; site < part.sites.to;) {
        const size_t count = std::min(box.extent[0] - site % box.extent[0], part.sites.to - site);
        copy((place(box, site) - piece.from) * record_, part.at + (site - part.sites.from) * record_, count * record_);
        site += count;
    }
}

// Exchanges the parts of this rank's piece, in `packed`, for its own parts of all pieces, in `own`.
void SiteRecords::exchange(const std::vector<Part> &of_piece, const std::vector<Part> &own, bool to_boxes) {
    std::vector<Message> messages;
    const auto add = [&](const Part &part, std::vector<unsigned char> &buffer, bool sends) {
        unsigned char *const at = buffer.data() + part.at;
        if (part.rank != ranks_.rank())
            messages.push_back(
                {part.rank, sends ? at : nullptr, sends ? nullptr : at, part.sites.count() * record_, 0, "of a file"});
    };
    for (const Part &part : of_piece)
        add(part, buffers_->packed, to_boxes);
    for (const Part &part : own)
        add(part, buffers_->own, !to_boxes);
    if (!messages.empty()) {
        constexpr const char *phase = "sites of a file";
        Exchange(ranks_, phase, messages, buffers_).finish();
        if (const Message *changed = ranks_.changed_message(phase, messages))
            ranks_.note_lost(changed->peer);
    }
    const auto of_self = [&](const std::vector<Part> &parts) {
        return std::find_if(parts.begin(), parts.end(), [&](const Part &p) { return p.rank == ranks_.rank(); });
    };
    const auto from = of_self(of_piece), to = of_self(own);
    if (from == of_piece.end())
        return;
    unsigned char *const packed = buffers_->packed.data() + from->at, *const mine = buffers_->own.data() + to->at;
    std::memcpy(to_boxes ? mine : packed, to_boxes ? packed : mine, from->sites.count() * record_);
}

// ---- reading and writing

void SiteRecords::Trouble::keep(int now, size_t at) {
    if (now == 0)
        return;
#pragma omp critical(trouble_of_a_file)
    if (code == 0)
        code = now, byte = at;
}

void SiteRecords::Trouble::read(const OpenFile &file, size_t at, void *to, size_t bytes) {
    const int now = file.read(at, to, bytes);
    if (now != 0)
        std::memset(to, 0, bytes); // clears what was read before
    keep(now, at);
}

std::vector<SiteRecords::Run> SiteRecords::runs_of(const Span &sites) {
    const Box &box = boxes_[ranks_.rank()];
    const size_t row = sites_in_a_row(box), most = std::max((size_t{1} << 20) / record_, size_t{1});
    std::vector<Run> runs;
    for (size_t site = sites.from; site < sites.to;) {
        const size_t count = std::min({row - site % row, sites.to - site, most});
        runs.push_back({place(box, site), count, &buffers_->own[(site - sites.from) * record_]});
        site += count;
    }
    return runs;
}

void SiteRecords::read_own(const OpenFile &file, const Pass &pass, const Body &take, Trouble &trouble) {
    const size_t all = size_t(boxes_[ranks_.rank()].sites()),
                 step = std::max(std::min(grain_.piece, in_cache) / record_, size_t{1});
    buffers_->own.resize(std::min(step, all) * record_);
    for (size_t from = 0; from < all; from += step) {
        const Span sites{from, std::min(from + step, all)};
        const std::vector<Run> runs = runs_of(sites);
#pragma omp parallel for schedule(static) if (sites.count() * record_ >= few_bytes)
        for (size_t k = 0; k < runs.size(); ++k) {
            const size_t at = begin_ + runs[k].place * record_;
            trouble.read(file, at, runs[k].records, runs[k].count * record_);
        }
        pass(runs);
        take(sites.from, sites.count(), buffers_->own.data());
    }
}

void SiteRecords::write_own(const OpenFile &file, const Body &give, const Pass &pass, Trouble &trouble) {
    const size_t all = size_t(boxes_[ranks_.rank()].sites()),
                 step = std::max(std::min(grain_.piece, in_cache) / record_, size_t{1});
    buffers_->own.resize(std::min(step, all) * record_);
    for (size_t from = 0; from < all; from += step) {
        const Span sites{from, std::min(from + step, all)};
        give(sites.from, sites.count(), buffers_->own.data());
        const std::vector<Run> runs = runs_of(sites);
        pass(runs);
#pragma omp parallel for schedule(static) if (sites.count() * record_ >= few_bytes)
        for (size_t k = 0; k < runs.size(); ++k) {
            const size_t at = begin_ + runs[k].place * record_;
            trouble.keep(file.write(at, runs[k].records, runs[k].count * record_), at);
        }
    }
}

namespace {

size_t bytes_of_parts(size_t record, size_t at, size_t count) { return at + count * record; }

} // namespace

void SiteRecords::read_shares(const OpenFile &file, const Pass &pass, const Body &take, Trouble &trouble) {
    const size_t count = rounds(false);
    for (size_t round = 0; round < count; ++round) {
        const Span here = share_ < 0 ? Span{0, 0} : piece(share_, round, false);
        const std::vector<Part> of_piece = parts_of(here), own = own_parts(round, false);
        const bool is_all_mine = of_piece.size() == 1 && of_piece[0].rank == ranks_.rank();
        ranks_.collective("memory for a file", [&] {
            buffers_->raw.resize(here.count() * record_);
            buffers_->packed.resize(is_all_mine ? 0 : here.count() * record_);
            buffers_->own.resize(own.empty() || (is_all_mine && own.size() == 1)
                                     ? 0
                                     : bytes_of_parts(record_, own.back().at, own.back().sites.count()));
        });
        if (here.count() > 0) {
            const size_t at = begin_ + here.from * record_;
            trouble.read(file, at, buffers_->raw.data(), buffers_->raw.size());
            pass({{here.from, here.count(), buffers_->raw.data()}});
        }
        if (is_all_mine) {
            take(of_piece[0].sites.from, of_piece[0].sites.count(), buffers_->raw.data());
        } else
            for (const Part &part : of_piece)
                for_rows(part, here, [&](size_t in_piece, size_t in_part, size_t bytes) {
                    std::memcpy(&buffers_->packed[in_part], &buffers_->raw[in_piece], bytes);
                });
        exchange(is_all_mine ? std::vector<Part>{} : of_piece, own, true);
        for (const Part &part : own)
            if (!is_all_mine || part.rank != ranks_.rank())
                take(part.sites.from, part.sites.count(), &buffers_->own[part.at]);
    }
}

void SiteRecords::write_shares(const OpenFile &file, const Body &give, const Pass &pass, Trouble &trouble) {
    const size_t count = rounds(true);
    for (size_t round = 0; round < count; ++round) {
        const Span here = share_ < 0 ? Span{0, 0} : piece(share_, round, true);
        const std::vector<Part> of_piece = parts_of(here), own = own_parts(round, true);
        ranks_.collective("memory for a file", [&] {
            buffers_->raw.resize(here.count() * record_);
            buffers_->packed.resize(here.count() * record_);
            buffers_->own.resize(own.empty() ? 0 : bytes_of_parts(record_, own.back().at, own.back().sites.count()));
        });
        for (const Part &part : own)
            give(part.sites.from, part.sites.count(), &buffers_->own[part.at]);
        exchange(of_piece, own, false);
        for (const Part &part : of_piece)
            for_rows(part, here, [&](size_t in_piece, size_t in_part, size_t bytes) {
                std::memcpy(&buffers_->raw[in_piece], &buffers_->packed[in_part], bytes);
            });
        if (here.count() == 0)
            continue;
        const size_t from = std::max(here.from * record_, bound(share_, true)),
                     to = std::min(here.to * record_, bound(share_ + 1, true)),
                     first = (from + record_ - 1) / record_; // another rank has seen the one before
        if (first < here.to)
            pass({{first, here.to - first, &buffers_->raw[(first - here.from) * record_]}});
        trouble.keep(file.write(begin_ + from, &buffers_->raw[from - here.from * record_], to - from), begin_ + from);
    }
}

void SiteRecords::read(const OpenFile &file, const Pass &pass, const Body &take, const Fault &fault) {
    Trouble trouble;
    if (!reads_own_)
        read_shares(file, pass, take, trouble);
    ranks_.collective("a file that is read", [&] {
        if (reads_own_)
            read_own(file, pass, take, trouble);
        if (trouble.code != 0)
            throw fault(trouble.code, trouble.byte);
    });
}

void SiteRecords::write(const OpenFile &file, const Body &give, const Pass &pass, const Fault &fault) {
    Trouble trouble;
    if (!writes_own_)
        write_shares(file, give, pass, trouble);
    ranks_.collective("a file that is written", [&] {
        if (writes_own_)
            write_own(file, give, pass, trouble);
        if (trouble.code != 0)
            throw fault(trouble.code, trouble.byte);
    });
}

} // namespace milcgpu
