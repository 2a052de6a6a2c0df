// Files that the library opens.
#pragma once
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace milcgpu {

// open(2) with O_CLOEXEC, but never returns the descriptor of stdin, stdout or stderr. If a program runs with one of
// these closed, open(2) returns its number, and the program's output would be written into the file. -1: errno has the
// reason.
inline int open_file(const char *path, int flags, mode_t mode = 0) {
    const int number = ::open(path, flags | O_CLOEXEC, mode);
    if (number < 0 || number > STDERR_FILENO)
        return number;
    const int above = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), why = errno;
    ::close(number);
    errno = why;
    return above;
}

// fsync(2): returns 0 or errno. Some file systems do not support it.
inline int sync_file(int number) {
    const int why = ::fsync(number) == 0 ? 0 : errno;
    return why == EINVAL || why == ENOSYS || why == EOPNOTSUPP ? 0 : why;
}

} // namespace milcgpu
