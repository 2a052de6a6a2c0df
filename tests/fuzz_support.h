// The readers of files under input that nobody has thought of. tests/faults/test_fuzz.cpp changes files by a fixed
// sequence; where there is clang, tests/fuzz/fuzz.cpp has libFuzzer change them by what the readers have done. No Catch
// in it.
#pragma once
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace tests::fuzz {

struct Reader {
    const char *name;
    std::function<std::vector<std::string>()> seeds; // files that are right
    // Reads a file in all ways. Throws std::logic_error if a promise of the reader is broken: what is refused is said
    // with the file's name, briefly and without control characters, and leaves everything as it was; what is accepted
    // is what an independent reader finds.
    std::function<void(const std::string &)> read;
};
const std::vector<Reader> &readers();

// A change of a file: bytes, numbers, lengths, texts between tags, parts twice or gone; in half of the cases with right
// checksums.
std::string changed(const std::string &file, std::mt19937 &random);

} // namespace tests::fuzz
