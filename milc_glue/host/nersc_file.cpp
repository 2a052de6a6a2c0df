#include "milc_glue/host/nersc_file.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace milcgpu {

namespace {

constexpr size_t longest_head = 1 << 16;
constexpr char nersc_end[] = "END_HEADER\n";

std::string trimmed(const std::string &text) {
    const size_t first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

// The lines of the head.
class Head {
  public:
    explicit Head(const FileBytes &file) : path_(file.path()) {
        text_.resize(std::min(file.size(), longest_head));
        file.read(0, text_.data(), text_.size());
        const size_t end = text_.find(std::string("\n") + nersc_end);
        if (end == std::string::npos && text_.find("END_HEADER\r") != std::string::npos)
            refuse_file(path_, 0, "the lines of the head end with carriage returns",
                        "a transfer as text has changed the file: copy it again as binary");
        if (end == std::string::npos)
            refuse_file(path_, text_.size(), "no line END_HEADER",
                        text_.size() < longest_head ? file_is_truncated : file_is_damaged);
        text_.resize(end + 1);
    }
    size_t data() const { return text_.size() + std::strlen(nersc_end); }
    // The value of a line KEY = VALUE, and its byte; empty if there is no such line. Two values are refused.
    std::pair<std::string, size_t> optional(const std::string &key) const {
        std::pair<std::string, size_t> found;
        for (size_t at = 0; at < text_.size();) {
            const size_t end = text_.find('\n', at), equals = text_.find('=', at);
            if (equals < end && trimmed(text_.substr(at, equals - at)) == key) {
                const std::string value = trimmed(text_.substr(equals + 1, end - equals - 1));
                if (!found.first.empty() && value != found.first)
                    refuse_file(path_, at,
                                format("%s is '%s' here, but '%s' before", key.c_str(), quoted(value).c_str(),
                                       quoted(found.first).c_str()),
                                "the file contradicts itself: write it again");
                found = {value, at};
            }
            at = end + 1;
        }
        return found;
    }
    std::pair<std::string, size_t> operator()(const std::string &key) const {
        const auto found = optional(key);
        if (found.first.empty())
            refuse_file(path_, 0, format("the head has no line '%s = ...'", key.c_str()), file_is_damaged);
        return found;
    }
    template <class Number, class... Base> Number number(const std::string &key, Base... base) const {
        const auto [text, at] = (*this)(key);
        Number value{};
        const char *const last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, value, base...);
        if (error != std::errc() || end != last || !std::isfinite(double(value)))
            refuse_file(path_, at, format("%s is '%s', which is not a number", key.c_str(), quoted(text).c_str()),
                        file_is_damaged);
        return value;
    }

  private:
    std::string path_, text_;
};

// Old files say IEEE32 in either byte order. Numbers of unitary links in the wrong order are huge or tiny.
bool looks_big_endian(const FileBytes &file, const SiteFileHead &head) {
    int plausible = 0;
    for (size_t at = head.data; at + 4 <= std::min(file.size(), head.data + 4096); at += 4) {
        const uint32_t word = uint32_t(file.big_endian(at, 4)), turned = __builtin_bswap32(word);
        float numbers[2];
        std::memcpy(&numbers[0], &word, 4), std::memcpy(&numbers[1], &turned, 4);
        const auto is_element = [](float x) { return x == 0 || (std::fabs(x) < 1.01f && std::fabs(x) > 1e-12f); };
        plausible += is_element(numbers[0]) - is_element(numbers[1]);
    }
    return plausible >= 0;
}

} // namespace

SiteFileHead nersc_head(const FileBytes &file) {
    const std::string &path = file.path();
    const Head said(file);
    SiteFileHead head{};
    head.kind = FileKind::nersc;
    head.reals = reals_of_links;
    head.data = said.data();
    long long extents[4];
    for (int mu = 0; mu < 4; ++mu)
        extents[mu] = said.number<long long>(format("DIMENSION_%d", mu + 1));
    check_extents(path, said("DIMENSION_1").second, extents, head);
    const auto [type, type_at] = said("DATATYPE");
    if (type != "4D_SU3_GAUGE" && type != "4D_SU3_GAUGE_3x3" && type != "4D_SU3_GAUGE_3X3")
        refuse_file(path, type_at, format("DATATYPE is '%s'", quoted(type).c_str()),
                    "gauge fields of SU(3) are read: 4D_SU3_GAUGE and 4D_SU3_GAUGE_3x3");
    head.rows = type == "4D_SU3_GAUGE" ? 2 : 3;
    const auto [floats, floats_at] = said("FLOATING_POINT");
    const bool is_double = floats.rfind("IEEE64", 0) == 0;
    const std::string order = floats.size() >= 6 ? floats.substr(6) : "";
    if ((!is_double && floats.rfind("IEEE32", 0) != 0) || (order != "" && order != "BIG" && order != "LITTLE"))
        refuse_file(path, floats_at, format("FLOATING_POINT is '%s'", quoted(floats).c_str()),
                    "IEEE32 and IEEE64 are read, with BIG or LITTLE behind it");
    head.real_bytes = is_double ? 8 : 4;
    const double bytes = double(head.data) + head.sites() * double(head.site_bytes());
    if (double(file.size()) < bytes)
        refuse_file(path, file.size(), format("the file should have %.0f bytes", bytes), file_is_truncated);
    head.turned = order == "" && !is_double ? looks_big_endian(file, head) : order != "LITTLE";
    head.sums.first = said.number<uint32_t>("CHECKSUM", 16);
    head.has_sums = 1;
    head.plaquette = said.optional("PLAQUETTE").first.empty() ? NAN : said.number<double>("PLAQUETTE");
    const std::string time = said.optional("CREATION_DATE").first;
    time.copy(head.time, sizeof head.time - 1);
    return head;
}

std::string nersc_front(const std::array<int, 4> &n, const GaugeForm &form, uint32_t checksum) {
    std::string front = nersc_start;
    const auto line = [&](const char *key, const std::string &value) {
        front += format("%s = %s\n", key, value.c_str());
    };
    line("HDR_VERSION", "1.0");
    line("DATATYPE", form.rows == 2 ? "4D_SU3_GAUGE" : "4D_SU3_GAUGE_3x3");
    line("STORAGE_FORMAT", "1.0");
    for (int mu = 0; mu < 4; ++mu)
        line(format("DIMENSION_%d", mu + 1).c_str(), std::to_string(n[mu]));
    line("LINK_TRACE", format("% .12e", form.link_trace));
    line("PLAQUETTE", format("% .12e", form.plaquette));
    for (int mu = 0; mu < 4; ++mu)
        line(format("BOUNDARY_%d", mu + 1).c_str(), "PERIODIC");
    line("CHECKSUM", format("%08x", checksum));
    line("ENSEMBLE_ID", form.ensemble_id);
    line("ENSEMBLE_LABEL", form.ensemble_label);
    line("SEQUENCE_NUMBER", std::to_string(form.sequence_number));
    line("CREATOR", "milcgpu");
    line("CREATION_DATE", form.time);
    line("FLOATING_POINT", form.real_bytes == 8 ? "IEEE64BIG" : "IEEE32BIG");
    return front + nersc_end;
}

} // namespace milcgpu
