// Files as text, and what stands in them, for tests that hold docs and sources together. They run in the root of the
// source tree.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tests {

// Throws where the file cannot be read.
std::string text_of(const std::filesystem::path &path);

// The lines that have this in them: a regular expression takes long to look at the others.
std::string lines_with(const std::string &word, const std::string &text);

// What a regular expression finds, one after the other: the whole, then its groups.
std::vector<std::vector<std::string>> matches(const std::string &text, const std::string &pattern);

// Whether it is the whole text.
bool is_all(const std::string &text, const std::string &pattern);

// Each place that it finds, replaced: $1 is the first group.
std::string replaced(const std::string &text, const std::string &pattern, const std::string &by);

// The first group of each.
std::set<std::string> names_in(const std::string &text, const std::string &pattern);

// README.md and the pages of docs/.
std::vector<std::filesystem::path> pages();

// Links to files, from the page's folder on, and behind a # the heading that is meant, as it is written in links.
struct Link {
    std::string file, heading;
};
std::vector<Link> links_of(const std::filesystem::path &page);
// Whether there is that file, with that heading.
bool leads(const std::filesystem::path &page, const Link &link);

// What is set as code on a page: the lines of its blocks, with those that go on joined, and what stands between
// backticks.
std::vector<std::string> code_of(const std::filesystem::path &page);
std::vector<std::string> blocks_of(const std::filesystem::path &page); // the lines of blocks alone

// Names with the bodies of their functions, of one file. No comments, no strings.
std::multimap<std::string, std::string> functions_of(const std::string &file);

// Declarations and inline functions of the C headers: each begins a line.
constexpr char a_function[] = "(?:^|\n)[a-z][^\n;{}(/]*[ *](milcgpu_[a-z0-9_]+)\\(";

} // namespace tests
