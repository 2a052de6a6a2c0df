// MILC's links to device links: the plain copy with 18 reals in the host's precision, and the packed versions made from
// it.
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "reorder/spinor_reorder.h"

namespace milcgpu {

// host: 4 matrices of 18 reals a site record (su3_matrix l[4*sites], or a `link[4]` member of site structures), or 4
// momenta of 10 (anti_hermitmat). to: as many reals, precision of the host's reals.
void links_to_device(Device &, const HostField &host, const SiteMap &, const Geometry &, const LinkField &to);
// The reverse copy (double or single, into either). scratch: memory for the host's records, allocated here if it is not
// given; if it is given, nothing is allocated.
DeviceArray<unsigned char> scratch_for_links(Device &, Precision host_real, int sites, int reals = 18);
void links_to_host(Device &, const LinkField &from, const SiteMap &, const Geometry &, const HostField &host,
                   const DeviceArray<unsigned char> &scratch);
void links_to_host(Device &, const LinkField &from, const SiteMap &, const Geometry &, const HostField &host);

// Zeroes the padding between the last site and the stride; zeros add nothing to a checksum. 18 reals, double or single.
void clear_padding(Device &, LinkField &links, const Geometry &);

// The signs that a gauge field carries, over all ranks. The determinant of an SU(3) link is 1; a link with a sign has
// that sign as determinant. A field with other phases (U(1), another origin) or far from SU(3) has neither kind of
// signs.
struct LinkSigns {
    double links = 0;                  // along x, y and z, which are judged
    double against[2] = {};            // of these, links with another sign than links of Signs(k)
    double last_slice = 0, turned = 0; // t links of the last time slice; how many have the boundary sign
    // True if at most an eighth of the links disagree; with random signs half would disagree with both kinds.
    bool of(Signs signs) const { return links > 0 && 8 * against[static_cast<int>(signs)] <= links; }
    bool with_boundary() const { return last_slice > 0 && 8 * (last_slice - turned) <= last_slice; }
    bool without_boundary() const { return last_slice > 0 && 8 * turned <= last_slice; }
};

// Statistics over all links of a field, over all ranks, except first_bad, which is this rank's.
struct LinkStatistics {
    double largest;   // of |re|, |im| of all elements; infinite or NaN if any is
    double mean_norm; // sqrt(mean over links of |L|_F^2 / 3): c for links c * unitary
    long long
        first_bad;    // (4 k + mu) of the first link with NaN or infinity, k in device order (even, then odd); -1: none
    uint64_t content; // a hash of all bits (machine/content_hash.h), of this process
    LinkSigns signs = {}; // if they were requested
};
// phases: those of a gauge field, to find its signs; nullptr: signs are not computed.
LinkStatistics link_statistics(Device &, const LinkField &links, const Geometry &, const Phases *phases = nullptr);
// As above, for links that were loaded or computed. Throws Error(nan_or_inf) with the place of a link that is not
// finite.
LinkStatistics finite_statistics(Device &, const LinkField &links, const Geometry &, const char *name);
// (4 k + mu) of the first x, y or z link, as first_bad above, whose sign differs from links of these signs; -1: none.
long long first_against(Device &, const LinkField &links, const Geometry &, const Phases &, Signs);

struct PackedLinks {
    LinkField field;
    double worst_error; // of an element after unpacking, relative to the field's scale
};
// Packs links of 18 reals into `reals` reals of `precision` and unpacks every one again to measure the worst error over
// all ranks. All ranks call together; ghosts are not packed.
PackedLinks pack_links(Device &, const LinkField &from, const LinkStatistics &, const Geometry &, Precision precision,
                       int reals, const char *owner);

// The error up to which a packed version is accepted.
constexpr double accepted_error(Precision p) { return 64 * storage_epsilon(p); }

} // namespace milcgpu
