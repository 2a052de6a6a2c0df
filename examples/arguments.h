// Command lines of the examples: options with a type, a default and a line of help; unknown ones are refused. CLI11
// does the work, in arguments.cpp alone, because it takes long to compile. Every program knows --help and --version.
//
//     Arguments arguments("solve", "solves on one parity");
//     arguments.add("mass", "M", mass, "quark mass");
//     if (!arguments.parse(argc, argv))   // --help or --version was asked and printed
//         return 0;
#pragma once

#include <array>
#include <cerrno>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
}

namespace examples {

// The caller prints what() to stderr and exits with 2.
struct ArgumentError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The name that this program was started by: solve in the build folder, milcgpu-solve where it is installed.
inline const char *program_name() { return program_invocation_short_name; }

class Arguments {
  public:
    // program: its name until parse() knows how it was started.
    Arguments(const std::string &program, const std::string &purpose);
    ~Arguments();
    Arguments(const Arguments &) = delete;

    // `value` holds the default and receives what the user gives; it must outlive parse(). The number of words that
    // follow the option comes from the type: four for an array, none for a bool, else one. The last one counts of an
    // option that is given twice.
    template <class Value>
    void add(const std::string &name, const std::string &placeholder, Value &value, const std::string &help) {
        if constexpr (std::is_same_v<Value, bool>) {
            add_flag("--" + name, value, help);
        } else if constexpr (std::is_same_v<Value, std::array<int, 4>>) {
            std::ostringstream text;
            text << value[0] << " " << value[1] << " " << value[2] << " " << value[3];
            add_words("--" + name, placeholder, help, text.str(), 4, [&value, name](const Words &words) {
                for (std::size_t i = 0; i < 4; i++)
                    read(name, words[i], value[i]);
            });
        } else {
            std::ostringstream text;
            text << value;
            add_words("--" + name, placeholder, help, text.str(), 1,
                      [&value, name](const Words &words) { read(name, words[0], value); });
        }
    }

    // False: --help or --version was asked and has been printed to standard output. Throws ArgumentError.
    bool parse(int argc, const char *const *argv);
    std::string help() const;
    std::string hint() const; // where a user finds the options

  private:
    using Words = std::vector<std::string>;
    void add_flag(const std::string &flag, bool &value, const std::string &help);
    void add_words(const std::string &flag, const std::string &placeholder, const std::string &help,
                   const std::string &shown_default, int words, std::function<void(const Words &)> take);

    static void read(const std::string &, const std::string &word, std::string &value) { value = word; }
    template <class Number> static void read(const std::string &name, const std::string &word, Number &value) {
        std::istringstream stream(word);
        // An unsigned type would take "-1" and wrap it.
        const bool wraps = std::is_unsigned<Number>::value && word.find('-') != std::string::npos;
        if (wraps || !(stream >> value) || stream.peek() != std::istringstream::traits_type::eof())
            throw ArgumentError("--" + name + ": '" + word + "' is not a number of the kind that it needs");
    }

    std::unique_ptr<CLI::App> app_;
};

// Words of a list with commas, as values. Throws ArgumentError where one is not of the kind.
template <class Value> std::vector<Value> list_of(const std::string &text, const char *option) {
    std::vector<Value> values;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        std::istringstream one(part);
        Value value;
        if (!(one >> value) || !one.eof())
            throw ArgumentError(std::string("--") + option + ": '" + part + "' in '" + text + "'");
        values.push_back(value);
    }
    return values;
}

// What every main() does: runs `body`, prints what went wrong, and gives the exit status: 2 for bad arguments, 1 for
// the rest.
template <class Body> int run_program(const Body &body) {
    try {
        return body();
    } catch (const ArgumentError &error) {
        std::cerr << program_name() << ": " << error.what() << "\n";
        return 2;
    } catch (const std::exception &error) {
        std::cerr << program_name() << ": " << error.what() << "\n";
        return 1;
    }
}

} // namespace examples
