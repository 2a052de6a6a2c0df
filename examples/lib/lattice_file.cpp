#include "examples/lib/lattice_file.h"
#include "examples/lib/memory.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/host/gauge_file.h"
#include "milc_glue/host/whole_file.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace examples {

namespace {

using reference::Gauge;
using reference::Lattice;

milcgpu::Box whole_box(const Lattice &lattice) { return {lattice.n, lattice.n, {}, {}, 0}; }

// All numbers of a file, in MILC's order of the sites.
std::vector<double> reals_of(const std::string &path, const milcgpu::SiteFileHead &head, const Lattice &lattice) {
    if (head.sites() > 1 << 28)
        throw std::runtime_error(milcgpu::quoted_name(path) +
                                 ": a lattice of more than 2^28 sites is too large for this program");
    const double field = 8.0 * head.reals * head.sites();
    need_memory(milcgpu::quoted_name(path), 2 * field); // and a second time, in the order of the reference
    std::vector<double> reals(std::size_t(head.reals) * lattice.volume());
    milcgpu::Ranks one;
    milcgpu::require_sums(
        path, head,
        milcgpu::read_sites(one, whole_box(lattice), path, head, {reals.data(), true, head.reals * sizeof(double)}));
    return reals;
}

} // namespace

GaugeFile read_gauge(const std::string &path) {
    const milcgpu::SiteFileHead head = milcgpu::head_of(path);
    GaugeFile file;
    file.lattice = {head.extents};
    file.links = reference::links_from_milc<double>(file.lattice, reals_of(path, head, file.lattice));
    file.time_stamp = head.time;
    return file;
}

FermionFile read_scidac_fermion(const std::string &path) {
    const milcgpu::SiteFileHead head = milcgpu::head_of(path, milcgpu::reals_of_vector);
    FermionFile file;
    file.lattice = {head.extents};
    file.vectors = reference::vector_from_milc<double>(file.lattice, reals_of(path, head, file.lattice));
    return file;
}

void write_milc_gauge(const std::string &path, const Lattice &lattice, const Gauge &links,
                      const std::string &time_stamp) {
    if (links.size() != 4 * std::size_t(lattice.volume()))
        throw std::runtime_error(milcgpu::quoted_name(path) + ": " + std::to_string(links.size()) +
                                 " links for a lattice of " + std::to_string(lattice.volume()) +
                                 " sites; a lattice needs four per site");
    std::vector<float> reals = reference::links_to_milc<float>(lattice, links);
    milcgpu::Ranks one;
    milcgpu::write_gauge(one, whole_box(lattice), path, {reals.data(), false, 288},
                         {milcgpu::FileKind::milc, time_stamp.empty() ? milcgpu::time_stamp() : time_stamp});
}

double milc_gauge_bytes(const Lattice &lattice) { return milcgpu::gauge_file_bytes(lattice.n); }

void UnitaryLinks::add(const reference::Matrix &u, const std::array<int, 4> &x, int dir) {
    const double p = frobenius_norm(u * adjoint(u) - reference::identity()), d = std::abs(det(u) - 1.0);
    all_++;
    worst_product_ = p <= worst_product_ || std::isnan(worst_product_) ? worst_product_ : p;
    worst_determinant_ = d <= worst_determinant_ || std::isnan(worst_determinant_) ? worst_determinant_ : d;
    if (p <= most && d <= most) // false for NaN
        return;
    if (count_++ == 0)
        first_ = x, dir_ = dir, product_ = p, determinant_ = d;
}

void UnitaryLinks::check(const std::string &path) const {
    if (count_ == 0)
        return;
    char text[400];
    std::snprintf(
        text, sizeof text,
        ": the link at x y z t = %d %d %d %d in direction %c is not in SU(3): |U U^dag - 1| = %.2g, "
        "|det U - 1| = %.2g, at most %g are rounding; %zu of %zu links are like this. The checksum is right, so "
        "the file was written like this: gauge fields have unitary links without phases; save it again with MILC",
        first_[0], first_[1], first_[2], first_[3], "xyzt"[dir_], product_, determinant_, most, count_, all_);
    throw std::runtime_error(milcgpu::quoted_name(path) + text);
}

} // namespace examples
