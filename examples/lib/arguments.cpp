// Command lines by CLI11 (https://github.com/CLIUtils/CLI11; Debian's libcli11-dev), which no other file includes.
#include "examples/lib/arguments.h"
#include "milc_glue/api/milcgpu.h"
#if !__has_include(<CLI/CLI.hpp>)
#error "CLI11 is missing. On Debian and Ubuntu: apt-get install libcli11-dev. Without the programs: make lib"
#endif
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace examples {

namespace {

std::string text_of(double number) {
    std::ostringstream text;
    text << number;
    return text.str();
}

Check range(const std::string &says, std::function<bool(double)> holds) {
    return {says, [=](const std::string &word) {
                double number;
                return read_number(word, number) && std::isfinite(number) && holds(number);
            }};
}

} // namespace

Check whole(long low, long high) {
    return {"a whole number from " + std::to_string(low) + " to " + std::to_string(high), [=](const std::string &word) {
                long number;
                return read_number(word, number) && number >= low && number <= high;
            }};
}
Check above(double low, double high) {
    return range("a number above " + text_of(low) + ", at most " + text_of(high),
                 [=](double x) { return x > low && x <= high; });
}
Check from(double low, double high) {
    return range("a number from " + text_of(low) + " to " + text_of(high),
                 [=](double x) { return x >= low && x <= high; });
}
Check inside(double low, double high) {
    return range("a number above " + text_of(low) + " and below " + text_of(high),
                 [=](double x) { return x > low && x < high; });
}
Check one_of(std::vector<std::string> words) {
    std::string all;
    for (const std::string &word : words)
        all += (!all.empty() ? ", " : words.size() > 1 ? "one of " : "") + word;
    return {all, [words = std::move(words)](const std::string &word) {
                return std::find(words.begin(), words.end(), word) != words.end();
            }};
}
Check file_name() {
    return {"the name of a file", [](const std::string &word) { return !word.empty(); }, true};
}
Check list_of_each(Check one) {
    return {"between commas, each " + one.says,
            [holds = std::move(one.holds)](const std::string &text) {
                const std::vector<std::string> words = between_commas(text);
                return std::all_of(words.begin(), words.end(), holds);
            },
            one.names_files};
}
Check either(Check a, Check b) {
    return {a.says + ", or " + b.says, [=](const std::string &word) { return a.holds(word) || b.holds(word); }};
}

std::vector<std::string> between_commas(const std::string &text) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

void say_error(const std::string &error) {
    std::fprintf(stderr, "%s: %s\n", program_name(), milcgpu::printable(error).c_str());
}

void occupy_standard_streams() {
    // open() returns the lowest free descriptor. Its mode is opposite to the stream's use, so that any use is an error.
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void check_printed() {
    std::cout.flush();
    const bool well = std::fflush(stdout) == 0;
    if (!well || std::ferror(stdout) || !std::cout)
        throw std::runtime_error(std::string("what is printed cannot be written: ") +
                                 (well ? "an earlier write failed" : std::strerror(errno)));
}

Arguments::Arguments(const std::string &program, const std::string &purpose)
    : app_(std::make_unique<CLI::App>(purpose, program)) {
    app_->get_formatter()->column_width(28);
    app_->get_formatter()->label("OPTIONS", "--option value ...");
    app_->set_help_flag("-h,--help", "print this text");
    app_->set_version_flag("--version", MILCGPU_VERSION, "print milcgpu's version");
}
Arguments::~Arguments() = default;

void Arguments::add_flag(const std::string &flag, bool &value, const std::string &help) {
    app_->add_flag(flag, value, help);
}

void Arguments::add_words(const std::string &flag, const std::string &placeholder, const std::string &help,
                          const Check &check, const std::string &shown_default, int words,
                          std::function<void(const Words &)> take) {
    const auto taken = [this, flag, names_files = check.names_files, take = std::move(take)](const Words &given) {
        take(given);
        if (names_files)
            for (const std::string &name : between_commas(given[0]))
                files_.emplace_back(flag, name);
        return true;
    };
    const std::string by_default = shown_default.empty() ? "" : "default " + shown_default,
                      between = check.says.empty() || by_default.empty() ? "" : "; ",
                      more = check.says + between + by_default;
    CLI::Option *option = app_->add_option(flag, taken, more.empty() ? help : help + " (" + more + ")");
    option->type_name(placeholder)
        ->option_text(placeholder)
        ->type_size(words)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (check.holds)
        option->check(CLI::Validator(
            [check](std::string &word) { return check.holds(word) ? "" : "'" + word + "' must be " + check.says; },
            check.says));
}

void Arguments::add_file(std::string &value, const std::string &help) {
    add_words("file", "FILE", help, file_name(), "", 1, [&value](const Words &words) { value = words[0]; });
    app_->get_option("file")->required();
}

void Arguments::add_size(std::array<int, 4> &size, const std::string &help, bool or_zero) {
    const Check even{"even and at least 2", [](const std::string &word) {
                         int extent;
                         return read_number(word, extent) && extent >= 2 && extent % 2 == 0;
                     }};
    std::string shown;
    for (const int extent : size)
        shown += (shown.empty() ? "" : " ") + std::to_string(extent);
    add_words("--size", "X Y Z T", help, or_zero ? either(even, one_of({"0"})) : even, shown, 4,
              [&size](const Words &words) {
                  double sites = 1;
                  for (std::size_t mu = 0; mu < 4; ++mu) {
                      read("size", words[mu], size[mu]);
                      sites *= size[mu];
                  }
                  if (sites > most_sites)
                      throw ArgumentError("--size: " + text_of(sites) + " sites, but at most " + text_of(most_sites) +
                                          " are possible");
                  if (sites == 0 && size != std::array<int, 4>{})
                      throw ArgumentError("--size: either all four extents are 0, or none is 0");
              });
}

bool Arguments::parse(int argc, const char *const *argv) {
    const std::string path = argc > 0 ? argv[0] : "";
    if (!path.empty())
        app_->name(path.substr(path.rfind('/') + 1));
    try {
        app_->parse(argc, argv);
    } catch (const CLI::CallForHelp &) {
        std::cout << help();
        return false;
    } catch (const CLI::CallForVersion &) {
        std::cout << app_->get_name() << ", milcgpu " << MILCGPU_VERSION << "\n";
        return false;
    } catch (const CLI::ExtrasError &) {
        throw ArgumentError("unknown option '" + app_->remaining().front() + "'" + hint());
    } catch (const CLI::ParseError &error) {
        throw ArgumentError(error.what() + hint());
    }
    refuse_shared_files();
    return true;
}

void Arguments::refuse_shared_files() const {
    namespace fs = std::filesystem;
    const auto are_one = [](const std::string &a, const std::string &b) {
        std::error_code none;
        const bool plain = !fs::exists(a, none) || fs::is_regular_file(a, none);
        const auto whole = [&](const std::string &name) {
            return fs::weakly_canonical(fs::absolute(name, none), none);
        };
        return plain && (whole(a) == whole(b) || fs::equivalent(a, b, none));
    };
    for (size_t k = 1; k < files_.size(); ++k)
        for (size_t before = 0; before < k; ++before) {
            const auto &[option, name] = std::min(files_[before], files_[k]);
            const auto &[other, its] = std::max(files_[before], files_[k]);
            if (!are_one(name, its))
                continue;
            if (option == other)
                throw ArgumentError(option + " names " + milcgpu::quoted_name(name) + " twice");
            throw ArgumentError(option + " and " + other + " name the same file, " + milcgpu::quoted_name(name) +
                                ": give each its own file name");
        }
}

void Arguments::exclude(const std::string &name, const std::string &other) {
    app_->get_option("--" + name)->excludes(app_->get_option("--" + other));
}

std::string Arguments::help() const { return app_->help(); }
std::string Arguments::hint() const { return " (see " + app_->get_name() + " --help)"; }

} // namespace examples
