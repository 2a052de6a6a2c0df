#include "milc_glue/plugin/settings.h"
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
bool is_directions(const std::string &value) { return directions_of(value).has_value(); }

} // namespace

const std::vector<Setting> &setting_table() {
    static const std::vector<Setting> table = {
        {"MILCGPU_OFF", "0 1 no yes", "0", "1: as if milcgpu had not been linked"},
        {"MILCGPU_COMPARE", "0 1 strict", "0",
         "1: MILC's routines run too, and both are compared; strict: the run ends at the first difference"},
        {"MILCGPU_PRECISION", "auto single-half single double-half double-single double", "auto",
         "of solves, precise-sloppy"},
        {"MILCGPU_RECONSTRUCT", "auto 18 13 12 9 8", "auto",
         "reals of a long link in the sloppy part; auto: 9 on a GPU, 18 on the host"},
        {"MILCGPU_DSLASH", "auto always never", "auto", "whether dslash_fn_field and dslash_w_field are taken over"},
        {"MILCGPU_HASH", "sample full", "sample", "how much of the host's links a call looks at before its work"},
        {"MILCGPU_RESIDENT", "1 0 nan", "1",
         "1: gauge field and momenta stay on the device; 0: they are copied back after every routine; nan: for tests, "
         "old copies on the host are overwritten"},
        {"MILCGPU_GATHER", "1 0", "1",
         "1: all colours of a set of propagators are solved in one call (ks_spectrum), masses far apart one by one"},
        {"MILCGPU_FIELDS", "auto keep load", "auto",
         "keep: quark fields stay on the device from one routine to the next; load: every routine loads what it reads; "
         "auto: keep on a GPU with 4 threads of the host or more"},
        {"MILCGPU_POOL", "1 0", "1",
         "1: memory for MILC's fields is cleared by all threads and kept when it is freed (one rank); 0: as MILC has "
         "it"},
        {"MILCGPU_BACKEND", "auto cuda host", "auto", "auto: a GPU if there is one"},
        {"MILCGPU_DEVICE", "0 to 999", "0", "number of the GPU, as nvidia-smi -L counts them", is_device},
        {"MILCGPU_VERBOSE", "0 1 2", "1", "0: only errors; 1: tables; 2: a line a solve"},
        {"MILCGPU_VERIFY", "0 1", "1", "1: checksums of what lies on the device, with every solve"},
        {"MILCGPU_DIRECT", "1 0", "1", "0: ghosts and sums go over the host, as between hosts"},
        {"MILCGPU_GPU_MPI", "auto 0 1", "auto",
         "messages between GPUs that do not reach each other. auto: from GPU memory where MPI says that it takes that, "
         "and "
         "a test shows it; 0: through the host; 1: also where MPI does not say so, which may crash it"},
        {"MILCGPU_SHARE_GPU", "0 1", "0", "1: ranks may share a GPU; for tests"},
        {"MILCGPU_CHECK_HALO", "0 1", "0", "1: a checksum with every message between ranks"},
        {"MILCGPU_TIMEOUT", "the numbers above 0", "60", "seconds that a rank waits for another one", is_seconds},
        {"MILCGPU_EMULATE", "0 and letters of xyzt", "0", "for tests, on one rank: directions treated as cut",
         is_directions}};
    return table;
}

std::vector<std::string> known_names() {
    std::vector<std::string> names{"MILCGPU_FLIPS", "MILCGPU_HOME", "MILCGPU_LIB", "MILCGPU_SAMPLES"};
    for (const Setting &setting : setting_table())
        names.push_back(setting.name);
    return names;
}

namespace {

// How many letters are put in, left out or changed (Levenshtein's distance).
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
        const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto &a, const auto &b) {
            return distance(name, a) < distance(name, b);
        });
        text += format("%s%s is set, but there is no such setting; the nearest name is %s", text.empty() ? "" : ". ",
                       name.c_str(), nearest->c_str());
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

} // namespace

Settings Settings::of_environment() {
    Settings settings;
    for (const Setting &setting : setting_table()) {
        const char *value = std::getenv(setting.name);
        const bool given = value != nullptr && *value != '\0';
        if (given && !allows(setting, value))
            throw Error(Status::bad_argument, format("%s=%s is none of %s", setting.name, value, setting.allowed));
        settings.values_[setting.name] = given ? value : setting.otherwise;
        if (given)
            settings.given_.push_back(format("%s=%s", setting.name, value));
    }
    return settings;
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
