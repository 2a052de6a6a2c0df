// clang's libFuzzer on the readers of files: tests.mk builds it, test_fuzz.cpp runs it. The first byte of an input
// chooses the reader. By hand: build/host/fuzz FOLDER; it writes its first files to FOLDER and keeps its findings
// there.
#include "tests/fuzz_support.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

using tests::fuzz::readers;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

extern "C" int LLVMFuzzerInitialize(int *count, char ***words) {
    for (int k = 1; k < *count; ++k)
        if (std::filesystem::is_directory((*words)[k]))
            for (size_t reader = 0; reader < readers().size(); ++reader)
                for (const std::string &file : readers()[reader].seeds())
                    std::ofstream((*words)[k] + std::string("/seed-") + std::to_string(std::hash<std::string>{}(file)))
                        << char(reader) << file;
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    try {
        readers()[data[0] % readers().size()].read(std::string(reinterpret_cast<const char *>(data) + 1, size - 1));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::abort();
    }
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    if (size < 2 || seed % 2 == 0)
        return LLVMFuzzerMutate(data, size, most);
    std::mt19937 random(seed);
    const std::string other = tests::fuzz::changed(std::string(reinterpret_cast<char *>(data) + 1, size - 1), random);
    if (other.size() + 1 > most)
        return LLVMFuzzerMutate(data, size, most);
    std::memcpy(data + 1, other.data(), other.size());
    return other.size() + 1;
}
