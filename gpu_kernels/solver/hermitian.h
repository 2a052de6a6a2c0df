// Eigenvalues and eigenvectors of a dense hermitian matrix, on the host: Householder's reflections to tridiagonal form,
// then QL with implicit shifts (G. H. Golub and C. F. Van Loan, Matrix Computations, 4th ed., 8.3). Reflections and
// rotations are applied by all OpenMP threads. 8/3 m^3 complex multiplications and 2 m^3 rotations of m^2 numbers.
#pragma once
#include "gpu_kernels/fields/su3.h"
#include <vector>

namespace milcgpu {

struct HermitianEigen {
    std::vector<double> values;           // all m, the lowest first
    std::vector<Complex<double>> vectors; // of the lowest `wanted`: [vector][component], each of norm 1
};
// a: [row][column]; its lower triangle is read. Throws Error(nan_or_inf).
HermitianEigen eigen_of_hermitian(std::vector<Complex<double>> a, int m, int wanted);

// Of a hermitian positive matrix g = r^dag r, r upper triangular: the inverse of r, [row][column]. Empty where a pivot
// is below `weakest` times its diagonal element: the vectors of this Gram matrix are not independent.
std::vector<Complex<double>> inverse_of_root(const std::vector<Complex<double>> &g, int m, double weakest);

} // namespace milcgpu
