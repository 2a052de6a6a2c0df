// Arguments of the C interface. Each struct has one table (members.h): its members, their allowed values, their
// defaults. Checks, messages, functions _defaults and the comparison over ranks use it.
#pragma once
#include "milc_glue/api/context.h"
#include "milc_glue/api/sized.h"
#include <cfloat>
#include <cmath>

namespace milcgpu {

// The allowed values of a number. words: their description; nullptr: the bounds describe them.
struct May {
    double least = -DBL_MAX, most = DBL_MAX;
    const char *words = nullptr;
    bool checked = true;           // false: the call checks it, if at all
    double also = NAN;             // is legal, too
    double zero_is = 0, start = 0; // the value that 0 selects; the value of functions _defaults, if not 0
    constexpr May or_also(double value) const { return {least, most, words, checked, value, zero_is, start}; }
    constexpr May or_0_for(double value) const { return {least, most, words, checked, also, value, start}; }
    constexpr May from(double value = 0) const { return {least, most, words, checked, also, zero_is, value}; }
    constexpr bool holds(double x) const { return !checked || (x >= least && x <= most) || x == also; }
    std::string text() const;
};
constexpr May any_finite{}, positive{DBL_TRUE_MIN, DBL_MAX, "above 0"}, unchecked{0, 0, "as the call says", false},
    flag{0, 1, "0 or 1"};
constexpr May from_to(double least, double most, const char *words = nullptr) { return {least, most, words}; }
constexpr May at_least(double least) { return from_to(least, DBL_MAX); }

struct Table;
struct Member {
    // numbers: one number or an array. inside: a struct. Pointers: own: each rank may have its own, or NULL. given: not
    // NULL. alike: NULL on all ranks or on none. entries: to structs or numbers, as many as the member at `how_many`
    // says; some: entries, or NULL on all ranks.
    enum Kind { size, numbers, inside, own, given, alike, entries, some } kind;
    const char *name;
    size_t offset;
    May may{};
    int count = 1; // of numbers, each of `bytes` bytes
    size_t bytes = 0;
    bool real = false; // numbers: they may be NaN or infinite
    double (*get)(const void *) = nullptr;
    void (*set)(void *, double) = nullptr;
    const Table *table = nullptr; // inside, entries
    size_t how_many = 0;          // the offset of that member
    // Does not test `table`: with the sanitizers gcc does not accept an address as a constant that is not NULL.
    constexpr bool has_table() const { return kind == inside || kind == entries || kind == some; }
};
struct Table {
    const char *name;
    size_t bytes;
    const Member *first, *last;
    constexpr const Member *begin() const { return first; }
    constexpr const Member *end() const { return last; }
};
template <class Struct>
inline constexpr Table members_of{Members<Struct>::name, sizeof(Struct), std::begin(Members<Struct>::list),
                                  std::end(Members<Struct>::list)};

template <class Type> constexpr Member numbers_at(const char *name, size_t offset, const May &may) {
    using One = std::remove_extent_t<Type>;
    return {Member::numbers,
            name,
            offset,
            may,
            sizeof(Type) / sizeof(One),
            sizeof(One),
            std::is_floating_point_v<One>,
            [](const void *at) { return double(*static_cast<const One *>(at)); },
            [](void *at, double x) { *static_cast<One *>(at) = static_cast<One>(x); }};
}
template <class Struct>
constexpr Member table_at(Member::Kind kind, const char *name, size_t offset, size_t n = 0, const May &may = {}) {
    using Entry = std::remove_cv_t<std::remove_pointer_t<Struct>>;
    return {kind, name, offset, may, 1, 0, false, nullptr, nullptr, &members_of<Entry>, n};
}

// How many initializers a struct takes: one per member, one per element of an array.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wmissing-braces"
struct Anything {
    template <class Type> operator Type() const;
};
template <class Struct, class... Given> constexpr auto takes(int) -> decltype(Struct{Given()...}, true) { return true; }
template <class Struct, class... Given> constexpr bool takes(long) { return false; }
template <class Struct, class... Given> constexpr int initializers() {
    if constexpr (takes<Struct, Given..., Anything>(0))
        return initializers<Struct, Given..., Anything>();
    else
        return sizeof...(Given);
}
#pragma GCC diagnostic pop
// Whether the table has each member of the struct once, behind the member that counts its entries. A name has at most
// three parts.
template <class Struct> constexpr bool is_whole() {
    int count = 0;
    size_t end = 0;
    if (Members<Struct>::list[0].offset != 0 || Members<Struct>::first > sizeof(Struct)) // a struct grows only
        return false;
    for (const Member &m : Members<Struct>::list) {
        if (m.offset < end || (m.how_many != 0 && m.how_many >= m.offset))
            return false;
        if (m.has_table())
            for (const Member &inner : *m.table)
                if (inner.has_table())
                    return false;
        count += m.count, end = m.offset + 1;
    }
    return count == initializers<Struct>();
}

template <class Struct> constexpr bool has_finite_reals() {
    for (const Member &m : Members<Struct>::list)
        if (m.real && (!m.may.checked || m.may.least < -DBL_MAX || m.may.most > DBL_MAX))
            return false;
    return true;
}
template <class Struct> constexpr bool has_legal_defaults() {
    for (const Member &m : Members<Struct>::list)
        if ((m.may.zero_is != 0 && !m.may.holds(m.may.zero_is)) || (m.may.start != 0 && !m.may.holds(m.may.start)))
            return false;
    return true;
}

// Checks arguments on each rank, and collects the numbers that must be the same on all ranks. How many numbers these
// are does not depend on their values.
class CallArguments {
  public:
    // Checks a number of the call itself. Returns it, or the value that 0 selects.
    template <class Number> Number operator()(const Name &name, Number x, const May &may = unchecked) {
        return static_cast<Number>(number(name, double(x), may, numbers));
    }
    void given(const char *name, const void *pointer) const {
        if (pointer == nullptr)
            refuse(format("%s is NULL", name));
    }
    // Checks the caller's struct. Returns it with defaults in place of 0, and 0 for members that its header does not
    // have. clear(copy) sets members that this call does not read.
    template <class Struct, class Clear = void (*)(Struct &)>
    Struct copy_of(
        const char *name, const Struct *from, const Clear &clear = [](Struct &) {}) {
        given(name, from);
        if constexpr (Members<Struct>::list[0].kind == Member::size)
            return checked(name, full_copy(from), clear);
        else
            return checked(name, *from, clear);
    }
    // Checks the caller's array of n structs.
    template <class Struct> void entries(const char *name, const Struct *from, int n) {
        if (n > 0)
            given(name, from);
        walk_entries(members_of<Struct>, const_cast<Struct *>(from), n, name);
    }
    Numbers numbers, of_entries; // of_entries are compared after the others, because their count must be the same first

  private:
    template <class Struct, class Clear> Struct checked(const char *name, Struct full, const Clear &clear) {
        clear(full);
        walk(members_of<Struct>, &full, name, numbers);
        return full;
    }
    double number(const Name &, double x, const May &, Numbers &to);
    void walk(const Table &, void *at, const Name &, Numbers &to);
    void walk_entries(const Table &, void *at, int n, Name); // does not write to them
};
// Checks the caller's struct without a comparison over ranks.
template <class Struct> Struct checked_copy(const char *name, const Struct &from) {
    return CallArguments().copy_of(name, &from);
}
// Throws on all ranks unless look(arguments) succeeds on all of them and its numbers are the same there.
template <class Look>
auto same_on_all_ranks(milcgpu_context &context, const char *function, const Look &look)
    -> decltype(look(std::declval<CallArguments &>())) {
    CallArguments arguments;
    context.device->collective(function, [&] { look(arguments); });
    require_same_on_all_ranks(context, arguments.numbers);
    if (!arguments.of_entries.empty())
        require_same_on_all_ranks(context, arguments.of_entries);
}
// Creates a handle of `what`, in double or single, on all ranks. argument: the name of `handle` in messages.
template <class Handle>
milcgpu_status make_handle(milcgpu_context *context, const char *function, const char *argument, int precision,
                           const char *what, Handle **handle) {
    if (handle != nullptr)
        *handle = nullptr;
    return guarded(context, function, [&] {
        require(context, function, "context");
        Precision real = Precision::double_;
        same_on_all_ranks(*context, function, [&](CallArguments &call) {
            call.given(argument, handle);
            real = double_or_single(call("precision", precision), "precision", format(" for %s", what).c_str());
        });
        std::unique_ptr<Handle> made;
        const std::string memory = format("memory for %s", what);
        context->device->collective(memory.c_str(), [&] { made = std::make_unique<Handle>(context, real); });
        *handle = made.release();
        return Status::ok;
    });
}
} // namespace milcgpu
