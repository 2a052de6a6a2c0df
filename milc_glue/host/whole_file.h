// Files that are written. A file has its name only when it is whole and on the disk: until then it is beside it, as
// NAME.<process>.part, or NAME.<process>.<n>.part if that exists: no file that exists is opened for it. What is no
// plain file, as a pipe or /dev/stdout, is written at once.
#pragma once
#include <cstddef>
#include <cstdio>
#include <string>

namespace milcgpu {

class WholeFile {
  public:
    WholeFile() = default;
    WholeFile(const WholeFile &) = delete;
    ~WholeFile(); // one that is not finished is removed

    // Throws Error(bad_argument) if the file cannot be made, or the disk says that it has less than `bytes` left; with
    // must_be_plain also if it is no plain file, without waiting for who reads a pipe.
    void open(const std::string &path, double bytes = 0, bool must_be_plain = false);
    bool is_open() const { return file_ != nullptr; }
    // Does not throw, so that callbacks may write. What fails is kept for finish().
    void write(const void *data, size_t bytes);
    int failure() const { return failure_; } // errno of the first write that failed; 0: none
    // For those who write other places of the file meanwhile: its name until it is whole, and so many bytes, of which
    // those that nobody writes are 0. Of a plain file only. extend throws as open does.
    const std::string &part() const { return part_; }
    void extend(size_t bytes);
    // Brings the file to the disk. Throws Error(bad_argument) if it is not whole; it is removed then. Does nothing if
    // none is open.
    void complete();
    // Completes the file and gives it its name. Throws likewise. If the name cannot be given (a mount point, a sticky
    // folder), the whole file stays as part(), and the message names it.
    void finish();
    // Closes what is there so far, which keeps the name that is returned; empty: it has its own.
    std::string leave();

  private:
    std::string path_, target_, part_; // target_: path_ without links; part_: empty where it is written at once
    std::FILE *file_ = nullptr;
    int failure_ = 0;
    bool is_whole_ = false; // without its name
};

// Names of what is left of runs that were killed while they wrote this file: parts of processes that this host has no
// more. Empty: none. For a message; a part may also belong to a run on another host, so nothing is removed.
std::string parts_left_of(const std::string &path);

// The time, as files have it that say when they were written.
std::string time_stamp();

} // namespace milcgpu
