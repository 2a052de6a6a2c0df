// Command lines by CLI11 (https://github.com/CLIUtils/CLI11; Debian's libcli11-dev), which no other file includes.
#include "examples/arguments.h"
#include "milc_glue/milcgpu.h"
#if !__has_include(<CLI/CLI.hpp>)
#error "CLI11 is missing. On Debian and Ubuntu: apt-get install libcli11-dev. Without the programs: make lib"
#endif
#include <CLI/CLI.hpp>

namespace examples {

Arguments::Arguments(const std::string &program, const std::string &purpose)
    : app_(std::make_unique<CLI::App>(purpose, program)) {
    app_->get_formatter()->column_width(28);
    app_->get_formatter()->label("OPTIONS", "--option value ...");
    app_->set_help_flag("-h,--help", "this text");
    app_->set_version_flag("--version", MILCGPU_VERSION, "milcgpu's version");
}
Arguments::~Arguments() = default;

void Arguments::add_flag(const std::string &flag, bool &value, const std::string &help) {
    app_->add_flag(flag, value, help);
}

void Arguments::add_words(const std::string &flag, const std::string &placeholder, const std::string &help,
                          const std::string &shown_default, int words, std::function<void(const Words &)> take) {
    const auto taken = [take = std::move(take)](const Words &given) {
        take(given);
        return true;
    };
    const std::string text = shown_default.empty() ? help : help + " (default " + shown_default + ")";
    app_->add_option(flag, taken, text)
        ->type_name(placeholder)
        ->option_text(placeholder)
        ->type_size(words)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
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
    return true;
}

std::string Arguments::help() const { return app_->help(); }
std::string Arguments::hint() const { return " (see " + app_->get_name() + " --help)"; }

} // namespace examples
