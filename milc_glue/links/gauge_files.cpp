// Reads and writes gauge fields in files (milcgpu_file.h).
#include "milc_glue/api/members.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/lime.h"
#include "milc_glue/host/whole_file.h"
#include "milc_glue/links/gauge.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

using namespace milcgpu;

namespace {

void tell(const SiteFileHead &head, milcgpu_gauge_file *file) {
    if (file == nullptr)
        return;
    milcgpu_gauge_file filled{};
    filled.format = head.kind == FileKind::milc     ? MILCGPU_FILE_MILC
                    : head.kind == FileKind::scidac ? MILCGPU_FILE_SCIDAC
                                                    : MILCGPU_FILE_NERSC;
    std::copy(head.extents.begin(), head.extents.end(), filled.extent);
    filled.precision = head.real_bytes == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE;
    filled.has_checksums = head.has_sums;
    filled.checksums[0] = head.sums.first, filled.checksums[1] = head.sums.second;
    std::memcpy(filled.time, head.time, sizeof filled.time);
    filled.plaquette = head.plaquette;
    copy_to_caller(filled, file);
}

// The caller's links, with the order of its sites. Checks all arguments of a call, on all ranks.
class Links {
  public:
    template <class More>
    Links(milcgpu_context &context, const char *function, const char *path, const milcgpu_field *links,
          milcgpu_gauge_file *file, const More &more) {
        if (context.map.data() != nullptr)
            map_ = context.map.to_host();
        same_on_all_ranks(context, function, [&](CallArguments &call) {
            more(call);
            call.given("path", path);
            of_ = host_field(links, reals_of_links, "links");
            require_sizes(file, 1);
        });
    }
    Links(milcgpu_context &context, const char *function, const char *path, const milcgpu_field *links,
          milcgpu_gauge_file *file)
        : Links(context, function, path, links, file, [](CallArguments &) {}) {}
    SiteField field() const {
        return {of_.data, of_.real == Precision::double_, of_.pitch_bytes, map_.empty() ? nullptr : map_.data()};
    }

  private:
    std::vector<int> map_;
    HostField of_{};
};

// The mean of Re tr / 3 of all plaquettes, on the device.
double plaquette_of(milcgpu_context &context, const char *function, const milcgpu_field &links) {
    std::unique_ptr<milcgpu_gauge> gauge;
    Precision real = Precision::double_;
    same_on_all_ranks(context, function, [&](CallArguments &call) {
        real = double_or_single(call("links.precision", links.precision), "links.precision", "");
    });
    context.device->collective("memory for a gauge field",
                               [&] { gauge = std::make_unique<milcgpu_gauge>(&context, real); });
    load_links(*gauge, function, &links, -1); // whatever their unitarity
    const PlaquetteMeans means = checked_plaquettes(*gauge);
    return (means.space + means.time) / 6;
}
void require_plaquette(milcgpu_context &context, const char *function, const char *path, const milcgpu_field &links,
                       double said) {
    constexpr double rounding = 1e-5; // of means in single precision
    double found = NAN;
    try {
        found = plaquette_of(context, function, links);
    } catch (const Error &error) {
        if (error.status() != Status::nan_or_inf)
            throw;
    }
    if (!(std::fabs(found - said) <= rounding))
        refuse_file(path, 0, format("the plaquette of the links is %.9f, but the head says %.9f", found, said),
                    "the links differ from those that were written, or have phases: ask for the file again");
}

// How far the third row is from the one that the others have in SU(3).
double third_row_error(const std::complex<double> (&u)[3][3]) {
    double most = 0;
    for (int j = 0; j < 3; ++j) {
        const int k = (j + 1) % 3, l = (j + 2) % 3;
        most = std::max(most, std::abs(u[2][j] - std::conj(u[0][k] * u[1][l] - u[0][l] * u[1][k])));
    }
    return most;
}

// The mean of Re tr / 3 of all links. Sums are integers, so they do not depend on threads and ranks. With two rows in
// the file links must be in SU(3).
double link_trace(Ranks &ranks, const Box &box, const SiteField &links, int rows) {
    constexpr double unit = 1 << 30, rounding = 1e-4;
    struct Seen {
        long long sum;
        double error;
    };
    long long sum = 0;
    double error = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) reduction(max : error)
    for (long long k = 0; k < static_cast<long long>(box.sites()); ++k)
        for (size_t mu = 0; mu < 4; ++mu) {
            const void *const site = static_cast<const char *>(links.data) + size_t(k) * links.pitch;
            std::complex<double> u[3][3];
            for (size_t e = 0; e < 9; ++e)
                u[e / 3][e % 3] = links.in_double ? static_cast<const std::complex<double> *>(site)[9 * mu + e]
                                                  : static_cast<const std::complex<float> *>(site)[9 * mu + e];
            for (int i = 0; i < 3; ++i)
                sum += std::llround(unit * u[i][i].real());
            error = std::max(error, rows == 2 ? third_row_error(u) : 0);
        }
    Seen all{};
    for (const Seen &there : ranks.gathered("a trace of links", Seen{sum, error}))
        all = {all.sum + there.sum, std::max(all.error, there.error)};
    if (all.error > rounding)
        refuse(format("spec.rows is 2, but third rows of links differ from those in SU(3) by up to %.2g: write 3 rows",
                      all.error));
    return double(all.sum) / unit / (12 * box.whole_sites());
}

constexpr size_t longest_text = 100;
std::string line_of(const char *name, const char *text) {
    const std::string line = text != nullptr ? text : "";
    if (line.size() > longest_text ||
        !std::all_of(line.begin(), line.end(), [](unsigned char c) { return c >= ' ' && c < 127; }))
        refuse(format("%s: must be at most %zu printable characters", name, longest_text));
    return line;
}

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
        SiteFileHead head{};
        {
            const FilePatience patience(*context->ranks);
            head = common_head(*context->ranks, path, context->box.whole, reals_of_links);
            require_sums(path, head, read_sites(*context->ranks, context->box, path, head, links.field()));
        }
        if (!std::isnan(head.plaquette))
            require_plaquette(*context, function, path, *given, head.plaquette);
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

milcgpu_status milcgpu_gauge_file_write_nersc(milcgpu_context *context, const char *path, const milcgpu_field *given,
                                              const milcgpu_nersc_spec *spec, milcgpu_gauge_file *file) {
    constexpr const char *function = "milcgpu_gauge_file_write_nersc";
    return guarded(context, function, [&] {
        require(context, function, "context");
        GaugeForm form;
        form.kind = FileKind::nersc;
        const Links links(*context, function, path, given, file, [&](CallArguments &call) {
            const milcgpu_nersc_spec s = call.copy_of("spec", spec);
            form.real_bytes = s.precision == MILCGPU_DOUBLE ? 8 : 4;
            form.rows = s.rows == 0 ? 3 : s.rows, form.sequence_number = s.sequence_number;
            form.ensemble_id = line_of("spec.ensemble_id", s.ensemble_id);
            form.ensemble_label = line_of("spec.ensemble_label", s.ensemble_label);
        });
        form.plaquette = plaquette_of(*context, function, *given);
        const FilePatience patience(*context->ranks);
        form.link_trace = link_trace(*context->ranks, context->box, links.field(), form.rows);
        form.time = time_stamp();
        tell(write_gauge(*context->ranks, context->box, path, links.field(), form), file);
        return Status::ok;
    });
}

} // extern "C"
