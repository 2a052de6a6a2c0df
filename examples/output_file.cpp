#include "examples/output_file.h"
#include "examples/arguments.h"
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace examples {
namespace {

bool is_stdout(const std::string &path) {
    struct stat own, its;
    return fstat(STDOUT_FILENO, &own) == 0 && stat(path.c_str(), &its) == 0 && own.st_dev == its.st_dev &&
           own.st_ino == its.st_ino;
}

} // namespace

void OutputFile::open(const std::string &what, const std::string &path, double bytes) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string &why) {
        throw ArgumentError(what + ": " + path + " cannot be written: " + why);
    };
    what_ = what, path_ = target_ = path;
    std::error_code none;
    const fs::file_status there = fs::status(path, none);
    if (fs::is_directory(there))
        refuse("it is a folder");
    const bool shares_stdout = is_stdout(path);
    if (!shares_stdout && (!fs::exists(there) || fs::is_regular_file(there))) {
        if (fs::is_symlink(fs::symlink_status(path, none)))
            target_ = fs::weakly_canonical(path, none);
        if (fs::exists(there) && access(path.c_str(), W_OK) != 0)
            refuse(std::strerror(errno));
        const fs::path folder = fs::path(target_).parent_path();
        const fs::space_info space = fs::space(folder.empty() ? "." : folder, none);
        if (!none && double(space.available) < bytes) {
            char text[100];
            std::snprintf(text, sizeof text, "it takes %.3g MB, and the disk has %.3g MB left", bytes * 1e-6,
                          double(space.available) * 1e-6);
            refuse(text);
        }
        part_ = target_ + "." + std::to_string(getpid()) + ".part";
    }
    file_ = shares_stdout ? fdopen(dup(STDOUT_FILENO), "w") : std::fopen((part_.empty() ? path : part_).c_str(), "w");
    if (file_ == nullptr)
        refuse(std::strerror(errno));
}

void OutputFile::write(const void *data, std::size_t bytes) {
    if (file_ == nullptr || failure_ != 0)
        return;
    std::fflush(stdout); // which may be the same file
    if (std::fwrite(data, 1, bytes, file_) != bytes || std::fflush(file_) != 0)
        failure_ = errno;
}

void OutputFile::finish() {
    if (file_ == nullptr)
        return;
    if (std::fclose(file_) != 0 && failure_ == 0)
        failure_ = errno;
    file_ = nullptr;
    if (failure_ == 0 && !part_.empty() && std::rename(part_.c_str(), target_.c_str()) != 0)
        failure_ = errno;
    if (failure_ == 0)
        return;
    if (!part_.empty())
        std::remove(part_.c_str());
    throw std::runtime_error(what_ + ": " + path_ + " cannot be written: " + std::strerror(failure_) +
                             "; check the disk");
}

OutputFile::~OutputFile() {
    if (file_ == nullptr)
        return;
    std::fclose(file_);
    if (part_.empty())
        return;
    if (keep_ && failure_ == 0)
        std::fprintf(stderr, "%s: the rows so far are in %s\n", program_name(), part_.c_str());
    else
        std::remove(part_.c_str());
}

} // namespace examples
