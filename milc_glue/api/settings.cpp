#include "milc_glue/api/settings.h"
#include "milc_glue/api/start_context.h"
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <unistd.h>

namespace milcgpu {

namespace {

bool is_device(const std::string &value) {
    return value.size() <= 3 && value.find_first_not_of("0123456789") == std::string::npos;
}

bool is_seconds(const std::string &value) { return seconds_of(value).has_value(); }

bool ends_in(const std::string &value, const std::string &end) {
    return value.size() > end.size() && value.compare(value.size() - end.size(), end.size(), end) == 0;
}

const std::string judged = ",status"; // behind the name of the table's file

bool is_table_file(const std::string &value) {
    const std::string name = table_file(value);
    return value == "0" || ((ends_in(name, ".csv") || ends_in(name, ".json") || ends_in(name, ".txt")) &&
                            value.find('\n') == std::string::npos);
}

std::vector<std::string> words_between_commas(const std::string &text) {
    std::vector<std::string> words;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

const std::string cut = "cut=", memory = "memory="; // words with letters, or with a number, behind them

// The number in the word memory=BYTES; 0: it has no such number.
int bytes_of(const std::string &word) {
    const std::string digits = word.substr(memory.size());
    constexpr size_t most_digits = 7;
    return !digits.empty() && digits.size() <= most_digits &&
                   digits.find_first_not_of("0123456789") == std::string::npos
               ? std::stoi(digits)
               : 0;
}

// Words of MILCGPU_TEST that contradict each other.
constexpr std::pair<const char *, const char *> opposites[] = {
    {"dslash", "no_dslash"}, {"keep", "load"}, {"nan", "copy_back"}};

bool is_test_words(const std::string &value) {
    const std::vector<std::string> words = words_between_commas(value);
    const auto says = [&](const char *word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    for (const auto &[one, other] : opposites)
        if (says(one) && says(other))
            return false;
    return value == "0" || std::all_of(words.begin(), words.end(), [&](const std::string &word) {
               if (word.rfind(cut, 0) == 0)
                   return directions_of(word.substr(cut.size())).value_or(0) != 0;
               if (word.rfind(memory, 0) == 0)
                   return bytes_of(word) > 0;
               return std::any_of(test_words().begin(), test_words().end(),
                                  [&](const TestWord &known) { return word == known.name; });
           });
}

std::string allowed_test_words() {
    std::string text = "0";
    for (const TestWord &word : test_words())
        text += std::string(" ") + word.name;
    text += ", with commas between";
    for (const auto &[one, other] : opposites)
        text += std::string(", not ") + one + " with " + other;
    return text;
}

bool has_word(const std::string &auto_setting, const std::string &test, const char *word) {
    const std::vector<std::string> words = words_between_commas(test);
    if (std::find(words.begin(), words.end(), word) != words.end())
        return true;
    return auto_setting == "0" && std::any_of(test_words().begin(), test_words().end(), [&](const TestWord &known) {
               return known.by_auto_0 && std::string(known.name) == word;
           });
}

} // namespace

const std::vector<Setting> &setting_table() {
    static const std::string test_allows = allowed_test_words();
    static const std::vector<Setting> table = {
        {"MILCGPU_OFF", "0 1 no yes", "0", "1: as if milcgpu had not been linked"},
        {"MILCGPU_COMPARE", "0 1 strict", "0",
         "1: MILC's routines run too, and both are compared; strict: the run ends at the first difference"},
        {"MILCGPU_PRECISION", "auto single-half single double-half double-single double", "auto",
         "of solves, precise-sloppy"},
        {"MILCGPU_RECONSTRUCT", "auto 18 13 12 9 8", "auto",
         "reals of a long link in the sloppy part; auto: 9 on a GPU, 18 on the host"},
        {"MILCGPU_AUTO", "1 no_eigenvectors 0", "1",
         "1: fields stay on the device between routines, sources and colours are solved together, and links that many "
         "solves use get eigenvectors; no_eigenvectors: without eigenvectors; 0: none of this: every routine reads "
         "its input from MILC's memory and writes its output back"},
        {"MILCGPU_BACKEND", "auto cuda host", "auto", "auto: a GPU if there is one"},
        {"MILCGPU_DEVICE", "0 to 999", "0", "number of the GPU, as nvidia-smi -L counts them", is_device},
        {"MILCGPU_VERBOSE", "0 1 2", "1", "0: only errors; 1: tables; 2: a line a solve"},
        {"MILCGPU_TABLE", "0, or file names that end in .csv, .json or .txt, with or without ,status behind", "0",
         "a file for the table and the certificate of the run; ,status: a bad run ends with status 3", is_table_file},
        {"MILCGPU_BARYONS", "milc right", "milc",
         "of ks_spectrum, where MILC's formulas have a fault. milc: sinks of S and M1/2 operators as MILC has them "
         "since 2024, nucleon and delta times the number of ranks; right: whole sinks, no such factor"},
        {"MILCGPU_VERIFY", "0 1", "1", "1: every solve compares checksums of the data on the device"},
        {"MILCGPU_DIRECT", "1 host 0", "1",
         "ghosts and sums between GPUs of a host. host: through its memory, as if GPUs do not reach each other's; "
         "0: as messages, as between hosts"},
        {"MILCGPU_GPU_MPI", "auto 0 1 step", "auto",
         "messages between GPUs that do not reach each other. auto: from GPU memory if MPI says that it accepts that, "
         "and a test succeeds; 0: through the host; 1: also if MPI does not say so, which may crash it; step: as 1, "
         "and also in the steps of a solve, where kernels wait for them"},
        {"MILCGPU_TIMEOUT", "the numbers above 0", "60", "seconds that a rank waits for another rank", is_seconds},
        {"MILCGPU_TEST", test_allows.c_str(), "0", "for tests and to find faults: docs/reference.md", is_test_words}};
    return table;
}

const std::vector<TestWord> &test_words() {
    static const std::vector<TestWord> words = {
        {"look_at_all", true,
         "a solve compares all of the host's links before it begins, also on a GPU with a large lattice"},
        {"copy_back", true, "gauge field, momenta and HISQ links are copied back after every routine"},
        {"load", true, "each routine that reads quark fields of measurements loads them"},
        {"no_gather", true, "colours of a set of propagators are solved one by one, masses together"},
        {"no_dslash", true, "dslash_fn_field and dslash_w_field are MILC's own"},
        {"no_pool", true, "the C library manages and clears the memory of MILC's fields"},
        {"keep", false, "quark fields of measurements stay on the device, also on the host backend"},
        {"dslash", false, "dslash_fn_field and dslash_w_field are taken over on every lattice and backend"},
        {"nan", false, "old copies on the host of fields that are newer on the device are overwritten with NaN"},
        {"share_gpu", false, "ranks may share a GPU"},
        {"check_halo", false, "a checksum with every message between ranks"},
        {"no_check_words", false, "messages of ghosts between ranks have no check words"},
        {"progress", false, "long work prints its progress from the start and after each step, without a wait of 30 s"},
        {"learn", false, "eigenvectors are computed after a few solves, also on the smallest lattices"},
        {"cut=xyzt", false, "on one rank: treats these directions as cut"},
        {"memory=12000", false, "milcgpu takes at most so many bytes of device memory per site, as on a smaller card"}};
    return words;
}

const std::vector<FormerSetting> &former_settings() {
    static const std::vector<FormerSetting> table = {
        {"MILCGPU_DSLASH", "MILCGPU_TEST=dslash for always, MILCGPU_TEST=no_dslash or MILCGPU_AUTO=0 for never"},
        {"MILCGPU_HASH", "MILCGPU_TEST=look_at_all or MILCGPU_AUTO=0 for full"},
        {"MILCGPU_RESIDENT", "MILCGPU_TEST=copy_back or MILCGPU_AUTO=0 for 0, MILCGPU_TEST=nan for nan"},
        {"MILCGPU_GATHER", "MILCGPU_TEST=no_gather or MILCGPU_AUTO=0 for 0"},
        {"MILCGPU_FIELDS", "MILCGPU_TEST=keep for keep, MILCGPU_TEST=load or MILCGPU_AUTO=0 for load"},
        {"MILCGPU_POOL", "MILCGPU_TEST=no_pool or MILCGPU_AUTO=0 for 0"},
        {"MILCGPU_SHARE_GPU", "MILCGPU_TEST=share_gpu"},
        {"MILCGPU_CHECK_HALO", "MILCGPU_TEST=check_halo"},
        {"MILCGPU_EMULATE", "MILCGPU_TEST=cut=xyzt, with its letters"}};
    return table;
}

std::vector<std::string> known_names() {
    std::vector<std::string> names{"MILCGPU_FLIPS", "MILCGPU_HOME", "MILCGPU_LIB", "MILCGPU_SAMPLES", "MILCGPU_TWIN"};
    for (const Setting &setting : setting_table())
        names.push_back(setting.name);
    return names;
}

namespace {

// How many letters are inserted, dropped or changed (Levenshtein's distance).
size_t distance(const std::string &from, const std::string &to) {
    std::vector<size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < from.size(); ++i) {
        size_t diagonal = row[0]++;
        for (size_t j = 0; j < to.size(); ++j) {
            const size_t changed = diagonal + (from[i] != to[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
        }
    }
    return row.back();
}

} // namespace

std::string unknown_names() {
    const std::vector<std::string> known = known_names();
    std::string text;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string variable = *entry, name = variable.substr(0, variable.find('='));
        if (name.rfind("MILCGPU_", 0) != 0 || std::find(known.begin(), known.end(), name) != known.end())
            continue;
        text += text.empty() ? "" : ". ";
        const auto former = std::find_if(former_settings().begin(), former_settings().end(),
                                         [&](const FormerSetting &one) { return name == one.name; });
        if (former != former_settings().end()) {
            text += format("%s is set, but this setting no longer exists; use %s", former->name, former->instead);
            continue;
        }
        const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto &a, const auto &b) {
            return distance(name, a) < distance(name, b);
        });
        text +=
            format("%s is set, but there is no such setting; the nearest name is %s", name.c_str(), nearest->c_str());
    }
    return text;
}

namespace {

bool allows(const Setting &setting, const std::string &value) {
    if (setting.allows != nullptr)
        return setting.allows(value);
    return value.find(' ') == std::string::npos &&
           format(" %s ", setting.allowed).find(" " + value + " ") != std::string::npos;
}

std::optional<std::string> given_value(const Setting &setting) {
    const char *value = std::getenv(setting.name);
    if (value == nullptr || *value == '\0')
        return {};
    if (!allows(setting, value))
        throw Error(Status::bad_argument, format("%s=%s is none of %s", setting.name, value, setting.allowed));
    return value;
}

} // namespace

std::string setting(const std::string &name) {
    const auto row = std::find_if(setting_table().begin(), setting_table().end(),
                                  [&](const Setting &one) { return name == one.name; });
    return given_value(*row).value_or(row->otherwise);
}

bool is_judged(const std::string &table_setting) { return ends_in(table_setting, judged); }

std::string table_file(const std::string &table_setting) {
    return table_setting == "0"
               ? ""
               : table_setting.substr(0, table_setting.size() - (is_judged(table_setting) ? judged.size() : 0));
}

bool asked_for(const char *word) { return has_word(setting("MILCGPU_AUTO"), setting("MILCGPU_TEST"), word); }

int cut_by_test() {
    int directions = 0;
    for (const std::string &word : words_between_commas(setting("MILCGPU_TEST")))
        if (word.rfind(cut, 0) == 0)
            directions |= *directions_of(word.substr(cut.size()));
    return directions;
}

int memory_by_test() {
    int bytes = 0;
    for (const std::string &word : words_between_commas(setting("MILCGPU_TEST")))
        if (word.rfind(memory, 0) == 0)
            bytes = bytes_of(word);
    return bytes;
}

std::optional<int> directions_of(const std::string &text) {
    int directions = 0;
    for (const char letter : text) {
        const size_t mu = std::string("xyzt").find(letter);
        if (mu == std::string::npos || (directions >> mu & 1) != 0)
            return {};
        directions |= 1 << mu;
    }
    return directions;
}

Settings Settings::of_environment() {
    Settings settings;
    for (const Setting &setting : setting_table()) {
        const std::optional<std::string> given = given_value(setting);
        settings.values_[setting.name] = given.value_or(setting.otherwise);
        if (given)
            settings.given_.push_back(format("%s=%s", setting.name, given->c_str()));
    }
    return settings;
}

bool Settings::asks_for(const char *word) const {
    return has_word(values_.at("MILCGPU_AUTO"), values_.at("MILCGPU_TEST"), word);
}

bool Settings::is_given(const std::string &name) const {
    return std::any_of(given_.begin(), given_.end(),
                       [&](const std::string &one) { return one.rfind(name + "=", 0) == 0; });
}

std::string Settings::given() const {
    std::string text;
    for (const std::string &one : given_)
        text += (text.empty() ? "" : " ") + one;
    return text;
}

std::string Settings::list() const {
    std::string text;
    for (const Setting &setting : setting_table())
        text += format("%-20s %-8s (%s) %s\n", setting.name, values_.at(setting.name).c_str(), setting.allowed,
                       setting.meaning);
    return text;
}

} // namespace milcgpu
