// Reads and writes gauge fields in files (milcgpu_file.h).
#include "milc_glue/api/arguments.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/whole_file.h"
#include <cstring>

using namespace milcgpu;

namespace {

void tell(const SiteFileHead &head, milcgpu_gauge_file *file) {
    if (file == nullptr)
        return;
    milcgpu_gauge_file filled{};
    filled.format = head.kind == FileKind::milc ? MILCGPU_FILE_MILC : MILCGPU_FILE_SCIDAC;
    std::copy(head.extents.begin(), head.extents.end(), filled.extent);
    filled.precision = head.real_bytes == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE;
    filled.has_checksums = head.has_sums;
    filled.checksums[0] = head.sums.first, filled.checksums[1] = head.sums.second;
    std::memcpy(filled.time, head.time, sizeof filled.time);
    copy_to_caller(filled, file);
}

// The caller's links, with the order of its sites. Checks all arguments of a call, on all ranks.
class Links {
  public:
    Links(milcgpu_context &context, const char *function, const char *path, const milcgpu_field *links,
          milcgpu_gauge_file *file) {
        if (context.map.data() != nullptr)
            map_ = context.map.to_host();
        same_on_all_ranks(context, function, [&](CallArguments &call) {
            call.given("path", path);
            of_ = host_field(links, reals_of_links, "links");
            require_sizes(file, 1);
        });
    }
    SiteField field() const {
        return {of_.data, of_.real == Precision::double_, of_.pitch_bytes, map_.empty() ? nullptr : map_.data()};
    }

  private:
    std::vector<int> map_;
    HostField of_{};
};

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_file_look(const char *path, milcgpu_gauge_file *file) {
    constexpr const char *function = "milcgpu_gauge_file_look";
    return guarded(nullptr, function, [&] {
        require(path, function, "path");
        require(file, function, "file");
        require_sizes(file, 1);
        tell(head_of(path), file);
        return Status::ok;
    });
}

milcgpu_status milcgpu_gauge_file_read(milcgpu_context *context, const char *path, const milcgpu_field *given,
                                       milcgpu_gauge_file *file) {
    constexpr const char *function = "milcgpu_gauge_file_read";
    return guarded(context, function, [&] {
        require(context, function, "context");
        const Links links(*context, function, path, given, file);
        const FilePatience patience(*context->ranks);
        const SiteFileHead head = common_head(*context->ranks, path, context->box.whole, reals_of_links);
        require_sums(path, head, read_sites(*context->ranks, context->box, path, head, links.field()));
        tell(head, file);
        return Status::ok;
    });
}

milcgpu_status milcgpu_gauge_file_write(milcgpu_context *context, const char *path, const milcgpu_field *given,
                                        const char *time, milcgpu_gauge_file *file) {
    constexpr const char *function = "milcgpu_gauge_file_write";
    return guarded(context, function, [&] {
        require(context, function, "context");
        context->device->collective(function, [&] { require_time(time); });
        const Links links(*context, function, path, given, file);
        const FilePatience patience(*context->ranks);
        const SiteFileHead head = write_gauge(*context->ranks, context->box, path, links.field(),
                                              {FileKind::milc, time != nullptr ? time : time_stamp()});
        tell(head, file);
        return Status::ok;
    });
}

} // extern "C"
