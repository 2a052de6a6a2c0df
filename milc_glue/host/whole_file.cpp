#include "milc_glue/host/whole_file.h"
#include "gpu_kernels/backend/error.h"
#include "gpu_kernels/backend/open_file.h"
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sys/stat.h>

namespace milcgpu {
namespace {

bool is_stdout(const std::string &path) {
    struct stat own, its;
    const int mode = fcntl(STDOUT_FILENO, F_GETFL);
    return mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && fstat(STDOUT_FILENO, &own) == 0 &&
           stat(path.c_str(), &its) == 0 && own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

[[noreturn]] void refuse_to_write(const std::string &path, const std::string &why) {
    throw Error(Status::bad_argument, path + " cannot be written: " + why);
}

} // namespace

void WholeFile::open(const std::string &path, double bytes, bool must_be_plain) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string &why) { refuse_to_write(path, why); };
    path_ = target_ = path;
    if (path.empty())
        refuse("it has no name");
    std::error_code none;
    const fs::file_status there = fs::status(path, none);
    if (fs::is_directory(there))
        refuse("it is a folder");
    const bool shares_stdout = is_stdout(path),
               plain = !shares_stdout && (!fs::exists(there) || fs::is_regular_file(there));
    if (must_be_plain && !plain)
        refuse("it is no plain file");
    if (plain) {
        constexpr int most_links = 40; // as the kernel follows
        for (int k = 0; k < most_links && fs::is_symlink(fs::symlink_status(target_, none)); ++k)
            target_ = fs::path(target_).parent_path() / fs::read_symlink(target_, none);
        if (fs::exists(there) && access(path.c_str(), W_OK) != 0)
            refuse(std::strerror(errno));
        const fs::path folder = fs::path(target_).parent_path();
        const fs::space_info space = fs::space(folder.empty() ? "." : folder, none);
        if (!none && double(space.available) < bytes)
            refuse(format("it takes %.3g MB, and the disk has %.3g MB left", bytes * 1e-6,
                          double(space.available) * 1e-6));
        part_ = target_ + "." + std::to_string(getpid()) + ".part";
    }
    // A pipe that nobody reads is refused; without O_NONBLOCK it would wait.
    const int number = shares_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                     : open_file((part_.empty() ? path : part_).c_str(),
                                                 O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0666);
    if (number >= 0 && !part_.empty() && fs::exists(there)) // as the file has; not every file system can
        fchmod(number, static_cast<mode_t>(there.permissions()));
    if (number < 0 || (!shares_stdout && fcntl(number, F_SETFL, 0) != 0) || (file_ = fdopen(number, "w")) == nullptr) {
        const int why = errno;
        if (number >= 0)
            ::close(number);
        refuse(std::strerror(why));
    }
}

void WholeFile::write(const void *data, size_t bytes) {
    if (file_ == nullptr || failure_ != 0)
        return;
    std::fflush(stdout); // which may be the same file
    if (std::fwrite(data, 1, bytes, file_) != bytes || std::fflush(file_) != 0)
        failure_ = errno;
}

void WholeFile::extend(size_t bytes) {
    if (ftruncate(fileno(file_), static_cast<off_t>(bytes)) != 0)
        refuse_to_write(path_, std::strerror(errno));
}

void WholeFile::finish() {
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
    refuse_to_write(path_, std::string(std::strerror(failure_)) + "; check the disk");
}

std::string WholeFile::leave() {
    if (file_ != nullptr)
        std::fclose(file_);
    file_ = nullptr;
    return part_;
}

WholeFile::~WholeFile() {
    if (file_ != nullptr && !leave().empty())
        std::remove(part_.c_str());
}

std::string time_stamp() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[64];
    std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y UTC", &utc);
    return text;
}

} // namespace milcgpu
