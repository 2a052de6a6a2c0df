#include "milc_glue/host/lime.h"
#include <cstring>

namespace milcgpu {

namespace {

constexpr size_t header_bytes = 144, type_at = 16, type_bytes = 128;

std::string big_endian(uint64_t value, int size) {
    std::string bytes;
    for (int i = size - 1; i >= 0; --i)
        bytes += char(value >> 8 * i);
    return bytes;
}

} // namespace

void refuse_file(const std::string &path, size_t byte, const std::string &what, const std::string &remedy) {
    throw Error(Status::bad_argument, format("%s, byte %zu: %s; %s", path.c_str(), byte, what.c_str(), remedy.c_str()));
}

FileBytes::FileBytes(const std::string &path) : path_(path) {
    const int code = file_.open(path, false);
    if (code != 0 || !file_.is_plain())
        throw Error(Status::bad_argument,
                    format("%s cannot be opened%s; check that it is a file, its name and its permissions", path.c_str(),
                           code != 0 ? format(" (%s)", std::strerror(code)).c_str() : ""));
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

std::optional<LimeRecord> find_record(const FileBytes &file, const std::string &type, const std::string &other) {
    for (size_t at = 0; at < file.size();) {
        if (file.size() - at < header_bytes)
            refuse_file(file.path(), at, "the file ends inside a record header", file_is_truncated);
        if (file.big_endian(at, 4) != lime_magic)
            refuse_file(file.path(), at, "no LIME record starts here", file_is_damaged);
        const uint64_t bytes = file.big_endian(at + 8, 8);
        char text[type_bytes + 1] = "";
        file.read(at + type_at, text, type_bytes);
        at += header_bytes;
        if (bytes > file.size() - at)
            refuse_file(file.path(), at,
                        format("record '%s' of %llu bytes runs past the end", text, (unsigned long long)bytes),
                        file_is_truncated);
        if (type == text || other == text)
            return LimeRecord{at, size_t(bytes)};
        at += (size_t(bytes) + 7) / 8 * 8;
    }
    return {};
}

LimeRecord require_record(const FileBytes &file, const std::string &type, const std::string &other) {
    const std::optional<LimeRecord> record = find_record(file, type, other);
    if (!record)
        refuse_file(file.path(), file.size(), format("no record '%s'", type.c_str()),
                    "only single files of SciDAC and ILDG are read");
    return *record;
}

Xml::Xml(const FileBytes &file, const LimeRecord &record) : path(file.path()), at(record.at) {
    if (record.bytes > size_t{1} << 20)
        refuse_file(path, at, format("a description of %zu bytes", record.bytes), file_is_damaged);
    text.resize(record.bytes);
    file.read(at, &text[0], record.bytes);
}

std::string Xml::optional(const std::string &tag) const {
    const size_t open = text.find("<" + tag + ">"), close = text.find("</" + tag + ">");
    const size_t begin = open + tag.size() + 2;
    return open == std::string::npos || close == std::string::npos || close < begin ? ""
                                                                                    : text.substr(begin, close - begin);
}

std::string Xml::operator()(const std::string &tag) const {
    const std::string value = optional(tag);
    if (value.empty())
        refuse_file(path, at, format("no <%s> in the record's text", tag.c_str()),
                    "the file is not SciDAC, or it is damaged");
    return value;
}

std::string lime_header(const std::string &type, size_t bytes, LimePlace place) {
    const unsigned flags = (place.first ? 0x8000u : 0) | (place.last ? 0x4000u : 0);
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
