// Eigenvectors in a file of MILC's, as it is written without QIO. All numbers in the byte order of the machine:
//
//   byte 0   int32 extents[4], char time[64], int32 order of the sites: 0
//   byte 84  int32 parity: 2 even, 1 odd; int32 N; double l[N]
//   byte 92 + 8 N   N vectors one after the other: sites of the parity, x fastest, each with 3 complex numbers, all
//                   float or all double
//   the end  uint32 sum29, sum31: of all words of 32 bits of the vectors, each rotated by its place modulo 29 and 31
//
// Neither a magic number nor the precision is there: the size of the file tells the precision.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/host/file_sums.h"
#include "milc_glue/host/whole_file.h"
#include <array>
#include <cstdint>
#include <vector>

namespace milcgpu {

struct EigenFileHead {
    std::array<int, 4> extents;
    int parity; // MILC's: 2 even, 1 odd
    int count;
    Precision real; // double or single
    size_t values_at() const { return 92; }
    size_t sites() const { return size_t(extents[0]) * extents[1] * extents[2] * extents[3] / 2; }
    size_t vector_bytes() const { return sites() * 6 * real_bytes(real); }
    size_t vector_at(int k) const { return values_at() + 8 * size_t(count) + k * vector_bytes(); }
    size_t bytes() const { return vector_at(count) + 8; }
};

// One that is read from its begin to its end. All functions throw Error(bad_argument), or nan_or_inf: file, byte, what
// it is and what to do.
class EigenFileReader {
  public:
    EigenFileReader() = default;
    EigenFileReader(const EigenFileReader &) = delete;
    ~EigenFileReader();
    void open(const std::string &path, const std::array<int, 4> &extents); // which it must have
    const EigenFileHead &head() const { return head_; }
    const std::vector<double> &values() const { return values_; }
    void next(void *vector); // vector_bytes()
    void finish();           // the sums, behind the last vector

  private:
    void read(void *to, size_t bytes);
    [[noreturn]] void fail(size_t byte, const std::string &what, Status = Status::bad_argument) const;
    std::string path_;
    std::FILE *file_ = nullptr;
    EigenFileHead head_{};
    std::vector<double> values_;
    RotatedSums sums_;
    int done_ = 0;
};

// Throws Error(bad_argument) where the disk is full or the file cannot be made.
class EigenFileWriter {
  public:
    // time: at most 63 characters.
    void open(const std::string &path, const EigenFileHead &, const std::vector<double> &values,
              const std::string &time);
    void next(const void *vector);
    void finish();

  private:
    void write(const void *data, size_t bytes);
    WholeFile file_;
    EigenFileHead head_{};
    RotatedSums sums_;
};

} // namespace milcgpu
