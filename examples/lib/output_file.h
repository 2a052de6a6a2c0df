// Files that the programs write, whole or not at all (milc_glue/host/whole_file.h).
#pragma once
#include "milc_glue/host/whole_file.h"

namespace examples {

class OutputFile {
  public:
    OutputFile() = default;
    OutputFile(const OutputFile &) = delete;
    // An unfinished file is removed, or, if it is worth keeping, stays as NAME.<process>.part, and stderr says so.
    ~OutputFile();

    // what: the word for messages, as "--csv". Throws ArgumentError if WholeFile::open throws.
    void open(const std::string &what, const std::string &path, double bytes = 0, bool must_be_plain = false);
    bool is_open() const { return file_.is_open(); }
    void write(const std::string &text) { write(text.data(), text.size()); }
    void write(const void *data, std::size_t bytes) { file_.write(data, bytes); }
    int failure() const { return file_.failure(); }
    void worth_keeping() { keep_ = true; }
    // Throws std::runtime_error if the file is not whole.
    void finish();

  private:
    std::string what_;
    milcgpu::WholeFile file_;
    bool keep_ = false;
};

// For a file that the library writes at the end of a long computation. Throws as open() does, also if the path is not a
// plain file. An empty path is ignored.
inline void check_writable(const std::string &what, const std::string &path, double bytes = 0) {
    OutputFile file;
    if (!path.empty())
        file.open(what, path, bytes, true);
}

} // namespace examples
