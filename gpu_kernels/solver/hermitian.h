// Eigenvalues and eigenvectors of a dense hermitian matrix, on the host: Householder's reflections to tridiagonal form,
// then QL with implicit shifts (G. H. Golub and C. F. Van Loan, Matrix Computations, 4th ed., 8.3). Up to four OpenMP
// threads make the matrix tridiagonal if m < 1024; all of them do the rest. Flops for n vectors: 8 m^3 for the
// tridiagonal form, about 6.5 m^3 for the rotations of QL, 8 n m^2 to reflect the vectors.
#pragma once
#include "gpu_kernels/fields/su3.h"
#include <vector>

namespace milcgpu {

struct HermitianEigen {
    std::vector<double> values;           // all m, the lowest first
    std::vector<Complex<double>> vectors; // of the lowest `wanted`: [vector][component], each of norm 1
};
// a: [row][column]; its lower triangle is read. Throws Error(nan_or_inf).
HermitianEigen eigen_of_hermitian(const std::vector<Complex<double>> &a, int m, int wanted);

// The inverse of r, [row][column], for a hermitian positive matrix g = r^dag r with r upper triangular. Empty if a
// pivot is below `weakest` times its diagonal element: the vectors of this Gram matrix are not independent.
std::vector<Complex<double>> inverse_of_root(const std::vector<Complex<double>> &g, int m, double weakest);

} // namespace milcgpu
