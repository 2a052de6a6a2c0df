// Files that the programs write: whole or not there (milc_glue/host/whole_file.h).
#pragma once
#include "milc_glue/host/whole_file.h"

namespace examples {

class OutputFile {
  public:
    OutputFile() = default;
    OutputFile(const OutputFile &) = delete;
    // A file that is not finished is removed, or, if it is worth keeping, stays as NAME.<process>.part, and stderr says
    // so.
    ~OutputFile();

    // what: for messages, as "--csv". Throws ArgumentError where WholeFile::open throws.
    void open(const std::string &what, const std::string &path, double bytes = 0, bool must_be_plain = false);
    bool is_open() const { return file_.is_open(); }
    void write(const std::string &text) { write(text.data(), text.size()); }
    void write(const void *data, std::size_t bytes) { file_.write(data, bytes); }
    int failure() const { return file_.failure(); }
    void worth_keeping() { keep_ = true; }
    // Throws std::runtime_error where the file is not whole.
    void finish();

  private:
    std::string what_;
    milcgpu::WholeFile file_;
    bool keep_ = false;
};

// Throws as open() does, also for what is no plain file. For a file that the library writes at the end of a long
// computation. An empty path is no file.
inline void check_writable(const std::string &what, const std::string &path, double bytes = 0) {
    OutputFile file;
    if (!path.empty())
        file.open(what, path, bytes, true);
}

} // namespace examples
