// Files that are written. A file gets its name only when it is whole and on the disk: until then it is beside that
// name, as NAME.<process>.part, or NAME.<process>.<n>.part if that exists: no existing file is opened for it. A target
// that is no plain file, such as a pipe or /dev/stdout, is written directly.
#pragma once
#include <cstddef>
#include <cstdio>
#include <string>

namespace milcgpu {

class WholeFile {
  public:
    WholeFile() = default;
    WholeFile(const WholeFile &) = delete;
    ~WholeFile(); // removes a file that was not finished

    // Throws Error(bad_argument) if the file cannot be created, or the disk has less than `bytes` left; with
    // must_be_plain also if it is no plain file, without waiting for the reader of a pipe.
    void open(const std::string &path, double bytes = 0, bool must_be_plain = false);
    bool is_open() const { return file_ != nullptr; }
    // Does not throw, so that callbacks may write. finish() reports the first failure.
    void write(const void *data, size_t bytes);
    int failure() const { return failure_; } // errno of the first write that failed; 0: none
    // For ranks that write other places of the file meanwhile: its name until it is whole; and extend, which sets its
    // size, with 0 wherever nothing is written. Only for a plain file. extend throws as open does.
    const std::string &part() const { return part_; }
    void extend(size_t bytes);
    // Writes the file to the disk. Throws Error(bad_argument) if it is not whole; it is removed then. Does nothing if
    // no file is open.
    void complete();
    // Completes the file and renames it. Throws as complete() does. If it cannot be renamed (a mount point, a sticky
    // folder), the whole file stays as part(), and the message names it.
    void finish();
    // Closes the file as it is. Returns the name that it keeps; empty: its own name.
    std::string leave();

  private:
    std::string path_, target_, part_; // target_: path_ without links; part_: empty if the target is written directly
    std::FILE *file_ = nullptr;
    int failure_ = 0;
    bool is_whole_ = false; // but does not have its name yet
};

// Names of parts that killed runs left while they wrote this file: parts whose processes do not exist on this host.
// Empty: none. For a message; a part may also belong to a run on another host, so nothing is removed.
std::string parts_left_of(const std::string &path);

// The present time, in the format of files that have a time of writing.
std::string time_stamp();

} // namespace milcgpu
