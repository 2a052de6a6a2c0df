// What MILC passes at the start: the lattice of this rank, the precision, the ranks.
#pragma once
#include "milc_glue/api/plugin.h"
#include "milc_glue/host/host_fields.h"
#include "milc_glue/residency/collective.h"
#include <vector>

namespace milcgpu {

struct MilcSide {
    int precision = 2, sites = 0, even_sites = 0, rank = 0; // sites of this rank
    bool own_routines = true;                               // MILC's own routines can do what the device cannot
    milcgpu_layout layout{};
    Collective collective;
    void (*end_all)(void *user, const char *why) = nullptr; // ends all of MILC's ranks; nullptr: one rank
    void *end_all_user = nullptr;
    int node_rank = 0;         // among the ranks of the whole program on this host
    std::vector<int> site_map; // empty: not started
    milcgpu_report_sizes report_sizes = milcgpu_sizes_of_reports();

    bool in_double() const { return precision == 2; }
    int real() const { return in_double() ? MILCGPU_DOUBLE : MILCGPU_SINGLE; }
    int sites_of(int parity) const { return parity == MILCGPU_EVEN ? even_sites : sites - even_sites; }
    size_t bytes_of(int reals) const { return reals * (in_double() ? sizeof(double) : sizeof(float)); }
    HostRecords link_records(const void *links_of_all_sites) const {
        const size_t bytes = bytes_of(72);
        return {links_of_all_sites, static_cast<size_t>(sites), bytes, bytes};
    }
    // The records of one parity; MILC has all even sites first.
    HostRecords parity_of(const milcgpu_field &field, int parity) const {
        const size_t bytes = bytes_of(6), pitch = field.pitch_bytes != 0 ? field.pitch_bytes : bytes;
        const int first = parity == MILCGPU_EVEN ? 0 : even_sites;
        return {static_cast<const unsigned char *>(field.data) + first * pitch, static_cast<size_t>(sites_of(parity)),
                bytes, pitch};
    }
};

} // namespace milcgpu
