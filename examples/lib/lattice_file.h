// Gauge fields and colour vectors in files, on one rank (milc_glue/host/gauge_file.h). Every function throws
// std::runtime_error: what, file and byte, what to do.
#pragma once

#include <array>
#include <string>

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace examples {

struct GaugeFile {
    reference::Lattice lattice;
    reference::Gauge links; // [4*site + dir], lexicographic sites
    std::string time_stamp; // empty if the format has none
};

struct FermionFile {
    reference::Lattice lattice;
    reference::Fermion vectors;
};

// MILC's version 5, SciDAC or NERSC, by the first word of the file; the checksums are verified.
GaugeFile read_gauge(const std::string &path);

// MILC version 5 in the machine's byte order, float32, sites lexicographic. The time stamp (at most 63 characters) is
// free text; empty: the time of writing. The file gets its name when it is whole.
void write_milc_gauge(const std::string &path, const reference::Lattice &lattice, const reference::Gauge &links,
                      const std::string &time_stamp = "");

// The size of such a file on the disk.
double milc_gauge_bytes(const reference::Lattice &lattice);

// SciDAC, with one su3_vector per site.
FermionFile read_scidac_fermion(const std::string &path);

// Tests that links of a file are in SU(3), to the rounding of float32.
class UnitaryLinks {
  public:
    void add(const reference::Matrix &u, const std::array<int, 4> &x, int dir);
    // Throws if a link is not; the message names the first one and their number.
    void check(const std::string &path) const;
    // The largest Frobenius norm of U U^dag - 1, and the largest |det U - 1|; NaN if a link has NaN.
    double worst_product() const { return worst_product_; }
    double worst_determinant() const { return worst_determinant_; }
    static constexpr double most = 1e-4; // MILC's own limit

  private:
    std::array<int, 4> first_{};
    int dir_ = 0;
    std::size_t count_ = 0, all_ = 0;
    double product_ = 0, determinant_ = 0; // errors of the first such link
    double worst_product_ = 0, worst_determinant_ = 0;
};

} // namespace examples
