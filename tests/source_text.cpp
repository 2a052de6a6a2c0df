#include "tests/source_text.h"
#include <algorithm>
#include <cctype>
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

std::string lines_with(const std::string &word, const std::string &text) {
    std::string lines;
    for (size_t at = text.find(word); at != std::string::npos;) {
        const size_t end = std::min(text.find('\n', at), text.size()), begin = text.rfind('\n', at) + 1;
        lines += text.substr(begin, end - begin) + "\n";
        at = text.find(word, end);
    }
    return lines;
}

std::vector<std::vector<std::string>> matches(const std::string &text, const std::string &pattern) {
    const std::regex what(pattern);
    std::vector<std::vector<std::string>> all;
    for (std::sregex_iterator found(text.begin(), text.end(), what), end; found != end; ++found)
        all.emplace_back(found->begin(), found->end());
    return all;
}

bool is_all(const std::string &text, const std::string &pattern) { return std::regex_match(text, std::regex(pattern)); }

std::string replaced(const std::string &text, const std::string &pattern, const std::string &by) {
    return std::regex_replace(text, std::regex(pattern), by);
}

std::set<std::string> names_in(const std::string &text, const std::string &pattern) {
    std::set<std::string> names;
    for (const auto &groups : matches(text, pattern))
        names.insert(groups.at(1));
    return names;
}

std::vector<std::filesystem::path> pages() {
    std::vector<std::filesystem::path> found{"README.md"};
    for (const auto &file : std::filesystem::directory_iterator("docs"))
        if (file.path().extension() == ".md")
            found.push_back(file.path());
    return found;
}

std::vector<Link> links_of(const std::filesystem::path &page) {
    std::vector<Link> links;
    for (const auto &found : matches(lines_with("](", text_of(page)), "\\]\\(([^)#: ]*)(#[^) ]*)?\\)"))
        links.push_back({found[1], found[2]});
    return links;
}

bool leads(const std::filesystem::path &page, const Link &link) {
    const std::filesystem::path file = link.file.empty() ? page : page.parent_path() / link.file;
    if (!std::filesystem::exists(file))
        return false;
    if (link.heading.empty())
        return true;
    for (const auto &found : matches("\n" + lines_with("#", text_of(file)), "\n#+ ([^\n]+)")) {
        std::string name = "#";
        for (const char c : found[1])
            if (std::isalnum(c) || c == '-' || c == '_' || c == ' ')
                name += c == ' ' ? '-' : std::tolower(c);
        if (name == link.heading)
            return true;
    }
    return false;
}

std::vector<std::string> blocks_of(const std::filesystem::path &page) {
    // A line goes on behind a backslash, or where the next one is indented further.
    const std::string text = replaced(text_of(page), "( *\\\\)?\n {6,}", " ");
    std::vector<std::string> code;
    for (const auto &line : matches(text, "\n {4}([^\n]+)"))
        code.push_back(line[1]);
    return code;
}

std::vector<std::string> code_of(const std::filesystem::path &page) {
    std::vector<std::string> code = blocks_of(page);
    for (const auto &span : matches(text_of(page), "`([^`]+)`"))
        code.push_back(replaced(span[1], "\\s+", " "));
    return code;
}

std::multimap<std::string, std::string> functions_of(const std::string &file) {
    const std::string text =
        replaced(text_of(file), "//[^\n]*|/\\*[^*]*(?:\\*[^/][^*]*)*\\*/|\"(?:[^\"\\\\\n]|\\\\.)*\"", "");
    const auto end_of = [&](size_t at, char open, char close) { // text[at] is open
        for (int depth = 0; at < text.size(); ++at)
            if (depth += (text[at] == open) - (text[at] == close); depth == 0)
                return at + 1;
        return at;
    };
    std::multimap<std::string, std::string> functions;
    const std::regex name("((?:\\w+::)*~?\\w+)\\("), behind("^(?: const| override|\\s)*\\{");
    for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found) {
        const size_t after = end_of(found->position() + found->length() - 1, '(', ')');
        std::smatch begin;
        const std::string rest = text.substr(after, 40), word = (*found)[1];
        if (std::regex_search(rest, begin, behind) && !is_all(word, "if|for|while|switch|catch")) {
            const size_t body = after + begin.length() - 1;
            functions.insert({word, text.substr(body, end_of(body, '{', '}') - body)});
        }
    }
    return functions;
}

} // namespace tests
