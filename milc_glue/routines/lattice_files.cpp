// MILC's lattice files: all ranks read and write them, also before the plugin has started.
#include "milc_glue/api/settings.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/whole_file.h"
#include "milc_glue/routines/state.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

using namespace milcgpu;

namespace {

// The start logs a setting that is refused.
bool is_off() {
    try {
        setting("MILCGPU_TEST");
        return setting("MILCGPU_OFF") == "1";
    } catch (const Error &) {
        return true;
    }
}

bool is_plain_start(const milcgpu_milc &milc) {
    return milc.site_map != nullptr && (milc.ranks == 1 || milc.decisions != nullptr) && !is_off();
}

Box box_of_milc(const milcgpu_milc &milc) {
    milcgpu_layout layout{};
    std::copy(milc.extent, milc.extent + 4, layout.extent);
    std::copy(milc.whole, milc.whole + 4, layout.whole);
    std::copy(milc.origin, milc.origin + 4, layout.origin);
    std::copy(&milc.neighbour[0][0], &milc.neighbour[0][0] + 8, &layout.neighbour[0][0]);
    return box_of(layout, milc.rank);
}

SiteField field_of(const milcgpu_milc &milc, const milcgpu_field &links) {
    return {links.data, links.precision == MILCGPU_DOUBLE, links.pitch_bytes, milc.site_map};
}

void tell(const SiteFileHead &head, const SumPair &found, milcgpu_plugin_file &file) {
    file.turned = head.turned;
    file.has_sums = head.has_sums;
    file.says[0] = head.sums.first, file.says[1] = head.sums.second;
    file.found[0] = found.first, file.found[1] = found.second;
    std::memcpy(file.time, head.time, sizeof file.time);
    file.about = file.record = nullptr;
}

void note_file(const char *how, const char *name, const SumPair &sums) {
    plugin().certificate.files.push_back(format("%s %s, checksums %x %x", name, how, sums.first, sums.second));
}

char *copy_for_c(const std::string &text) {
    char *const copy = static_cast<char *>(std::malloc(text.size() + 1));
    if (copy == nullptr)
        throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
}
void tell(const FileTexts &texts, milcgpu_plugin_file &file) {
    file.about = copy_for_c(texts.about);
    file.record = copy_for_c(texts.record);
}

GaugeForm form_of(const milcgpu_plugin_form &form) {
    if (form.about == nullptr)
        return {FileKind::milc, form.time};
    GaugeForm scidac{FileKind::scidac, time_stamp(), form.precision == MILCGPU_DOUBLE ? 8 : 4, form.about, form.record};
    if (form.lfn != nullptr)
        scidac.lfn = form.lfn;
    return scidac;
}

// Runs work(ranks) on all ranks. If it throws, a line says what, and on_error(ranks, status) gives the answer.
template <class Work, class OnError>
int on_ranks(const char *what, const milcgpu_milc &milc, const Work &work, const OnError &on_error) noexcept {
    return answer_of(what, "MILC's own routine does it", 0, [&] {
        plugin().rank = milc.rank;
        const std::unique_ptr<Ranks> ranks = ranks_of(milc.ranks == 1 ? nullptr : milc.decisions);
        ranks->set_time_limit(time_limit());
        const FilePatience patience(*ranks);
        try {
            for (const char starts : ranks->gathered("a lattice file", char(is_plain_start(milc))))
                if (!starts)
                    return 0;
            return work(*ranks);
        } catch (const Error &error) {
            const bool lost = error.status() == Status::comm || error.status() == Status::timed_out;
            const int answer = lost ? -1 : on_error(*ranks, error.status());
            plugin().log(0, format("%s: %s%s", what, error.what(),
                                   answer == 0 ? ". MILC's own routine does it" : ". The run ends"));
            return answer;
        }
    });
}

double bytes_of(const milcgpu_milc &milc, const milcgpu_plugin_form &form) {
    const int real_bytes = form.about != nullptr && form.precision == MILCGPU_DOUBLE ? 8 : 4;
    return gauge_file_bytes({milc.whole[0], milc.whole[1], milc.whole[2], milc.whole[3]}) * real_bytes / 4;
}

// True if there is a file that would be lost if so many bytes are written over it.
bool is_lost(const char *name, double bytes, bool disk_failed) {
    namespace fs = std::filesystem;
    std::error_code none;
    const double older = fs::is_regular_file(name, none) ? double(fs::file_size(name, none)) : 0;
    const fs::space_info space = fs::space(name, none);
    return older > 0 && (disk_failed || (!none && space.capacity > 0 && double(space.available) + older < bytes));
}

} // namespace

extern "C" {

int milcgpu_plugin_read_lattice(const milcgpu_milc *milc, const char *name, int lime, int serial,
                                const milcgpu_field *links, milcgpu_plugin_file *file) {
    bool may_be_milcs = lime == 1; // MILC's own may read it, until the head is understood
    return on_ranks(
        "lattice file", *milc,
        [&](Ranks &ranks) {
            struct Known {
                SiteFileHead head;
                int is_ours;
            } known{};
            const Box box = box_of_milc(*milc);
            ranks.collective("the head of a file", [&] {
                OpenFile there;
                if (ranks.rank() != 0 || there.open(name, false) != 0) // MILC says so
                    return;
                if (kind_of(name) != (lime != 0 ? FileKind::scidac : FileKind::milc))
                    return;
                const std::optional<SiteFileHead> head = known_head_of(name);
                if (!head || head->listed)
                    return;
                known = {*head, 1};
            });
            known = ranks.gathered("the head of a file", known)[0];
            if (!known.is_ours)
                return 0;
            may_be_milcs = false;
            require_extents(name, known.head, box.whole);
            const SumPair found = read_sites(ranks, box, name, known.head, field_of(*milc, *links),
                                             serial ? Readers::able : Readers::everyone);
            if (lime != 0)
                require_sums(name, known.head, found);
            tell(known.head, found, *file);
            note_file("read", name, found);
            if (lime != 0)
                ranks.collective("the texts of a file", [&] {
                    if (ranks.rank() == 0)
                        tell(texts_of(name), *file);
                });
            return 1;
        },
        [&](Ranks &, Status status) { return status == Status::no_memory || may_be_milcs ? 0 : -1; });
}

int milcgpu_plugin_write_lattice(const milcgpu_milc *milc, const char *name, const milcgpu_plugin_form *form,
                                 int serial, const milcgpu_field *links, milcgpu_plugin_file *file) {
    bool disk_failed = false;
    return on_ranks(
        "lattice file", *milc,
        [&](Ranks &ranks) {
            const std::string left = ranks.rank() == 0 ? parts_left_of(name) : "";
            if (!left.empty())
                plugin().log(1,
                             format("lattice file: %s: left by runs that were killed, or still written by another host",
                                    left.c_str()));
            const SiteFileHead head =
                write_gauge(ranks, box_of_milc(*milc), name, field_of(*milc, *links), form_of(*form),
                            serial ? Readers::first : Readers::everyone, SiteRecords::usual, &disk_failed);
            tell(head, head.sums, *file);
            note_file("written", name, head.sums);
            return 1;
        },
        // MILC's own routine overwrites an older file from its first byte on. If that cannot end well, the older file
        // stays.
        [&](Ranks &ranks, Status status) {
            const bool is_of_disk = status != Status::nan_or_inf && status != Status::no_memory;
            const bool would_lose =
                ranks.rank() == 0 && is_of_disk && is_lost(name, bytes_of(*milc, *form), disk_failed);
            return ranks.gathered("an older file", char(would_lose))[0] != 0 ? -1 : 0;
        });
}

} // extern "C"
