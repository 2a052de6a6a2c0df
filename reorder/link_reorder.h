// MILC's links -> device links: the plain copy with 18 reals in the host's precision, and from it the packed versions.
#pragma once
#include "gpu_kernels/su3/fields.h"
#include "reorder/spinor_reorder.h"

namespace milcgpu {

// host: 4 matrices of 18 reals a site record (su3_matrix l[4*sites], or a `link[4]` member of site structures), or 4
// momenta of 10 (anti_hermitmat). to: as many reals, precision of the host's reals.
void links_to_device(Device &, const HostField &host, const SiteMap &, const Geometry &, const LinkField &to);
// The way back (double or single; into either). room: for the host's records, made here where it is not
// given; with it, nothing is allocated.
DeviceArray<unsigned char> room_for_links(Device &, Precision host_real, int sites, int reals = 18);
void links_to_host(Device &, const LinkField &from, const SiteMap &, const Geometry &, const HostField &host,
                   const DeviceArray<unsigned char> &room);
void links_to_host(Device &, const LinkField &from, const SiteMap &, const Geometry &, const HostField &host);

// Between the last site and the stride: zeros, which add nothing to a checksum. 18 reals, double or single.
void clear_padding(Device &, LinkField &links, const Geometry &);

// What a look over all links of a field finds, on all ranks; but first_bad, which is this rank's.
struct LinkStatistics {
    double largest;   // of |re|, |im| of all elements; infinite or NaN when not finite
    double mean_norm; // sqrt(mean over links of |L|_F^2 / 3): c for links c * unitary
    long long
        first_bad; // (4 k + mu) of the first link with NaN or infinity, k in device order (even, then odd); -1: none
    uint64_t checksum; // of the bit patterns, order-dependent
};
LinkStatistics link_statistics(Device &, const LinkField &links, const Geometry &);

struct PackedLinks {
    LinkField field;
    double worst_error; // of an element after unpacking, relative to the field's scale
};
// Packs links of 18 reals into `reals` reals of `precision` and unpacks every one again to measure the worst error,
// that of all ranks. They call together; ghosts are not packed.
PackedLinks pack_links(Device &, const LinkField &from, const LinkStatistics &, const Geometry &, Precision precision,
                       int reals, const char *owner);

// The error up to which a packed version is accepted.
constexpr double accepted_error(Precision p) { return 64 * storage_epsilon(p); }

} // namespace milcgpu
