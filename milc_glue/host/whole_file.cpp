#include "milc_glue/host/whole_file.h"
#include "gpu_kernels/machine/backend/open_file.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "gpu_kernels/machine/error.h"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
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

std::filesystem::path folder_of(const std::string &path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    return folder.empty() ? "." : folder;
}

// Where a file is that a link names, even if it does not exist yet.
std::string without_links(std::string path) {
    namespace fs = std::filesystem;
    std::error_code none;
    constexpr int most_links = 40; // as the kernel follows
    for (int k = 0; k < most_links && fs::is_symlink(fs::symlink_status(path, none)); ++k)
        path = fs::path(path).parent_path() / fs::read_symlink(path, none);
    return path;
}

[[noreturn]] void refuse_to_write(const std::string &path, const std::string &why) {
    throw Error(Status::bad_argument, quoted_name(path) + " cannot be written: " + why);
}

} // namespace

void WholeFile::open(const std::string &path, double bytes, bool must_be_plain) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string &why) { refuse_to_write(path, why); };
    path_ = target_ = path;
    is_whole_ = false;
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
        target_ = without_links(path);
        const fs::path folder = folder_of(target_);
        if (fs::exists(there) && access(path.c_str(), W_OK) != 0)
            refuse(std::strerror(errno));
        const fs::space_info space = fs::space(folder, none);
        if (!none && space.capacity > 0 && double(space.available) < bytes) // some do not know their size
            refuse(format("it takes %.3g MB, and the disk has %.3g MB left", bytes * 1e-6,
                          double(space.available) * 1e-6));
    }
    int number = -1;
    if (shares_stdout)
        number = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    else if (!plain) // a pipe that nobody reads is refused; without O_NONBLOCK it would wait
        number = open_file(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0666);
    constexpr int most_parts = 1000;
    for (int k = 0; plain && number < 0 && k < most_parts && (k == 0 || errno == EEXIST); ++k) {
        part_ = target_ + "." + std::to_string(getpid()) + (k == 0 ? "" : "." + std::to_string(k)) + ".part";
        number = open_file(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK, 0666);
    }
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

void WholeFile::complete() {
    if (file_ == nullptr)
        return;
    if (failure_ == 0 && std::fflush(file_) != 0)
        failure_ = errno;
    if (failure_ == 0 && !part_.empty())
        failure_ = sync_file(fileno(file_));
    if (std::fclose(file_) != 0 && failure_ == 0)
        failure_ = errno;
    file_ = nullptr;
    is_whole_ = failure_ == 0;
    if (is_whole_)
        return;
    if (!part_.empty())
        std::remove(part_.c_str());
    refuse_to_write(path_, std::string(std::strerror(failure_)) + "; check the disk");
}

void WholeFile::finish() {
    complete();
    if (!is_whole_ || part_.empty())
        return;
    is_whole_ = false;
    if (std::rename(part_.c_str(), target_.c_str()) != 0)
        throw Error(Status::bad_argument, quoted_name(path_) + " cannot be replaced (" + std::strerror(errno) +
                                              "); the new file is whole and stays as " + quoted_name(part_) +
                                              ": move it");
    const int folder = open_file(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY); // which has the name
    if (folder < 0)
        return;
    sync_file(folder);
    ::close(folder);
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

std::string parts_left_of(const std::string &path) {
    namespace fs = std::filesystem;
    const fs::path target = without_links(path);
    const std::string name = target.filename().string() + ".", end = ".part";
    std::string left;
    std::error_code none;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder_of(target), none)) {
        const std::string file = entry.path().filename().string();
        if (file.size() <= name.size() + end.size() || file.compare(0, name.size(), name) != 0 ||
            file.compare(file.size() - end.size(), end.size(), end) != 0)
            continue;
        const long process = std::strtol(file.c_str() + name.size(), nullptr, 10);
        if (process > 0 && process <= INT_MAX && kill(pid_t(process), 0) != 0 && errno == ESRCH)
            left += (left.empty() ? "" : ", ") + quoted_name(entry.path().string());
    }
    return left;
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
