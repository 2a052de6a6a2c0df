// Checks of what a caller hands in, in the words of its argument; and of what all ranks must have alike.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/milcgpu.h"
#include "reorder/link_reorder.h"
#include "reorder/spinor_reorder.h"
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace milcgpu {

[[noreturn]] inline void refuse(const std::string &what) { throw Error(Status::bad_argument, what); }

// of: the function that is called, which every message has in front, or what the pointer belongs to.
inline void require(const void *pointer, const char *of, const char *what) {
    if (pointer == nullptr)
        refuse((std::string(of).rfind("milcgpu_", 0) == 0 ? "" : format("%s: ", of)) + format("%s is NULL", what));
}

// One of those from finest to coarsest. why: what a caller reads who gave another one; it may be empty.
inline Precision precision_of(int code, const char *what, Precision finest = Precision::double_,
                              Precision coarsest = Precision::half, const char *why = "") {
    constexpr const char *names[] = {"MILCGPU_DOUBLE (1)", "MILCGPU_SINGLE (2)", "MILCGPU_HALF (3)"};
    const int first = static_cast<int>(finest), last = static_cast<int>(coarsest), given = code - 1;
    if (given >= first && given <= last)
        return static_cast<Precision>(given);
    std::string legal;
    for (int k = first; k <= last; ++k)
        legal += (k == first ? "" : k == last ? " or " : ", ") + std::string(names[k]);
    refuse(format("%s is %s: must be %s%s", what,
                  code >= MILCGPU_DOUBLE && code <= MILCGPU_HALF ? name(static_cast<Precision>(given))
                                                                 : std::to_string(code).c_str(),
                  legal.c_str(), why));
}
inline Precision double_or_single(int code, const char *what, const char *why = "") {
    return precision_of(code, what, Precision::double_, Precision::single, why);
}

// Of a field in the host's memory. what: its name in the message.
inline Precision host_precision_of(int code, const char *what) {
    return double_or_single(code, what, "; half precision is a format of the device");
}

// The most entries of an array that a caller hands in. A larger count was never set, or has overflowed.
constexpr int most_entries = 1000000;
inline void require_count(int count, int least, const char *what) {
    if (count < least || count > most_entries)
        refuse(format("%s is %d: must be %d to %d", what, count, least, most_entries));
}

inline HostField host_field(const milcgpu_field *field, size_t reals_a_site, const char *what) {
    require(field, what, "the field");
    require(field->data, what, "data");
    const Precision real = host_precision_of(field->precision, format("%s: precision", what).c_str());
    if (reinterpret_cast<uintptr_t>(field->data) % real_bytes(real) != 0)
        refuse(format("%s: data is at %p: the address must be a multiple of %zu", what, field->data, real_bytes(real)));
    constexpr size_t longest_pitch = size_t(1) << 31; // times the sites of a rank, an int: an address
    const size_t record = reals_a_site * real_bytes(real);
    const size_t pitch = field->pitch_bytes == 0 ? record : field->pitch_bytes;
    if (pitch < record || pitch % real_bytes(real) != 0)
        refuse(format("%s: pitch of %zu bytes, but a record has %zu and whole reals", what, pitch, record));
    if (pitch > longest_pitch)
        refuse(format("%s: pitch of %zu bytes: at most %zu", what, pitch, longest_pitch));
    return {field->data, real, pitch, record};
}

int parity_index(int parity); // 0 even, 1 odd
// Of a file that is written: the caller's text, NULL for now. The head has 64 bytes, the last one 0.
inline void require_time(const char *time) {
    if (time != nullptr && std::strlen(time) > 63)
        refuse(format("time has %zu characters: the file's head has room for 63", std::strlen(time)));
}
// The name of a number: eps, spec.boost, spec.origin[2], spec.terms[3].factor; of a pointer with " != NULL".
struct Name {
    const char *parts[3] = {};
    int index[3] = {-1, -1, -1};
    int last = 0;
    bool pointer = false;
    Name(const char *name) : parts{name} {}
    std::string text() const;
};
// What all ranks must have alike, by name. Throws Error(bad_argument) on all of them where they do not.
struct RankNumber {
    Name name;
    double value;
};
void require_same_on_all_ranks(milcgpu_context &, const std::vector<RankNumber> &values);
using Numbers = std::vector<RankNumber>;

} // namespace milcgpu
