#include "gpu_kernels/halo/gpu_messages.h"
#include "gpu_kernels/machine/backend/device.h"
#include <algorithm>
#include <cstring>

namespace milcgpu {

namespace {

constexpr const char *phase = "a test of messages from GPU memory";
constexpr int first_tag = Ranks::tags - 2 * Peers::faces; // nothing else uses these

struct Verdict {
    size_t bytes;        // of memory
    bool failed, waited; // waited: its failure is a time limit; another rank may know the cause
    char why[200];
};

// Words of a message, by the rank that sends it and the face where it arrives.
uint32_t pattern(int rank, int face, size_t word) {
    uint64_t bits =
        (uint64_t(rank) << 40 | uint64_t(face) << 32 | word) * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;
    bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9ull;
    return static_cast<uint32_t>(bits >> 32);
}

// A face's part of the memory: a short message, then a long one, because message passing treats them differently.
struct Parts {
    size_t words; // of a part
    explicit Parts(size_t bytes) : words(bytes / Peers::faces / 16 * 4) {}
    size_t words_short() const { return std::min(words / 2, size_t(64)); }
    size_t first_byte(int face, bool is_long) const {
        return sizeof(uint32_t) * (face * words + (is_long ? words_short() : 0));
    }
    size_t bytes(bool is_long) const { return sizeof(uint32_t) * (is_long ? words - words_short() : words_short()); }
};

// The test of this rank. Throws if the ranks are broken, or if the device is lost.
class PatternTest {
  public:
    PatternTest(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour, size_t bytes)
        : device_(device), ranks_(ranks), neighbour_(neighbour), parts_(bytes) {}

    // `received` is filled with anything but the pattern first.
    void lay_out(unsigned char *sent, unsigned char *received) const {
        std::vector<uint32_t> out(Peers::faces * parts_.words), in(out.size());
        for (int face = 0; face < Peers::faces; ++face)
            for (size_t k = 0; k < parts_.words; ++k) {
                out[face * parts_.words + k] = pattern(ranks_.rank(), face ^ 1, k);
                in[face * parts_.words + k] = ~expected(face, k);
            }
        device_.copy_to_device(sent, out.data(), out.size() * sizeof out[0]);
        device_.copy_to_device(received, in.data(), in.size() * sizeof in[0]);
        device_.synchronize();
    }

    std::vector<Message> messages(unsigned char *sent, unsigned char *received) const {
        std::vector<Message> list;
        for (int face = 0; face < Peers::faces; ++face)
            for (const bool is_long : {false, true}) {
                const int tag = first_tag + (is_long ? Peers::faces : 0), peer = neighbour_[face];
                const size_t at = parts_.first_byte(face, is_long), size = parts_.bytes(is_long);
                if (!is_reached(face))
                    continue;
                list.push_back({peer, sent + at, nullptr, size, tag + (face ^ 1), face_names[face]});
                list.push_back({peer, nullptr, received + at, size, tag + face, face_names[face]});
            }
        return list;
    }

    // Empty if all messages came whole.
    std::string what_is_wrong(const unsigned char *received) const {
        std::vector<uint32_t> in(Peers::faces * parts_.words);
        device_.copy_to_host(in.data(), received, in.size() * sizeof in[0]);
        for (int face = 0; face < Peers::faces; ++face) {
            size_t wrong = 0;
            for (size_t k = 0; k < parts_.words && is_reached(face); ++k)
                wrong += in[face * parts_.words + k] != expected(face, k);
            if (wrong != 0)
                return format("%zu of %zu words from rank %d (%s) were wrong", wrong, parts_.words, neighbour_[face],
                              face_names[face]);
        }
        return "";
    }

  private:
    bool is_reached(int face) const { return neighbour_[face] >= 0 && neighbour_[face] != ranks_.rank(); }
    uint32_t expected(int face, size_t word) const { return pattern(neighbour_[face], face, word); }
    Device &device_;
    Ranks &ranks_;
    std::array<int, Peers::faces> neighbour_;
    Parts parts_;
};

} // namespace

std::string why_no_gpu_messages(Ranks &ranks, GpuMessages asked) {
    struct Answer {
        GpuMessages asked;
        bool allowed;
        char by[120];
    };
    const Messenger::OnDevice said = ranks.messages_on_device();
    Answer mine{asked, said.allowed, ""};
    std::snprintf(mine.by, sizeof mine.by, "%s", said.by.c_str());
    const std::vector<Answer> all = ranks.gathered(phase, mine);
    for (const Answer &answer : all)
        if (answer.asked == GpuMessages::never)
            return "MILCGPU_GPU_MPI=0";
    for (int rank = 0; rank < ranks.size(); ++rank)
        if (all[rank].asked == GpuMessages::where_supported && !all[rank].allowed)
            return all[rank].by[0] == '\0' ? "the message passing does not say that it supports GPU addresses"
                                           : format("%s: no", all[rank].by);
    return "";
}

GpuMessagesFound try_gpu_messages(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour,
                                  const std::shared_ptr<unsigned char> &sent,
                                  const std::shared_ptr<unsigned char> &received, size_t bytes,
                                  const std::string &refused, const DuringTrial &during) {
    Verdict mine{bytes, !refused.empty(), false, ""};
    std::snprintf(mine.why, sizeof mine.why, "%s", refused.c_str());
    const auto note = [&](bool waited, const std::string &why) {
        mine.failed = true, mine.waited = waited;
        std::snprintf(mine.why, sizeof mine.why, "%s", why.c_str());
    };
    // Other ranks wait for this rank's messages, so it sends them even if it has failed; the failure is reported below.
    const std::vector<Verdict> before = ranks.gathered(phase, mine);
    const auto least = std::min_element(before.begin(), before.end(),
                                        [](const Verdict &a, const Verdict &b) { return a.bytes < b.bytes; });
    const bool all_can = std::none_of(before.begin(), before.end(), [](const Verdict &one) { return one.failed; });
    if (all_can)
        try {
            const PatternTest test(device, ranks, neighbour, least->bytes); // boxes may have different sizes
            test.lay_out(sent.get(), received.get());
            using Memory = std::shared_ptr<unsigned char>;
            const auto both = std::make_shared<std::pair<Memory, Memory>>(sent, received);
            if (during.begin)
                during.begin();
            const Ranks::Tried tried = ranks.try_messages(phase, test.messages(sent.get(), received.get()), both,
                                                          std::min(most_seconds_of_trial, ranks.time_limit() / 4));
            const bool to_the_end = !during.end || during.end();
            const std::string why = tried.status != Status::ok ? tried.why
                                    : !to_the_end              ? "they came only after the kernels had stopped waiting"
                                                               : test.what_is_wrong(received.get());
            if (!why.empty())
                note(tried.status == Status::timed_out, why);
        } catch (const std::exception &error) {
            ranks.throw_if_broken();
            note(false, error.what());
        }
    const std::vector<Verdict> verdicts = all_can ? ranks.gathered(phase, mine) : before;
    int worst = -1;
    for (int rank = ranks.size() - 1; rank >= 0; --rank) // of ranks that did not only wait, the lowest
        if (verdicts[rank].failed && (worst < 0 || verdicts[worst].waited || !verdicts[rank].waited))
            worst = rank;
    if (worst >= 0)
        return {false, ranks.name(worst) + ": " + verdicts[worst].why};
    const Messenger::OnDevice said = ranks.messages_on_device();
    const std::string trust = !said.allowed ? "MILCGPU_GPU_MPI=1" : said.by.empty() ? "said so" : said.by + ": yes";
    return {true, trust + "; a test pattern came whole on all ranks"};
}

} // namespace milcgpu
