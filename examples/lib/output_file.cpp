#include "examples/lib/output_file.h"
#include "examples/lib/arguments.h"
#include <set>

namespace examples {

void OutputFile::open(const std::string &what, const std::string &path, double bytes, bool must_be_plain) {
    what_ = what;
    static std::set<std::string> said;
    const std::string left = milcgpu::parts_left_of(path);
    if (!left.empty() && said.insert(left).second)
        say_error(left + ": left by runs that were killed, or still written by another host");
    try {
        file_.open(path, bytes, must_be_plain);
    } catch (const std::runtime_error &error) {
        throw ArgumentError(what + ": " + error.what());
    }
}

void OutputFile::finish() {
    try {
        file_.finish();
    } catch (const std::runtime_error &error) {
        throw std::runtime_error(what_ + ": " + error.what());
    }
}

OutputFile::~OutputFile() {
    if (!file_.is_open() || !keep_ || failure() != 0)
        return;
    const std::string part = file_.leave();
    if (!part.empty())
        say_error("the rows so far are in " + milcgpu::quoted_name(part));
}

} // namespace examples
