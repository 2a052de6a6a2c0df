// Gauge fields and colour vectors in files: MILC's version 5 (read and written) and SciDAC/LIME (read).
// Links carry no phases in such files. Every function throws std::runtime_error: what, file and byte, what to do.
#pragma once

#include <string>

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace examples {

struct GaugeFile {
    reference::Lattice lattice;
    reference::Gauge links; // [4*site + dir], lexicographic sites
    std::string time_stamp; // empty where the format has none
};

struct FermionFile {
    reference::Lattice lattice;
    reference::Fermion vectors;
};

// MILC version 5, either byte order, found by its first word; the two checksums are verified.
GaugeFile read_milc_gauge(const std::string &path);

// MILC version 5 in the machine's byte order, float32, sites lexicographic. The time stamp (at most 63 characters) is
// free text; empty: the time of writing. The file has its name when it is whole.
void write_milc_gauge(const std::string &path, const reference::Lattice &lattice, const reference::Gauge &links,
                      const std::string &time_stamp = "");

// What such a file takes on the disk.
double milc_gauge_bytes(const reference::Lattice &lattice);

// SciDAC single-file LIME, float32 or float64, four matrices a site; the checksum of the record is verified.
GaugeFile read_scidac_gauge(const std::string &path);

// The same with one su3_vector a site.
FermionFile read_scidac_fermion(const std::string &path);

// Either format, by the first word of the file.
GaugeFile read_gauge(const std::string &path);

// Throws where a link is not in SU(3), to the rounding of float32: which one, and how many there are.
void check_unitary(const std::string &path, const GaugeFile &file);

} // namespace examples
