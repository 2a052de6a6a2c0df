// What the environment sets. One table says what is allowed, what holds otherwise, and what it is for; the check, the
// refusals and the printed list all come from it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace milcgpu {

struct Setting {
    const char *name;
    const char *allowed; // words; where allows is given, what it allows
    const char *otherwise;
    const char *meaning;
    bool (*allows)(const std::string &value) = nullptr;
};

const std::vector<Setting> &setting_table();

// Every name of the environment with a meaning: those of the table, and those that the library does not read: of make,
// of the tests, of the environment module.
std::vector<std::string> known_names();

// Names of before, and what took the place of each.
struct FormerSetting {
    const char *name, *instead;
};
const std::vector<FormerSetting> &former_settings();

// What the environment sets under a name that begins with MILCGPU_ and is not known, a sentence for each name. Empty:
// nothing.
std::string unknown_names();

// What the environment says, or what holds otherwise; a variable that is empty counts as not set. Throws
// Error(bad_argument) with the variable, its value and what is allowed.
std::string setting(const std::string &name);

// Words of MILCGPU_TEST; some are those that MILCGPU_AUTO=0 stands for, too.
struct TestWord {
    const char *name;
    bool by_auto_0;
    const char *meaning;
};
const std::vector<TestWord> &test_words();
// Whether the environment asks for what a word is for. Throws as setting() does.
bool asked_for(const char *word);
// Of the word cut=xyzt: bit mu is direction mu.
int cut_by_test();
// The sum of bits of such letters; nothing where the text is none, or has one twice.
std::optional<int> directions_of(const std::string &text);

class Settings {
  public:
    static Settings of_environment(); // throws as setting() does

    const std::string &operator[](const std::string &name) const { return values_.at(name); }
    bool is(const std::string &name, const char *value) const { return values_.at(name) == value; }
    bool is_on(const std::string &name) const { return is(name, "1") || is(name, "yes"); }
    bool is_given(const std::string &name) const; // by the environment
    bool asks_for(const char *word) const;        // of test_words()
    std::string given() const;                    // NAME=value of what the environment sets, in the table's order
    std::string list() const;                     // every setting: its value, what is allowed, what it is for

  private:
    std::map<std::string, std::string> values_;
    std::vector<std::string> given_;
};

} // namespace milcgpu
