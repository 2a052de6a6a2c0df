// CHECK, REQUIRE and CHECK_FALSE for Catch2 version 2. They compile several times faster than Catch's own: a check is
// two calls, and an expression is read twice, not three times.
#pragma once
#pragma GCC system_header // the compiler warns of a comparison where it stands in a test, not here

#include <string>

namespace tests {

// Where a check stands; before its expression is evaluated. (main.cpp)
void begin_check(const char *macro, const char *file, unsigned line, const char *expression, int flags);

// What its expression gave: a comparison, or one value (comparison is nullptr). Throws where a REQUIRE fails.
// (main.cpp)
void end_check(bool holds, const char *comparison, const void *left, std::string (*left_text)(const void *),
               const void *right, std::string (*right_text)(const void *));

template <class Value> std::string value_text(const void *value) {
    return Catch::Detail::stringify(*static_cast<const Value *>(value));
}

struct CheckEnded {};

// The value at the left of a comparison. One function for each pair of types: inlined, they would be compiled in every
// check.
template <class Left> struct LeftOf {
    const Left *left;

#define MILCGPU_COMPARE(comparison)                                                                                    \
    template <class Right> [[gnu::noinline]] CheckEnded operator comparison(const Right &right) const {                \
        end_check(static_cast<bool>(*left comparison right), #comparison, left, value_text<Left>, &right,              \
                  value_text<Right>);                                                                                  \
        return {};                                                                                                     \
    }
    MILCGPU_COMPARE(==)
    MILCGPU_COMPARE(!=)
    MILCGPU_COMPARE(<)
    MILCGPU_COMPARE(>)
    MILCGPU_COMPARE(<=)
    MILCGPU_COMPARE(>=)
#undef MILCGPU_COMPARE
};

// `Splitter() << a == b` is `(Splitter() << a) == b`.
struct Splitter {
    template <class Left> LeftOf<Left> operator<<(const Left &left) const { return {&left}; }
};

inline void finish_check(CheckEnded) {}
template <class Value> [[gnu::noinline]] void finish_check(LeftOf<Value> one) {
    end_check(static_cast<bool>(*one.left), nullptr, one.left, value_text<Value>, nullptr, nullptr);
}

} // namespace tests

// The expression stands there once more as it is, for the compiler's warnings.
#define MILCGPU_CHECK(macro, flags, ...)                                                                               \
    ((void)__builtin_constant_p(__VA_ARGS__), tests::begin_check(macro, __FILE__, __LINE__, #__VA_ARGS__, flags),      \
     tests::finish_check(tests::Splitter() << __VA_ARGS__))

#undef CHECK
#undef CHECK_FALSE
#undef REQUIRE
#define CHECK(...) MILCGPU_CHECK("CHECK", Catch::ResultDisposition::ContinueOnFailure, __VA_ARGS__)
#define CHECK_FALSE(...)                                                                                               \
    MILCGPU_CHECK("CHECK_FALSE", Catch::ResultDisposition::ContinueOnFailure | Catch::ResultDisposition::FalseTest,    \
                  __VA_ARGS__)
#define REQUIRE(...) MILCGPU_CHECK("REQUIRE", Catch::ResultDisposition::Normal, __VA_ARGS__)
