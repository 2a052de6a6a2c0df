#include "gpu_kernels/machine/backend/host_segment.h"
#include "gpu_kernels/machine/backend/open_file.h"
#include "gpu_kernels/machine/error.h"
#include <cerrno>
#include <cstring>
#include <random>
#include <sys/mman.h>

namespace milcgpu {

namespace {

[[noreturn]] void refuse(const char *what, const std::string &name, size_t bytes, int error) {
    throw Error(Status::no_memory,
                format("cannot %s %s of %.1f MiB: %s", what, name.c_str(), bytes / 1048576.0, std::strerror(error)));
}

} // namespace

HostSegment::HostSegment(size_t bytes) : bytes_(bytes) {
    std::random_device random;
    name_ = format("/dev/shm/milcgpu-%d-%08x%08x", static_cast<int>(getpid()), random(), random());
    const int file = open_file(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0)
        refuse("make", name_, bytes, errno);
    named_ = true;
    // Allocates the file's memory now. Otherwise a write into it would end the program if memory is short.
    const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
    if (error != 0) {
        ::close(file);
        remove_name();
        refuse("make", name_, bytes, error);
    }
    map(file);
}

HostSegment::HostSegment(const std::string &name, size_t bytes) : name_(name), bytes_(bytes) {
    const int file = open_file(name.c_str(), O_RDWR);
    if (file < 0)
        refuse("open", name_, bytes, errno);
    map(file);
}

void HostSegment::map(int file) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int error = errno;
    ::close(file);
    if (data_ != MAP_FAILED)
        return;
    remove_name();
    refuse("map", name_, bytes_, error);
}

HostSegment::~HostSegment() {
    remove_name();
    ::munmap(data_, bytes_);
}

void HostSegment::remove_name() noexcept {
    if (named_)
        ::unlink(name_.c_str());
    named_ = false;
}

} // namespace milcgpu
