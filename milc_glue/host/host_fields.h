// MILC's fields in the host's memory: hashes, differences and copies by all threads of the host. Sums are over fixed
// blocks, so no result depends on the number of threads.
#pragma once
#include <cstddef>
#include <cstdint>

namespace milcgpu {

struct UnitarizeSpec; // fermion_links.h

// `count` records of `bytes` each, `pitch` bytes apart.
struct HostRecords {
    const void *data;
    size_t count, bytes, pitch;
};

// Hashes of 64 bits (machine/content_hash.h), of records and their numbers: sums over the records, so any
// thread may add any part. The numbers differ in each process.
//
// The sample is an eighth of the records, spread over all of them: one random block of every eight neighbouring blocks
// of 8 records. So it shows an edit of a plane. A block is long enough to be read at the speed of the memory.
enum class Share { all, sample, rest };
uint64_t hash_records(const HostRecords &records, Share share = Share::all);
// The hash of one piece, by the calling thread alone: hash_records() is the sum over the pieces.
size_t hash_pieces(const HostRecords &records);
uint64_t hash_piece(const HostRecords &records, Share share, size_t piece);
struct ContentHash {
    uint64_t all = 0, sample = 0;
    uint64_t rest() const { return all - sample; }
    bool operator==(const ContentHash &other) const { return all == other.all && sample == other.sample; }
};
ContentHash hash_all_and_sample(const HostRecords &records);

// The hash of `bytes` contiguous bytes, in records of 4 kB: as fast as the memory.
uint64_t hash_bytes(const void *data, size_t bytes);

// |a - b| and |b| over all reals; records of equal size, float or double reals.
struct Difference {
    double difference, size;
};
Difference difference_of(const HostRecords &a, const HostRecords &b, bool in_double);

// The larger of two errors; NaN is larger than any number.
inline double worse_error(double a, double b) { return b <= a || a != a ? a : b; }

// The largest |a - b| / |b| (Frobenius) of `matrices` packed 3x3 matrices. Infinite if one is not finite.
double worst_link_difference(const void *a, const void *b, size_t matrices, bool in_double);

// The worst cases for rounding among 3x3 matrices V that are made unitary. ratio: the largest ratio of two eigenvalues
// of V^dag V, among the V for which MILC uses these and not singular values: the relative error of the smallest
// eigenvalue is the rounding error times this. Infinite if a V is zero: any unitary matrix is its unitary part.
// inverse: the inverse of the smallest singular value above 0; the unitary part multiplies an error of V by it.
struct WorstV {
    double ratio, inverse;
};
WorstV worst_of_v(const void *v, size_t matrices, bool in_double, const UnitarizeSpec &spec);

// Sums over these V of the squares of: the terms of MILC's derivative of the unitary part of V, and the derivative.
// With singular values s0 >= s1 >= s2 the derivative is 1 / s2. MILC writes it as polynomials of V^dag V with terms of
// s0^6 / (s1^4 s2^3), which cancel. filter is added to the squares of all three if the square of s2 is below it.
struct DerivativeSize {
    double terms, value;
};
DerivativeSize derivative_size(const void *v, size_t matrices, bool in_double, double filter);

// Allocates memory for free(), in large pages if it is large and the system has them. Returns nullptr if there is none.
void *host_allocate(size_t bytes);

// Packs records.
void gather_records(const HostRecords &from, void *to);

// MILC's sites: map[k] is MILC's index of the k-th site in milcgpu_layout's order.
struct MilcSites {
    const int *extent, *map;
};

// to[4 i + mu] = (links[4 j + mu])^dag for all sites i, j the site `hops` back from i in direction mu. The neighbours
// are computed: a table of them would be larger than most fields.
void gather_adjoint_links(const void *links, const MilcSites &sites, int hops, bool in_double, void *to);

} // namespace milcgpu
