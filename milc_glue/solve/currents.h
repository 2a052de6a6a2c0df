// Disconnected currents on vectors that stay on the device: thinned noise, projection of eigenvectors out of it, and
// sums of currents over time slices, of noise and of eigenvectors. The one-link vector currents are
//     J_mu(x) = Im [a(x)^dag U_mu(x) b(x + mu)],    b = D of a solution,
// with staggered phases and boundary sign relative to the origin 0 0 0 0. (MILC: f_meas_current.)
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/api/milcgpu_mesons.h"

namespace milcgpu {

// Thins n random fields of the host (gpu_kernels/measure): vectors k step^4 / 2 .. of `to` get the k-th field, on both
// parities.
milcgpu_status thinned_sources(milcgpu_vectors *to, int n, const milcgpu_field *random, int step);

// Sets all vectors to 0 on this parity.
milcgpu_status zero_vectors(milcgpu_vectors *, int parity);

// Projects the eigenvectors v out of all vectors of `x`, one after the other, the last first. On the parity that v does
// not have it projects out D v / |D v| with these links, or, if `other` is not nullptr, these fields of the host, one
// for each eigenvector.
milcgpu_status project_out(milcgpu_eigenvectors *, milcgpu_links *, const milcgpu_field *other, milcgpu_vectors *x);

// sums[(k 4 + mu) T + t] = J_mu summed over the sites of `parity` on time slice t and over the vectors of group k of
// `groups`. a: `sources`. b: D of `solutions`, which live on this parity, with `fermion`.
milcgpu_status current_sums(milcgpu_meson_links *, milcgpu_links *fermion, int parity, int groups,
                            milcgpu_vectors *sources, milcgpu_vectors *solutions, double *sums);

// sums[(w 4 + mu) T + t] = sum over n of weights[w N + n] times (J_mu on odd sites with a = D v_n, b = v_n, minus J_mu
// on even sites with a = v_n, b = D v_n). v_n: eigenvectors on even sites. D: with `fermion`.
milcgpu_status low_mode_currents(milcgpu_meson_links *, milcgpu_links *fermion, milcgpu_eigenvectors *, int N,
                                 int n_weights, const double *weights, double *sums);

} // namespace milcgpu
