// Command lines of the examples: options with a type, a default and a line of help; unknown ones are refused.
//
//     Arguments arguments("solve", "solves on one parity");
//     arguments.add("mass", "M", mass, "quark mass");
//     if (!arguments.parse(argc, argv))   // --help was asked and printed
//         return 0;
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace examples {

// The caller prints what() to stderr and exits with 2.
struct ArgumentError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Arguments {
  public:
    Arguments(std::string program, std::string purpose) : program_(std::move(program)), purpose_(std::move(purpose)) {}

    // `value` holds the default and receives what the user gives; it must outlive parse(). The number of words that
    // follow the option comes from the type: four for an array, none for a bool, else one.
    template <class Value>
    void add(const std::string &name, const std::string &placeholder, Value &value, const std::string &help) {
        Option option{"--" + name, placeholder, help, show(value), word_count(value), {}};
        option.take = [&value, flag = option.flag](const std::vector<std::string> &words) { read(flag, words, value); };
        options_.push_back(std::move(option));
    }

    // False: --help was asked and has been printed to standard output. Throws ArgumentError.
    bool parse(int argc, const char *const *argv) const {
        const std::vector<std::string> words(argv + 1, argv + argc);
        for (std::size_t i = 0; i < words.size();) {
            if (words[i] == "--help" || words[i] == "-h") {
                std::cout << help();
                return false;
            }
            const Option &option = find(words[i]);
            if (words.size() - i - 1 < option.words)
                throw ArgumentError(option.flag + " needs " + std::to_string(option.words) +
                                    " value(s): " + option.placeholder + hint());
            const auto first = words.begin() + std::ptrdiff_t(i) + 1;
            option.take({first, first + std::ptrdiff_t(option.words)});
            i += 1 + option.words;
        }
        return true;
    }

    std::string help() const {
        std::ostringstream text;
        text << program_ << ": " << purpose_ << "\n\noptions:\n";
        for (const Option &option : options_) {
            std::string left = "  " + option.flag + " " + option.placeholder;
            left.resize(std::max<std::size_t>(left.size() + 1, 26), ' ');
            text << left << option.help;
            if (!option.shown_default.empty())
                text << " (default " << option.shown_default << ")";
            text << "\n";
        }
        text << "  --help                  this text\n";
        return text.str();
    }

    std::string hint() const { return " (see " + program_ + " --help)"; }

  private:
    struct Option {
        std::string flag, placeholder, help, shown_default;
        std::size_t words;
        std::function<void(const std::vector<std::string> &)> take;
    };

    const Option &find(const std::string &word) const {
        for (const Option &option : options_)
            if (option.flag == word)
                return option;
        throw ArgumentError("unknown option '" + word + "'" + hint());
    }

    template <class Number> static void read_number(const std::string &flag, const std::string &word, Number &value) {
        std::istringstream stream(word);
        // An unsigned type would take "-1" and wrap it.
        const bool wraps = std::is_unsigned<Number>::value && word.find('-') != std::string::npos;
        if (wraps || !(stream >> value) || stream.peek() != std::istringstream::traits_type::eof())
            throw ArgumentError(flag + ": '" + word + "' is not a number of the kind that it needs");
    }

    static void read(const std::string &, const std::vector<std::string> &words, std::string &value) {
        value = words[0];
    }
    static void read(const std::string &, const std::vector<std::string> &, bool &value) { value = true; }
    static void read(const std::string &flag, const std::vector<std::string> &words, std::array<int, 4> &value) {
        for (std::size_t i = 0; i < 4; i++)
            read_number(flag, words[i], value[i]);
    }
    template <class Number>
    static void read(const std::string &flag, const std::vector<std::string> &words, Number &value) {
        read_number(flag, words[0], value);
    }

    static std::size_t word_count(bool) { return 0; }
    static std::size_t word_count(const std::array<int, 4> &) { return 4; }
    template <class Value> static std::size_t word_count(const Value &) { return 1; }

    static std::string show(bool) { return ""; }
    static std::string show(const std::array<int, 4> &value) {
        std::ostringstream text;
        text << value[0] << " " << value[1] << " " << value[2] << " " << value[3];
        return text.str();
    }
    template <class Value> static std::string show(const Value &value) {
        std::ostringstream text;
        text << value;
        return text.str();
    }

    std::string program_, purpose_;
    std::vector<Option> options_;
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
template <class Body> int run_program(const char *program, const Body &body) {
    try {
        return body();
    } catch (const ArgumentError &error) {
        std::cerr << program << ": " << error.what() << "\n";
        return 2;
    } catch (const std::exception &error) {
        std::cerr << program << ": " << error.what() << "\n";
        return 1;
    }
}

} // namespace examples
