#include "tests/source_text.h"
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace tests {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error("no file " + path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::vector<std::string>> matches(const std::string &text, const std::string &pattern) {
    const std::regex what(pattern);
    std::vector<std::vector<std::string>> all;
    for (std::sregex_iterator found(text.begin(), text.end(), what), end; found != end; ++found)
        all.emplace_back(found->begin(), found->end());
    return all;
}

std::set<std::string> names_in(const std::string &text, const std::string &pattern) {
    std::set<std::string> names;
    for (const auto &groups : matches(text, pattern))
        names.insert(groups.at(1));
    return names;
}

} // namespace tests
