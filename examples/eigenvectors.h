// The lowest eigenvectors of links, computed or read from a file of MILC's (written without QIO), with what they took.
#pragma once
#include "examples/system.h"
#include "milcgpu_eigen.h"

namespace examples {

struct EigenChoice {
    int count = 0;     // of vectors; with a file: at the most, 0 for all
    std::string from;  // a file, whose parity counts; empty: they are computed
    std::string start; // a file with some of them, where they are computed; empty: none
    int parity = MILCGPU_EVEN;
    double tolerance = 0;
    int precision = MILCGPU_HALF; // of those that are kept
};

class Eigenvectors {
  public:
    // None where neither a count nor a file is given. Throws std::runtime_error with the library's words.
    Eigenvectors(const Job &ranks, const Connection &connection, const EigenChoice &choice);
    Eigenvectors(const Eigenvectors &) = delete;
    ~Eigenvectors() { milcgpu_eigenvectors_destroy(vectors_); }
    milcgpu_eigenvectors *handle() const { return vectors_; } // NULL: none
    const std::vector<double> &values() const { return values_; }
    const std::vector<double> &residuals() const { return residuals_; }
    void print(int every) const; // a line for each so many, and the last one
    void write(const std::string &file, int precision) const;

  private:
    milcgpu_eigenvectors *vectors_ = nullptr;
    std::vector<double> values_, residuals_;
};

} // namespace examples
