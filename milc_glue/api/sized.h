// Structs of the C interface that begin with struct_size: the accepted sizes, and copies from and to callers whose
// header is older than the library.
#pragma once
#include "milc_glue/api/checks.h"
#include "milc_glue/api/milcgpu_baryons.h"
#include "milc_glue/api/milcgpu_dirac.h"
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include <cstring>

namespace milcgpu {

// A struct that callers fill has its size in its table (members.h); others have a row here. first: sizeof the struct in
// the oldest header that is accepted. A later member must begin where the struct ended.
template <class Struct> struct Members;
template <class Struct> struct Sized : Members<Struct> {};
#define SIZED(Struct, bytes)                                                                                           \
    template <> struct Sized<Struct> {                                                                                 \
        static constexpr const char *name = #Struct;                                                                   \
        static constexpr size_t first = bytes;                                                                         \
    };                                                                                                                 \
    static_assert(offsetof(Struct, struct_size) == 0 && bytes <= sizeof(Struct), "a struct grows only")

SIZED(milcgpu_layout, 112);
SIZED(milcgpu_options, 40);
SIZED(milcgpu_messages, 56); // of 0.2, without gpu_memory: a MILC with its own GPU switches may have it
SIZED(milcgpu_solve_report, 552);
SIZED(milcgpu_multi_mass_report, 504);
SIZED(milcgpu_fatlink_report, 496);
SIZED(milcgpu_force_report, 480);
SIZED(milcgpu_reunitarize_report, 40);
SIZED(milcgpu_eigen_report, 480);
SIZED(milcgpu_gauge_file, 112);
SIZED(milcgpu_gauge_fix_report, 488);
SIZED(milcgpu_flow_report, 560);
#undef SIZED

// Whether a header may have this size: no struct ends within its alignment.
template <class Struct> bool is_size_of(size_t bytes) {
    return bytes >= Sized<Struct>::first && bytes <= sizeof(Struct) && bytes % alignof(Struct) == 0;
}
template <class Struct> void require_size(size_t given) {
    if (!is_size_of<Struct>(given))
        refuse(format("%s.struct_size is %zu, this library (%s) knows %s%zu: set it to sizeof, and compile against the "
                      "header of the library that is linked",
                      Sized<Struct>::name, given, MILCGPU_VERSION,
                      Sized<Struct>::first < sizeof(Struct) ? format("%zu to ", Sized<Struct>::first).c_str() : "",
                      sizeof(Struct)));
}

// A copy of the caller's struct. Members that its header does not have are 0.
template <class Struct> Struct full_copy(const Struct *given) {
    require_size<Struct>(given->struct_size);
    Struct full{};
    std::memcpy(&full, given, given->struct_size);
    full.struct_size = sizeof full;
    return full;
}

// Writes the members that the caller's header has.
template <class Report> void copy_to_caller(const Report &filled, Report *report) {
    const size_t size = report->struct_size;
    std::memcpy(report, &filled, size);
    report->struct_size = size;
}
// Entry k of the caller's array, whose entries all have the size of its header.
template <class Report> Report *entry_of_caller(Report *reports, size_t k) {
    return reinterpret_cast<Report *>(reinterpret_cast<unsigned char *>(reports) + k * reports->struct_size);
}
template <class Report> void require_sizes(Report *reports, int n) {
    for (int k = 0; k < n && reports != nullptr; ++k) {
        require_size<Report>(entry_of_caller(reports, k)->struct_size);
        if (entry_of_caller(reports, k)->struct_size != reports->struct_size)
            refuse(format("reports[%d].struct_size is %zu, that of reports[0] %zu: set each to sizeof", k,
                          entry_of_caller(reports, k)->struct_size, reports->struct_size));
    }
}
template <class Report> void copy_to_caller(const std::vector<Report> &filled, Report *reports) {
    for (size_t k = 0; k < filled.size() && reports != nullptr; ++k)
        copy_to_caller(filled[k], entry_of_caller(reports, k));
}

// Ends an entry with a report: fills the caller's report if it has a known size, and returns the status.
template <class Report> milcgpu_status report_to_caller(milcgpu_status status, Report &filled, Report *report) {
    if (report != nullptr && is_size_of<Report>(report->struct_size)) {
        filled.status = status;
        if (status != MILCGPU_OK)
            std::snprintf(filled.message, sizeof filled.message, "%s", milcgpu_last_error());
        copy_to_caller(filled, report);
    }
    return status;
}

} // namespace milcgpu
