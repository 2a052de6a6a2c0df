// Command lines of the examples: options with a type, a default and a line of help. Unknown options are refused. Only
// arguments.cpp includes CLI11, because CLI11 takes long to compile. Every program has --help and --version.
//
//     Arguments arguments("solve", "solves on one parity");
//     arguments.add("mass", "M", mass, "quark mass", above(0, 1e6));
//     if (!arguments.parse(argc, argv))   // --help or --version has been printed
//         return 0;
#pragma once

#include "gpu_kernels/machine/backend/quoted.h"
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace examples {

// The caller prints what() to stderr and exits with 2.
struct ArgumentError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The condition on the words of an option. CLI11 tests each word before a program does any work.
struct Check {
    std::string says; // text after "must be" and in --help; empty: no condition
    std::function<bool(const std::string &word)> holds;
    bool names_files = false; // a word is the name of a file, or names between commas
};
Check whole(long low, long high = 1000000000); // a whole number, low <= n <= high
Check above(double low, double high);          // low < x <= high
Check from(double low, double high);           // low <= x <= high
Check inside(double low, double high);         // low < x < high
Check one_of(std::vector<std::string> words);
Check file_name();             // not empty
Check list_of_each(Check one); // words between commas, at least one
Check either(Check a, Check b);

// The largest number of sites that indices can count.
constexpr double most_sites = 1 << 28;

template <class> struct is_optional : std::false_type {};
template <class Value> struct is_optional<std::optional<Value>> : std::true_type {};

// The parts of a text between commas, including empty parts.
std::vector<std::string> between_commas(const std::string &text);
template <class Number> bool read_number(const std::string &word, Number &value) {
    std::istringstream stream(word);
    // An unsigned type would accept "-1" and wrap around.
    const bool wraps = std::is_unsigned<Number>::value && word.find('-') != std::string::npos;
    return !wraps && stream >> value && stream.peek() == std::istringstream::traits_type::eof();
}

// The name by which this program was started: solve in the build folder, milcgpu-solve when installed.
inline const char *program_name() { return program_invocation_short_name; }

class Arguments {
  public:
    // program: the name to print until parse() knows the name by which the program was started.
    Arguments(const std::string &program, const std::string &purpose);
    ~Arguments();
    Arguments(const Arguments &) = delete;

    // `value` holds the default and receives the user's value; it must outlive parse(). The type decides how many words
    // follow the option: four for an array, none for a bool, else one. An optional is empty if the user does not give
    // the option. If an option is given twice, the last one counts. A word that fails `check` is refused.
    template <class Value>
    void add(const std::string &name, const std::string &placeholder, Value &value, const std::string &help,
             const Check &check = {}) {
        if constexpr (std::is_same_v<Value, bool>) {
            add_flag("--" + name, value, help);
        } else if constexpr (std::is_same_v<Value, std::array<int, 4>>) {
            std::ostringstream text;
            text << value[0] << " " << value[1] << " " << value[2] << " " << value[3];
            add_words("--" + name, placeholder, help, check, text.str(), 4, [&value, name](const Words &words) {
                for (std::size_t i = 0; i < 4; i++)
                    read(name, words[i], value[i]);
            });
        } else {
            std::ostringstream text;
            if constexpr (!is_optional<Value>::value)
                text << value;
            add_words("--" + name, placeholder, help, check, text.str(), 1,
                      [&value, name](const Words &words) { read(name, words[0], value); });
        }
    }

    // A file that the user names without an option, and must name.
    void add_file(std::string &value, const std::string &help);

    // --size, extents of a lattice: each even and at least 2, the volume at most most_sites. or_zero: all may also be
    // 0.
    void add_size(std::array<int, 4> &size, const std::string &help, bool or_zero = false);

    // Refuses these two options together, because one would have no effect.
    void exclude(const std::string &name, const std::string &other);

    // Returns false if --help or --version has been printed to standard output. Throws ArgumentError, also if two
    // options name one file, so that a program does not overwrite its input.
    bool parse(int argc, const char *const *argv);
    std::string help() const;
    std::string hint() const; // says where a user finds the options

  private:
    using Words = std::vector<std::string>;
    void add_flag(const std::string &flag, bool &value, const std::string &help);
    void add_words(const std::string &flag, const std::string &placeholder, const std::string &help, const Check &check,
                   const std::string &shown_default, int words, std::function<void(const Words &)> take);

    static void read(const std::string &, const std::string &word, std::string &value) { value = word; }
    template <class Number>
    static void read(const std::string &name, const std::string &word, std::optional<Number> &value) {
        read(name, word, value.emplace());
    }
    template <class Number> static void read(const std::string &name, const std::string &word, Number &value) {
        if (!read_number(word, value))
            throw ArgumentError("--" + name + ": '" + word + "' must be " +
                                (std::is_floating_point<Number>::value ? "a number"
                                 : std::is_unsigned<Number>::value     ? "a whole number, 0 or more"
                                                                       : "a whole number"));
    }

    void refuse_shared_files() const;

    std::unique_ptr<CLI::App> app_;
    std::vector<std::pair<std::string, std::string>> files_; // options and the file names in their values
};

// The words of a comma-separated list, as values. list_of_each() has checked the list.
template <class Value> std::vector<Value> list_of(const std::string &text) {
    std::vector<Value> values;
    for (const std::string &word : between_commas(text)) {
        values.emplace_back();
        if constexpr (std::is_same_v<Value, std::string>)
            values.back() = word;
        else
            read_number(word, values.back());
    }
    return values;
}

// Opens /dev/null for each of stdin, stdout and stderr that is closed. Otherwise the next opened file would take its
// place, and prints would go into this file. Printing still fails.
void occupy_standard_streams();

// A line on stderr, with the name of the program.
void say_error(const std::string &error);

// Throws if printed text did not reach its destination, as on a full disk. Call it before a program ends with success.
void check_printed();

// The message for std::bad_alloc.
constexpr const char *no_memory = "there is not enough memory: take a smaller lattice, or a machine with more memory";

// The body of every main(): runs `body`, prints an error, and returns the exit status: 2 for bad arguments, 1 for any
// other failure.
template <class Body> int run_program(const Body &body) {
    occupy_standard_streams();
    try {
        const int status = body();
        check_printed();
        return status;
    } catch (const ArgumentError &error) {
        say_error(error.what());
        return 2;
    } catch (const std::bad_alloc &) {
        say_error(no_memory);
        return 1;
    } catch (const std::exception &error) {
        say_error(error.what());
        return 1;
    }
}

} // namespace examples
