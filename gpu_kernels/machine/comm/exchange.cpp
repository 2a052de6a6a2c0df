// Messages in flight, and how waits for them end.
#include "gpu_kernels/machine/comm/clock.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include "gpu_kernels/machine/content_hash.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace milcgpu {

namespace {

const std::vector<Message> &checked(const Ranks &ranks, const char *phase, const std::vector<Message> &messages) {
    for (const Message &message : messages)
        if (message.peer < 0 || message.peer >= ranks.size() || message.tag < 0 || message.tag >= Ranks::tags)
            throw Error(Status::bad_argument,
                        format("%s, %s: a message with tag %d for rank %d (%s): tags are 0 to %d, ranks below %d",
                               phase, ranks.name().c_str(), message.tag, message.peer, message.direction,
                               Ranks::tags - 1, ranks.size()));
    return messages;
}

constexpr int tag_by_number = -1; // of gathers: several may be in flight at once

constexpr const char *in_spite_of_success =
    "although message passing reported success. Message passing or memory fails: see the MPI's transports, or use "
    "other hosts. All ranks must end";

} // namespace

Exchange::Exchange(Ranks &ranks, const char *phase, const std::vector<Message> &messages,
                   const std::shared_ptr<const void> &buffers)
    : Exchange(ranks, phase, checked(ranks, phase, messages), buffers, Checked()) {}

Exchange::Exchange(Ranks &ranks, const char *phase, const std::vector<Message> &messages,
                   const std::shared_ptr<const void> &buffers, Checked, bool may_fail)
    : ranks_(ranks), phase_(phase), may_fail_(may_fail) {
    ranks_.throw_if_broken();
    copy_to_self(messages);
    try {
        start(messages, buffers);
    } catch (...) {
        leave();
        throw;
    }
}

void Exchange::copy_to_self(const std::vector<Message> &messages) {
    std::vector<const Message *> sent, received;
    for (const Message &message : messages)
        if (message.peer == ranks_.rank_) {
            if (message.send != nullptr)
                sent.push_back(&message);
            if (message.receive != nullptr)
                received.push_back(&message);
        }
    const auto by_tag = [](const Message *a, const Message *b) { return a->tag < b->tag; };
    std::stable_sort(sent.begin(), sent.end(), by_tag);
    std::stable_sort(received.begin(), received.end(), by_tag);
    const auto fit = [](const Message *a, const Message *b) { return a->tag == b->tag && a->bytes == b->bytes; };
    if (!std::equal(sent.begin(), sent.end(), received.begin(), received.end(), fit))
        throw Error(Status::bad_argument, format("%s, %s: the messages that the rank sends to itself (%zu) differ from "
                                                 "those that it receives from itself (%zu)",
                                                 phase_, ranks_.name().c_str(), sent.size(), received.size()));
    for (size_t k = 0; k < sent.size(); ++k)
        std::memcpy(received[k]->receive, sent[k]->send, sent[k]->bytes);
}

// One handle a peer, so that an error can name the peers whose messages are missing. All memory is allocated before the
// first message starts, so that a failed allocation has sent nothing.
void Exchange::start(std::vector<Message> messages, const std::shared_ptr<const void> &buffers) {
    const auto stays = [&](const Message &message) { return message.peer == ranks_.rank_ || message.bytes == 0; };
    messages.erase(std::remove_if(messages.begin(), messages.end(), stays), messages.end());
    std::stable_sort(messages.begin(), messages.end(),
                     [](const Message &a, const Message &b) { return a.peer < b.peer; });
    std::list<Ranks::Part> parts;
    for (const Message &message : messages) {
        if (parts.empty() || parts.back().peer != message.peer)
            parts.push_back({message.peer, 0, "", buffers, nullptr});
        Ranks::Part &part = parts.back();
        ++part.messages;
        if (part.directions.find(message.direction) == std::string::npos)
            part.directions += std::string(part.directions.empty() ? "" : ", ") + message.direction;
    }
    for (const Message *first = messages.data(); !parts.empty();) {
        Ranks::Part &part = parts.front();
        try {
            const int code = ranks_.messenger_->start(first, part.messages, part.handle);
            if (code != 0)
                fail(Status::comm,
                     format("the caller's message passing could not start messages with rank %d (%s): code %d",
                            part.peer, part.directions.c_str(), code));
        } catch (...) { // some may have started
            Ranks::keep_for_ever(parts);
            throw;
        }
        first += part.messages;
        parts_.splice(parts_.end(), parts, parts.begin());
    }
}

Exchange::~Exchange() {
    try {
        if (!ranks_.broken_)
            poll();
    } catch (const std::exception &) { // the next call throws it: the ranks are broken
    }
    leave();
}

// If this breaks the ranks, their error names all of the missing peers.
void Exchange::fail(Status status, const std::string &what) {
    if (may_fail_)
        throw Error(status, what);
    ranks_.fail(status, format("%s, %s: %s. All ranks must end", phase_, ranks_.name().c_str(), what.c_str()));
}

void Exchange::leave() noexcept { ranks_.left_.splice(ranks_.left_.end(), parts_); }

// Drops the parts that are done.
void Exchange::poll() {
    ranks_.throw_if_broken();
    for (auto part = parts_.begin(); part != parts_.end();) {
        bool is_done = false;
        const int code = ranks_.messenger_->test(part->handle, is_done);
        if (code != 0)
            fail(Status::comm, format("the caller's message passing failed in messages with rank %d (%s): code %d",
                                      part->peer, part->directions.c_str(), code));
        part = is_done ? parts_.erase(part) : std::next(part);
    }
}

bool Exchange::done() {
    poll();
    if (parts_.empty())
        return true;
    const double now = wall_seconds();
    if (first_poll_seconds_ == 0)
        first_poll_seconds_ = now;
    if (now - first_poll_seconds_ > ranks_.time_limit_seconds_)
        ranks_.fail(Status::timed_out,
                    format("%s, %s: waited %g s for messages with %s. Is it still running, and in the same call? All "
                           "ranks must end; if a rank may be that late, raise MILCGPU_TIMEOUT (seconds)",
                           phase_, ranks_.name().c_str(), ranks_.time_limit_seconds_, missed().c_str()));
    return false;
}

// The peers whose messages have not come.
std::string Exchange::missed() const {
    std::string list;
    for (const Ranks::Part &part : parts_)
        list += format("%srank %d (%s)", list.empty() ? "" : ", ", part.peer, part.directions.c_str());
    return list;
}

Ranks::Tried Ranks::try_messages(const char *phase, const std::vector<Message> &messages,
                                 const std::shared_ptr<const void> &buffers, double seconds) {
    std::unique_ptr<Exchange> tried;
    Tried end{Status::ok, ""};
    try {
        tried.reset(new Exchange(*this, phase, checked(*this, phase, messages), buffers, Exchange::Checked(), true));
        const double begin = wall_seconds();
        bool done = false, late = false;
        wait_for([&] {
            tried->poll();
            done = tried->parts_.empty();
            late = !done && wall_seconds() - begin > seconds;
            return done || late;
        });
        if (late)
            end = {Status::timed_out,
                   format("messages with %s did not come within %g s", tried->missed().c_str(), seconds)};
    } catch (const Error &error) {
        throw_if_broken();
        end = {error.status(), error.what()};
    }
    if (tried)
        keep_for_ever(tried->parts_);
    return end;
}

// Polls without a pause while the answer may be near. After that it sleeps between polls, longer and longer, to leave
// the cores to others: there may be more ranks than cores. A pause is a hundredth of the wait so far, from 50 us to a
// millisecond.
template <class Done> void Ranks::wait_for(const Done &done) const {
    constexpr double near_seconds = 1e-3, shortest_pause = 50e-6, longest_pause = 1e-3;
    for (const double begin = wall_seconds(); !done();) {
        if (meanwhile_)
            meanwhile_();
        const double waited = wall_seconds() - begin;
        if (waited < near_seconds)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(
                std::chrono::duration<double>(std::clamp(waited / 100, shortest_pause, longest_pause)));
    }
}

void Exchange::finish() {
    ranks_.wait_for([this] { return done(); });
}

std::string Ranks::words_of_loss(int on_rank) const {
    return format("%s: a message from rank %d was lost, or an old one came in its place, %s", name(on_rank).c_str(),
                  lost() - 1, in_spite_of_success);
}

void Ranks::throw_if_lost() {
    if (lost() != 0 && !broken_)
        fail(Status::comm, words_of_loss(rank_));
}

const Message *Ranks::changed_message(const char *phase, const std::vector<Message> &messages) {
    const auto sums = std::make_shared<std::vector<uint64_t>>(messages.size());
    std::vector<Message> of_sums = messages;
    for (size_t k = 0; k < messages.size(); ++k) {
        Message &message = of_sums[k];
        uint64_t *const sum = &(*sums)[k];
        if (message.send != nullptr)
            *sum = hash_row(message.send, message.bytes, 1), message.send = sum;
        else
            message.receive = sum;
        message.bytes = sizeof *sum;
    }
    Exchange(*this, phase, of_sums, sums).finish();
    for (size_t k = 0; k < messages.size(); ++k)
        if (const Message &message = messages[k];
            message.receive != nullptr && (*sums)[k] != hash_row(message.receive, message.bytes, 1))
            return &message;
    return nullptr;
}

// A gather that fails here has taken its number, too.
Gather::Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes)
    : Gather(ranks, phase, mine, bytes, tag_by_number, ranks.gathers_++) {}

Gather::Gather(Ranks &ranks, const char *phase, const void *mine, size_t bytes, int tag, unsigned number)
    : ranks_(ranks), phase_(phase), bytes_(bytes), block_(bytes + sizeof(Trailer)),
      tag_(tag == tag_by_number ? Ranks::tags + static_cast<int>(number % Ranks::tags) : tag), number_(number),
      blocks_(std::make_shared<std::vector<unsigned char>>(ranks.size() * block_)) {
    std::memcpy(blocks_->data(), mine, bytes);
    Trailer trailer{ranks_.lost(), 0};
    std::memcpy(blocks_->data() + bytes, &trailer.lost, sizeof trailer.lost);
    trailer.check = sum_of(ranks_.rank());
    std::memcpy(blocks_->data() + block_ - sizeof trailer.check, &trailer.check, sizeof trailer.check);
    ranks_.throw_if_broken();
    ranks_.poll_left();
    next_turn();
}

const unsigned char *Gather::block_of(int rank) const {
    return blocks_->data() + (rank - ranks_.rank() + ranks_.size()) % ranks_.size() * block_;
}

uint64_t Gather::sum_of(int rank) const {
    return hash_row(block_of(rank), block_ - sizeof(uint64_t), uint64_t(number_) << 32 | unsigned(rank));
}

// One turn. With have_ blocks here, this rank sends them, as far as they are needed, to the ranks have_, 2 have_, ...
// behind it, and receives as many from the ranks ahead.
void Gather::next_turn() {
    ranks_.throw_if_broken();
    const int size = ranks_.size(), rank = ranks_.rank();
    constexpr int radix = 16;
    std::vector<Message> messages;
    for (int ahead = have_; ahead < size && ahead < radix * have_; ahead += have_) {
        const size_t bytes = std::min(have_, size - ahead) * block_;
        unsigned char *blocks = blocks_->data();
        messages.push_back({(rank + size - ahead) % size, blocks, nullptr, bytes, tag_, "gather"});
        messages.push_back({(rank + ahead) % size, nullptr, blocks + ahead * block_, bytes, tag_, "gather"});
    }
    have_ = std::min(size, radix * have_);
    turn_.reset(new Exchange(ranks_, phase_, messages, blocks_, Exchange::Checked()));
}

bool Gather::done() {
    while (turn_->done()) {
        if (have_ == ranks_.size())
            return true;
        next_turn();
    }
    return false;
}

void Gather::finish(void *all) {
    if (!take(all))
        ranks_.fail(Status::comm, format("%s, %s: the message with the part of rank %d was lost or changed, %s", phase_,
                                         ranks_.name().c_str(), ranks_.lost() - 1, in_spite_of_success));
}

bool Gather::take(void *all) {
    ranks_.wait_for([this] { return done(); });
    bool whole = true;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
        const unsigned char *block = block_of(rank);
        Trailer trailer;
        std::memcpy(&trailer, block + bytes_, sizeof trailer);
        if (trailer.check != sum_of(rank)) {
            ranks_.note_lost(rank);
            whole = false;
            block = block_of(ranks_.rank());
        } else if (trailer.lost != 0) {
            ranks_.note_lost(static_cast<int>(trailer.lost - 1));
            ranks_.fail(Status::comm, ranks_.words_of_loss(rank));
        }
        std::memcpy(static_cast<unsigned char *>(all) + rank * bytes_, block, bytes_);
    }
    return whole;
}

} // namespace milcgpu
