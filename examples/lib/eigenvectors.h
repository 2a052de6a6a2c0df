// The lowest eigenvectors of links, computed or read from a file of MILC's (written without QIO), with their cost.
#pragma once
#include "examples/lib/system.h"
#include "milcgpu_eigen.h"

namespace examples {

struct EigenChoice {
    int count = 0;     // number of vectors; with a file: the maximum, 0 for all
    std::string from;  // a file, which determines the parity; empty: compute the vectors
    std::string start; // a file with vectors to start from; empty: none
    int parity = MILCGPU_EVEN;
    double tolerance = 0;
    int precision = MILCGPU_HALF; // of the kept vectors
};

class Eigenvectors {
  public:
    // No vectors if neither a count nor a file is given. Throws std::runtime_error with the library's message.
    Eigenvectors(const Job &ranks, const Connection &connection, const EigenChoice &choice);
    Eigenvectors(const Eigenvectors &) = delete;
    ~Eigenvectors() { milcgpu_eigenvectors_destroy(vectors_); }
    milcgpu_eigenvectors *handle() const { return vectors_; } // NULL: none
    const std::vector<double> &values() const { return values_; }
    const std::vector<double> &residuals() const { return residuals_; }
    void print(int every) const; // a line for every `every`-th vector, and for the last one
    void write(const std::string &file, int precision) const;

  private:
    milcgpu_eigenvectors *vectors_ = nullptr;
    std::vector<double> values_, residuals_;
};

} // namespace examples
