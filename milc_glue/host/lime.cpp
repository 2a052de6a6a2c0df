#include "milc_glue/host/lime.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include <cstring>
#include <set>

namespace milcgpu {

namespace {

constexpr size_t header_bytes = 144, type_at = 16, type_bytes = 128;
constexpr unsigned first_of_message = 0x8000, last_of_message = 0x4000;
constexpr const char *data_type = "scidac-binary-data", *checksum_type = "scidac-checksum"; // ILDG's data, too

std::string big_endian(uint64_t value, int size) {
    std::string bytes;
    for (int i = size - 1; i >= 0; --i)
        bytes += char(value >> 8 * i);
    return bytes;
}

} // namespace

void refuse_file(const std::string &path, size_t byte, const std::string &what, const std::string &remedy) {
    throw Error(Status::bad_argument,
                format("%s, byte %zu: %s; %s", quoted_name(path).c_str(), byte, what.c_str(), remedy.c_str()));
}

FileBytes::FileBytes(const std::string &path) : path_(path) {
    const int code = file_.open(path, false);
    if (code != 0 || !file_.is_plain())
        throw Error(Status::bad_argument,
                    format("%s cannot be opened (%s); check its name and its permissions", quoted_name(path).c_str(),
                           code != 0 ? std::strerror(code) : "it is not a plain file"));
    size_ = file_.bytes();
}

void FileBytes::read(size_t at, void *to, size_t bytes) const {
    const int code = file_.read(at, to, bytes);
    if (code != 0)
        refuse_file(path_, at, code < 0 ? "the file ends here" : std::strerror(code),
                    code < 0 ? file_is_truncated : "check the disk");
}

uint64_t FileBytes::big_endian(size_t at, int size) const {
    unsigned char bytes[8];
    read(at, bytes, size_t(size));
    uint64_t value = 0;
    for (int i = 0; i < size; ++i)
        value = value << 8 | bytes[i];
    return value;
}

LimeField::LimeField(const FileBytes &file) : file_(file) {
    static const std::set<std::string> descriptions = {"scidac-private-file-xml", "scidac-file-xml",
                                                       "scidac-private-record-xml", "scidac-record-xml", "ildg-format"},
                                       fields = {"scidac-binary-data", "ildg-binary-data"};
    bool has_data = false, message_ended = false; // message_ended: after the data
    for (size_t at = 0; at < file.size();) {
        const bool is_cut = file.size() - at < header_bytes,
                   is_record = !is_cut && file.big_endian(at, 4) == lime_magic;
        if (!is_record && message_ended)
            return;
        if (!is_record)
            refuse_file(file.path(), at, is_cut ? "the file ends inside a record header" : "no LIME record starts here",
                        is_cut ? file_is_truncated : file_is_damaged);
        const bool is_last = (file.big_endian(at + 6, 2) & last_of_message) != 0;
        const uint64_t bytes = file.big_endian(at + 8, 8);
        char text[type_bytes + 1] = "";
        file.read(at + type_at, text, type_bytes);
        const std::string type = text;
        if (has_data && (fields.count(type) > 0 || (descriptions.count(type) > 0 && !message_ended)))
            refuse_file(file.path(), at,
                        format("record '%s' follows the data before their checksum", quoted(type).c_str()),
                        "only files with one field a message are read");
        if (has_data && descriptions.count(type) > 0)
            return;
        const bool is_sum = has_data && type == checksum_type;
        if (bytes > file.size() - at - header_bytes) {
            if (message_ended && !is_sum)
                return;
            refuse_file(
                file.path(), at,
                format("record '%s' of %llu bytes runs past the end", quoted(type).c_str(), (unsigned long long)bytes),
                file_is_truncated);
        }
        at += header_bytes;
        if (is_sum || fields.count(type) > 0)
            records_[is_sum ? type : data_type] = {at, size_t(bytes)}, has_data = true;
        else if (descriptions.count(type) > 0)
            records_[type] = {at, size_t(bytes)};
        if (is_sum)
            return;
        message_ended = message_ended || (has_data && is_last);
        at += (size_t(bytes) + 7) / 8 * 8;
    }
}

std::optional<LimeRecord> LimeField::find(const std::string &type) const {
    const auto found = records_.find(type);
    return found == records_.end() ? std::nullopt : std::optional(found->second);
}

LimeRecord LimeField::require(const std::string &type) const {
    const std::optional<LimeRecord> record = find(type);
    if (!record)
        refuse_file(file_.path(), file_.size(), format("no record '%s'", type.c_str()),
                    "only single files of SciDAC and ILDG are read");
    return *record;
}

LimeRecord LimeField::data() const { return require(data_type); }

Xml::Xml(const FileBytes &file, const LimeRecord &record) : path(file.path()), at(record.at) {
    constexpr size_t most = size_t{1} << 26;
    if (record.bytes > most)
        refuse_file(path, at, format("a description of %zu bytes, at most %zu are read", record.bytes, most),
                    file_is_damaged);
    text.resize(record.bytes);
    file.read(at, &text[0], record.bytes);
}

std::string Xml::optional(const std::string &tag) const {
    constexpr const char *blanks = " \t\r\n";
    for (size_t open = 0; (open = text.find('<', open)) != text.npos;) {
        if (text.compare(open, 4, "<!--") == 0) {
            open = text.find("-->", open);
            continue;
        }
        const size_t end = text.find_first_of("<>/ \t\r\n", open + 1);
        const std::string name = text.substr(open + 1, end - open - 1), own = name.substr(name.find(':') + 1);
        open = end;
        if (own != tag)
            continue;
        const size_t close = text.find('>', end), next = text.find('<', close);
        if (next == text.npos || text[close - 1] == '/')
            return "";
        const size_t first = text.find_first_not_of(blanks, close + 1), last = text.find_last_not_of(blanks, next - 1);
        return first < next ? text.substr(first, last + 1 - first) : "";
    }
    return "";
}

std::string Xml::operator()(const std::string &tag) const {
    const std::string value = optional(tag);
    if (value.empty())
        refuse_file(path, at, format("no <%s> in the record's text", tag.c_str()),
                    "the file is not SciDAC, or it is damaged");
    return value;
}

std::string lime_header(const std::string &type, size_t bytes, LimePlace place) {
    const unsigned flags = (place.first ? first_of_message : 0) | (place.last ? last_of_message : 0);
    std::string header = big_endian(lime_magic, 4) + big_endian(1, 2) + big_endian(flags, 2) + big_endian(bytes, 8);
    header += type;
    header.resize(header_bytes);
    return header;
}

std::string lime_record(const std::string &type, const std::string &text, LimePlace place) {
    std::string record = lime_header(type, text.size() + 1, place) + text + '\0'; // QIO's texts end so
    record.resize((record.size() + 7) / 8 * 8);
    return record;
}

} // namespace milcgpu
