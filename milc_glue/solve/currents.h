// Disconnected currents: noise that is thinned and has no part along eigenvectors, and sums of currents over time
// slices, of noise and of eigenvectors. All of vectors that stay on the device. With one-link vector currents
//     J_mu(x) = Im [a(x)^dag U_mu(x) b(x + mu)],    b = D of a solution,
// with staggered phases and boundary sign relative to the origin 0 0 0 0. (MILC: f_meas_current.)
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/api/milcgpu_mesons.h"

namespace milcgpu {

// Of n random fields of the host: vectors k step^4 / 2 .. of `to` are the k-th field, thinned (gpu_kernels/measure), on
// both parities.
milcgpu_status thinned_sources(milcgpu_vectors *to, int n, const milcgpu_field *random, int step);

// All vectors become 0 on this parity.
milcgpu_status zero_vectors(milcgpu_vectors *, int parity);

// All vectors of `x` lose their parts along eigenvectors, of even or odd sites, and, on the other parity, along D v /
// |D v| with these links, or, if `other` is not nullptr, along what these fields of the host have there, one a vector.
// One after the other, the last first.
milcgpu_status project_out(milcgpu_eigenvectors *, milcgpu_links *, const milcgpu_field *other, milcgpu_vectors *x);

// sums[(k 4 + mu) T + t] = sum over sites of `parity` on time slice t of J_mu, summed over the k-th of `groups` groups
// of vectors; a: `sources`, b: D of `solutions` with `fermion`, which are of this parity.
milcgpu_status current_sums(milcgpu_meson_links *, milcgpu_links *fermion, int parity, int groups,
                            milcgpu_vectors *sources, milcgpu_vectors *solutions, double *sums);

// sums[(w 4 + mu) T + t] = sum over eigenvectors v_n, of even sites, of weights[w N + n] times: -J_mu on even sites
// with a = v, b = D v, and J_mu on odd sites with a = D v, b = v. D: of `fermion`.
milcgpu_status low_mode_currents(milcgpu_meson_links *, milcgpu_links *fermion, milcgpu_eigenvectors *, int N,
                                 int n_weights, const double *weights, double *sums);

} // namespace milcgpu
