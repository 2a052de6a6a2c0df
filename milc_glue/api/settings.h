// Settings from the environment. One table has their allowed values, defaults and descriptions; the check, the error
// messages and the printed list use it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace milcgpu {

struct Setting {
    const char *name;
    const char *allowed; // in words
    const char *otherwise;
    const char *meaning;
    bool (*allows)(const std::string &value) = nullptr;
};

const std::vector<Setting> &setting_table();

// All names of the environment that have a meaning: those of the table, and those that make, the tests or the
// environment module read.
std::vector<std::string> known_names();

// Former names, and what replaced each of them.
struct FormerSetting {
    const char *name, *instead;
};
const std::vector<FormerSetting> &former_settings();

// A sentence for each name in the environment that begins with MILCGPU_ and is not known. Empty: there is none.
std::string unknown_names();

// The value from the environment, or the default; an empty variable counts as not set. Throws Error(bad_argument) with
// the variable, its value and the allowed values.
std::string setting(const std::string &name);

// Words of MILCGPU_TEST; MILCGPU_AUTO=0 stands for some of them.
struct TestWord {
    const char *name;
    bool by_auto_0;
    const char *meaning;
};
const std::vector<TestWord> &test_words();
// Whether the environment sets this word. Throws as setting() does.
bool asked_for(const char *word);
// The directions of the word cut=xyzt: bit mu is direction mu.
int cut_by_test();
// The number of the word memory=BYTES; 0: not set.
int memory_by_test();
// The sum of bits for such letters; no value if the text has another letter, or one twice.
std::optional<int> directions_of(const std::string &text);

// MILCGPU_TABLE: the name of the file, empty for none; and whether the run's verdict decides its exit status.
std::string table_file(const std::string &table_setting);
bool is_judged(const std::string &table_setting);

class Settings {
  public:
    static Settings of_environment(); // throws as setting() does

    const std::string &operator[](const std::string &name) const { return values_.at(name); }
    bool is(const std::string &name, const char *value) const { return values_.at(name) == value; }
    bool is_on(const std::string &name) const { return is(name, "1") || is(name, "yes"); }
    bool is_given(const std::string &name) const; // by the environment
    bool asks_for(const char *word) const;        // one of test_words()
    std::string given() const;                    // NAME=value for what the environment sets, in the table's order
    std::string list() const;                     // every setting: its value, the allowed values, its description

  private:
    std::map<std::string, std::string> values_;
    std::vector<std::string> given_;
};

} // namespace milcgpu
