// Files that the programs write. A file has its name only when it is whole: until then it is beside it, as
// NAME.<process>.part. What is no plain file, as a pipe or /dev/stdout, is written at once.
#pragma once
#include <cstdio>
#include <string>

namespace examples {

class OutputFile {
  public:
    OutputFile() = default;
    OutputFile(const OutputFile &) = delete;
    // A file that is not finished is removed, or, if it is worth keeping, stays as NAME.<process>.part, and stderr says
    // so.
    ~OutputFile();

    // what: for messages, as "--csv". Throws ArgumentError where the file cannot be made, or the disk has less than
    // `bytes` left.
    void open(const std::string &what, const std::string &path, double bytes = 0);
    bool is_open() const { return file_ != nullptr; }
    // Does not throw, so that callbacks of the library may write. What fails is kept for finish().
    void write(const std::string &text) { write(text.data(), text.size()); }
    void write(const void *data, std::size_t bytes);
    int failure() const { return failure_; } // errno of the first write that failed; 0: none
    void worth_keeping() { keep_ = true; }
    // Gives the file its name. Throws std::runtime_error where it is not whole. Does nothing where none is open.
    void finish();

  private:
    std::string what_, path_, target_, part_; // target_: path_ without links; part_: empty where it is written at once
    std::FILE *file_ = nullptr;
    int failure_ = 0;
    bool keep_ = false;
};

// Throws as open() does. For a file that is written at the end of a long computation. An empty path is no file.
inline void check_writable(const std::string &what, const std::string &path, double bytes = 0) {
    OutputFile file;
    if (!path.empty())
        file.open(what, path, bytes);
}

} // namespace examples
