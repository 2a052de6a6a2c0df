// Reports for MILC's side. It may have been compiled with an older header than the library: it gets the members that it
// knows.
#pragma once
#include "milc_glue/routines/state.h"
#include <cstring>
#include <vector>

namespace milcgpu {

inline size_t bytes_for_milc(const milcgpu_solve_report *) { return plugin().report_sizes.solve; }
inline size_t bytes_for_milc(const milcgpu_multi_mass_report *) { return plugin().report_sizes.multi_mass; }
inline size_t bytes_for_milc(const milcgpu_fatlink_report *) { return plugin().report_sizes.fatlink; }
inline size_t bytes_for_milc(const milcgpu_force_report *) { return plugin().report_sizes.force; }
inline size_t bytes_for_milc(const milcgpu_reunitarize_report *) { return plugin().report_sizes.reunitarize; }
inline size_t bytes_for_milc(const milcgpu_gauge_fix_report *) { return plugin().report_sizes.gauge_fix; }
inline size_t bytes_for_milc(const milcgpu_flow_report *) { return plugin().report_sizes.flow; }
inline size_t bytes_for_milc(const milcgpu_eigen_report *) { return plugin().report_sizes.eigen; }

// The library's reports for n of MILC's, which the destructor writes. A single report needs no memory: no throw.
template <class Report> class ReportForMilc {
  public:
    explicit ReportForMilc(Report *to, int n = 1) : to_(to), several_(n > 1 ? n : 0), n_(n) {
        for (int k = 0; k < n; ++k)
            (*this)[k].struct_size = sizeof(Report);
    }
    ReportForMilc(const ReportForMilc &) = delete;
    ~ReportForMilc() {
        const size_t bytes = bytes_for_milc(to_);
        for (int k = 0; k < n_; ++k) {
            (*this)[k].struct_size = bytes;
            std::memcpy(reinterpret_cast<unsigned char *>(to_) + k * bytes, *this + k, bytes);
        }
    }
    operator Report *() const { return n_ > 1 ? several_.data() : &one_; }
    Report *operator->() const { return *this; }

  private:
    Report *const to_;
    mutable Report one_{};
    mutable std::vector<Report> several_;
    const int n_;
};

} // namespace milcgpu
