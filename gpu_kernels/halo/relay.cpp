#include "gpu_kernels/halo/relay.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/lasting_memory.h"
#include <cmath>
#include <cstring>

namespace milcgpu {

namespace {

// Tags of messages: below 16 are those of halos (halo.cu).
constexpr int first_tag = 16, rows_at_most = 8, tag_of_words = first_tag + rows_at_most * Peers::faces,
              tag_of_sums = tag_of_words + Peers::faces;

constexpr size_t alignment = 4096;
constexpr size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr size_t of_box = aligned(sizeof(RelayBox));

template <class T> T seen(const T &at) { return *static_cast<const volatile T *>(&at); }
template <class T> void show(T &at, T value) { *static_cast<volatile T *>(&at) = value; }

} // namespace

Relay::Relay(Device &device, Ranks &ranks, const std::array<Face, Peers::faces> &faces, size_t ghosts)
    : device_(device), ranks_(ranks), faces_(faces), ghosts_of_all_(ghosts),
      of_vector_(aligned(ghosts * (most_ghost_bytes + check_bytes))) {
    copies_.emplace(device);
    for (const Face &face : faces)
        if (face.rank >= 0) {
            if (!ranges_.empty() && ranges_.back().second == face.first)
                ranges_.back().second = face.end;
            else
                ranges_.push_back({face.first, face.end});
        }
    unsigned char *const data = take_lasting(device, Lasting::shared, of_box + 4 * of_vector_);
    memory_ = {data, [](unsigned char *) {}};
    box_ = reinterpret_cast<RelayBox *>(data);
    std::memset(&box_->in, 0xFF, sizeof box_->in);
    for (int parity = 0; parity < 2; ++parity) {
        out_[parity] = data + of_box + parity * of_vector_;
        in_[parity] = out_[parity] + 2 * of_vector_;
    }
}

// Otherwise an abandoned kernel or message may still write to it.
Relay::~Relay() {
    copies_.reset();
    if (given_up_ || !passing_.empty() || sum_)
        return;
    keep_lasting(memory_.get());
    if (of_gpu_ != nullptr)
        keep_lasting(of_gpu_);
}

void Relay::use_gpu_memory() {
    unsigned char *memory = nullptr;
    device_.collective("memory for ghosts", [&] { memory = take_lasting(device_, Lasting::device, 2 * of_vector_); });
    of_gpu_ = memory;
    device_.fill_zero(of_gpu_, 2 * of_vector_);
    device_.synchronize();
    // Message passing opens the neighbours' memory at the first message, and that may wait for kernels. So the first
    // message is sent now.
    for (unsigned parity = 0; parity < 2; ++parity) {
        out_[parity] = of_gpu_ + parity * of_vector_;
        begin_ghosts({0, parity, most_ghost_bytes, 16});
    }
    // Not by Exchange::finish, because its work meanwhile is poll(), which drops pieces that have arrived.
    while (!passing_.empty())
        take_arrivals();
}

bool Relay::poll() {
    if (polling_) // called from within its own message
        return false;
    polling_ = true;
    try {
        take_announcements();
        take_arrivals();
        take_sums();
    } catch (...) {
        polling_ = false;
        give_up();
        throw;
    }
    polling_ = false;
    return passing_.empty() && !sum_;
}

// Vectors of a parity one after the other, because they arrive in the same memory.
void Relay::take_announcements() {
    for (;;) {
        const Announcement next = Announcement::of(seen(box_->announced[(taken_ + 1) % RelayBox::announcements]));
        if (next.count != taken_ + 1) {
            if (static_cast<int>(next.count - taken_) > 1)
                ranks_.give_up(Status::comm, format("%s: more than %d exchanges were queued without a wait of the host",
                                                    ranks_.name().c_str(), RelayBox::announcements));
            return;
        }
        if (next.bytes != 0 && (in_flight_[next.parity] != 0 || !copies_->passed(next.parity)))
            return;
        ++taken_;
        next.bytes != 0 ? begin_ghosts(next) : begin_word();
    }
}

void Relay::begin_ghosts(const Announcement &what) {
    const auto begin = [&](size_t row, size_t word, int tag) {
        std::vector<Message> messages;
        for (int face = 0; face < Peers::faces; ++face) {
            const Face &here = faces_[face], &there = faces_[face ^ 1]; // boxes are of one size
            if (here.rank < 0)
                continue;
            const size_t bytes = (here.end - here.first) * word;
            messages.push_back({here.rank, out_[what.parity] + row + there.first * word, nullptr, bytes,
                                tag + (face ^ 1), face_names[face]});
            unsigned char *const in = of_gpu_ != nullptr ? ghosts_[what.parity] : in_[what.parity];
            messages.push_back({here.rank, nullptr, in + row + here.first * word, bytes, tag + face, face_names[face]});
        }
        auto exchange = std::make_unique<Exchange>(ranks_, "the ghosts of a vector", messages, memory_);
        passing_.push_back({std::move(exchange), nullptr, static_cast<int>(what.parity), row, word});
        ++in_flight_[what.parity];
    };
    const int rows = what.bytes / what.word;
    for (int k = 0; k < rows; ++k)
        begin(k * ghosts_of_all_ * what.word, what.word, first_tag + k * Peers::faces);
    begin(ghosts_of_all_ * most_ghost_bytes, check_bytes, first_tag + rows * Peers::faces);
}

void Relay::begin_word() {
    auto told = std::make_shared<std::array<unsigned, 2 * Peers::faces>>();
    ++words_;
    std::vector<Message> messages;
    for (int face = 0; face < Peers::faces; ++face) {
        if (faces_[face].rank < 0)
            continue;
        unsigned &out = (*told)[face], &in = (*told)[Peers::faces + face];
        out = words_;
        messages.push_back({faces_[face].rank, &out, nullptr, sizeof out, tag_of_words + (face ^ 1), face_names[face]});
        messages.push_back({faces_[face].rank, nullptr, &in, sizeof in, tag_of_words + face, face_names[face]});
    }
    auto exchange = std::make_unique<Exchange>(ranks_, "the start of ghosts", messages, told);
    passing_.push_back({std::move(exchange), told, 0, 0, 0});
}

void Relay::take_arrivals() {
    for (auto piece = passing_.begin(); piece != passing_.end();) {
        if (!piece->exchange->done()) {
            ++piece;
            continue;
        }
        if (piece->told != nullptr) {
            for (int face = 0; face < Peers::faces; ++face)
                if (faces_[face].rank >= 0) {
                    const unsigned in = (*piece->told)[Peers::faces + face];
                    if (in != (*piece->told)[face])
                        ranks_.note_lost(faces_[face].rank);
                    show(box_->told[face], in);
                }
        } else {
            for (const auto &[first, end] : ranges_) {
                if (of_gpu_ != nullptr)
                    break; // it has arrived
                const size_t at = piece->row + first * piece->word;
                copies_->copy(ghosts_[piece->parity] + at, in_[piece->parity] + at, (end - first) * piece->word);
            }
            if (--in_flight_[piece->parity] == 0)
                copies_->mark(piece->parity);
        }
        piece = passing_.erase(piece);
    }
}

// One sum after the other: the kernel that has posted sums waits for those of all ranks.
void Relay::take_sums() {
    if (!sum_) {
        const unsigned long long posted = seen(box_->sums_posted);
        if (posted >> RelayBox::count_bits != sums_ + 1)
            return;
        count_ = posted % (1 << RelayBox::count_bits);
        sum_ = std::make_unique<Gather>(ranks_, "a sum over all sites", box_->out.of[sums_ % 2][0],
                                        count_ * sizeof(double), tag_of_sums, sums_);
    }
    if (!sum_->done())
        return;
    std::vector<double> all(ranks_.size() * count_);
    sum_->take(all.data());
    sum_.reset();
    for (size_t k = 0; k < count_; ++k) {
        double total = all[k];
        for (int rank = 1; rank < ranks_.size(); ++rank)
            total += all[rank * count_ + k];
        show(box_->in.of[sums_ % 2][0][k], is_unknown(total) ? NAN : total);
    }
    ++sums_;
}

// Waiting kernels end at once and report it.
void Relay::give_up() noexcept {
    if (given_up_ || broken_ == nullptr)
        return;
    given_up_ = true;
    box_->given_up = static_cast<int>(Wait::ghosts);
    try {
        copies_->copy(broken_, &box_->given_up, sizeof box_->given_up);
    } catch (const Error &) { // a lost GPU waits for nothing
    }
}

} // namespace milcgpu
