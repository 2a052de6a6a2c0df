// Files of records, LIME, as SciDAC and ILDG have them: headers of 144 bytes and data padded to 8 bytes, big endian.
#pragma once
#include "milc_glue/host/site_records.h"
#include <map>
#include <optional>
#include <string>

namespace milcgpu {

constexpr uint32_t lime_magic = 0x456789ab;

// Throws Error(bad_argument): file, byte, what it is and what to do.
[[noreturn]] void refuse_file(const std::string &path, size_t byte, const std::string &what, const std::string &remedy);
constexpr const char *file_is_truncated = "the file is truncated: copy it again",
                     *file_is_damaged = "it is damaged: copy it again";

// The bytes of a file, in any order. Throws where there are none.
class FileBytes {
  public:
    explicit FileBytes(const std::string &path);
    size_t size() const { return size_; }
    const std::string &path() const { return path_; }
    void read(size_t at, void *to, size_t bytes) const;
    uint64_t big_endian(size_t at, int size) const;

  private:
    std::string path_;
    OpenFile file_;
    size_t size_ = 0;
};

struct LimeRecord {
    size_t at, bytes; // of the data
};

// The records of a file's first field, as QIO and other programs write them: descriptions, data, checksum. Each
// description is the last of its type in front of the data. The checksum is the one that follows the data before any
// other field, in the same message or in one of its own. Nothing behind that is read. Other data, or a description in
// the same message, must not come between the two.
class LimeField {
  public:
    // Throws if the file is no chain of records until there.
    explicit LimeField(const FileBytes &file);
    std::optional<LimeRecord> find(const std::string &type) const;
    LimeRecord require(const std::string &type) const; // throws if there is none
    LimeRecord data() const;                           // likewise

  private:
    const FileBytes &file_;
    std::map<std::string, LimeRecord> records_;
};

// The text of a record, and what is between <tag> and </tag>, without blanks around it. The tag may have attributes and
// a prefix (<p:tag a="b">); comments are skipped.
struct Xml {
    Xml(const FileBytes &file, const LimeRecord &record);
    std::string optional(const std::string &tag) const;   // empty: there is no such tag
    std::string operator()(const std::string &tag) const; // throws if there is none
    std::string path, text;
    size_t at;
};

// What is written. A record is the first, the last, or both, of its message.
struct LimePlace {
    bool first, last;
};
std::string lime_header(const std::string &type, size_t bytes, LimePlace place);
std::string lime_record(const std::string &type, const std::string &text, LimePlace place);

} // namespace milcgpu
