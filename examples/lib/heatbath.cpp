// Pseudo heat bath on the three SU(2) subgroups (Cabibbo, Marinari, Phys. Lett. B 119 (1982) 387,
// DOI 10.1016/0370-2693(82)90696-7) with the SU(2) sampler of Kennedy and Pendleton (Phys. Lett. B 156 (1985) 393,
// DOI 10.1016/0370-2693(85)91632-6); over-relaxation on the same subgroups (Brown, Woch, Phys. Rev. Lett. 58 (1987)
// 2394, DOI 10.1103/PhysRevLett.58.2394).
#include "examples/lib/heatbath.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace examples {

namespace {

using reference::Complex;
using reference::Gauge;
using reference::Lattice;
using reference::Matrix;
using reference::times;

// The finalizer of SplitMix64 (Steele, Lea, Flood, DOI 10.1145/2660193.2660195).
std::uint64_t mix(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// The random numbers of one link in one sweep.
class LinkRandom {
  public:
    LinkRandom(std::uint64_t seed, int sweep, std::size_t link) {
        for (const std::uint64_t word : {seed, std::uint64_t(sweep), std::uint64_t(link)})
            state_ = mix(state_ + golden + word);
    }

    // Uniform in (0, 1): its logarithm is finite.
    double uniform() {
        state_ += golden;
        return ((mix(state_) >> 11) + 0.5) * 0x1p-53;
    }

  private:
    static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u; // 2^64 / golden ratio, SplitMix64's stride
    std::uint64_t state_ = 0;
};

// q[0] + i (q[1] sigma_1 + q[2] sigma_2 + q[3] sigma_3)
using Quaternion = std::array<double, 4>;

Quaternion multiply(const Quaternion &a, const Quaternion &b) {
    return {
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3], a[0] * b[1] + a[1] * b[0] - a[2] * b[3] + a[3] * b[2],
        a[0] * b[2] + a[2] * b[0] - a[3] * b[1] + a[1] * b[3], a[0] * b[3] + a[3] * b[0] - a[1] * b[2] + a[2] * b[1]};
}

constexpr int subgroup_rows[3][2] = {{0, 1}, {0, 2}, {1, 2}};

// Re tr(r w) = Re tr(r q) for every r in the SU(2) subgroup: q is the part of w that the subgroup sees.
Quaternion subgroup_part(const Matrix &w, int i, int j) {
    return {(w.e[i][i].real() + w.e[j][j].real()) / 2, (w.e[i][j].imag() + w.e[j][i].imag()) / 2,
            (w.e[i][j].real() - w.e[j][i].real()) / 2, (w.e[i][i].imag() - w.e[j][j].imag()) / 2};
}

// a <- r a, where r acts on the rows i and j.
void rotate_rows(const Quaternion &r, int i, int j, Matrix &a) {
    const Complex diagonal(r[0], r[3]), off(r[2], r[1]);
    for (int k = 0; k < 3; k++) {
        const Complex upper = a.e[i][k], lower = a.e[j][k];
        a.e[i][k] = times(diagonal, upper) + times(off, lower);
        a.e[j][k] = times(std::conj(diagonal), lower) - times(std::conj(off), upper);
    }
}

// x in (-1, 1) with the density sqrt(1 - x^2) exp(alpha x).
double sample_trace(double alpha, LinkRandom &random) {
    // Kennedy and Pendleton's method accepts nearly everything for large alpha and nearly nothing as alpha goes to 0.
    // Plain rejection is the opposite.
    while (alpha < 1) {
        const double x = 2 * random.uniform() - 1;
        if (random.uniform() < std::sqrt(1 - x * x) * std::exp(alpha * (x - 1)))
            return x;
    }
    while (true) {
        const double cosine = std::cos(2 * M_PI * random.uniform());
        const double first = std::log(random.uniform()), second = std::log(random.uniform());
        const double lambda2 = -(first + cosine * cosine * second) / (2 * alpha); // (1 - x) / 2
        const double height = random.uniform();
        if (height * height < 1 - lambda2)
            return 1 - 2 * lambda2;
    }
}

// In SU(2), with the density exp(alpha x_0).
Quaternion sample_su2(double alpha, LinkRandom &random) {
    const double x0 = sample_trace(alpha, random);
    const double length = std::sqrt(std::fmax(0, 1 - x0 * x0));
    const double z = 2 * random.uniform() - 1, angle = 2 * M_PI * random.uniform();
    const double in_plane = length * std::sqrt(1 - z * z);
    return {x0, in_plane * std::cos(angle), in_plane * std::sin(angle), length * z};
}

// Draws a new link with the weight exp(beta/3 Re tr(link * staples)), one SU(2) subgroup after the other.
void heatbath_link(Matrix &link, const Matrix &staples, double beta, LinkRandom random) {
    Matrix w = link * staples;
    for (const auto &[i, j] : subgroup_rows) {
        const Quaternion q = subgroup_part(w, i, j);
        const double k = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        const Quaternion x = sample_su2(2 * beta * k / 3, random); // Re tr(r q) = 2 k x_0 with x = r q / k
        const Quaternion r = k > 0 ? multiply(x, {q[0] / k, -q[1] / k, -q[2] / k, -q[3] / k}) : x;
        rotate_rows(r, i, j, link);
        rotate_rows(r, i, j, w);
    }
}

// r = (q^dagger / k)^2 takes r q / k to the adjoint of q / k: the same trace, hence the same action.
void overrelax_link(Matrix &link, const Matrix &staples) {
    Matrix w = link * staples;
    for (const auto &[i, j] : subgroup_rows) {
        const Quaternion q = subgroup_part(w, i, j);
        const double k2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
        if (k2 == 0)
            continue;
        const double side = -2 * q[0] / k2;
        const Quaternion r{2 * q[0] * q[0] / k2 - 1, side * q[1], side * q[2], side * q[3]};
        rotate_rows(r, i, j, link);
        rotate_rows(r, i, j, w);
    }
}

// sum += a b^dagger
void add_times_adjoint(Matrix &sum, const Matrix &a, const Matrix &b) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                sum.e[i][j] += times(a.e[i][k], std::conj(b.e[j][k]));
}

// sum += a^dagger b
void add_adjoint_times(Matrix &sum, const Matrix &a, const Matrix &b) {
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 3; j++)
                sum.e[i][j] += times(std::conj(a.e[k][i]), b.e[k][j]);
}

// Re tr(link * staple_sum) is the sum of Re tr over the six plaquettes of the link.
Matrix staple_sum(const LinkBox &box, std::size_t site, int mu) {
    const auto link = [&](std::size_t at, int dir) -> const Matrix & { return box.links[4 * at + dir]; };
    const std::size_t forward = box.ahead[4 * site + mu];
    Matrix sum{};
    for (int nu = 0; nu < 4; nu++) {
        if (nu == mu)
            continue;
        const std::size_t up = box.ahead[4 * site + nu], down = box.behind[4 * site + nu];
        const std::size_t down_forward = box.ahead[4 * down + mu];
        add_times_adjoint(sum, link(forward, nu), link(site, nu) * link(up, mu));
        add_adjoint_times(sum, link(down, mu) * link(down_forward, nu), link(down, nu));
    }
    return sum;
}

// Calls update(link, staples, number of the link) for every link. Links of one direction on sites of one parity share
// no plaquette, so they are updated at the same time.
template <class Update> void sweep_links(LinkBox &box, const Update &update) {
    for (int mu = 0; mu < 4; mu++)
        for (const auto &sites : box.own_sites) {
// Dynamic, because with other jobs on the machine equal parts would wait for the slowest thread.
#pragma omp parallel for schedule(dynamic, 64) if (sites.size() > 64)
            for (std::size_t i = 0; i < sites.size(); i++) {
                const std::size_t site = sites[i];
                Matrix &link = box.links[4 * site + mu];
                update(link, staple_sum(box, site, mu), 4 * box.number[site] + mu);
                link = reference::reunitarize(link);
            }
            box.fill(mu);
        }
}

} // namespace

void heatbath_sweep(LinkBox &box, double beta, std::uint64_t seed, int sweep_number) {
    sweep_links(box, [&](Matrix &link, const Matrix &staples, std::size_t index) {
        heatbath_link(link, staples, beta, LinkRandom(seed, sweep_number, index));
    });
}

void overrelax_sweep(LinkBox &box) {
    sweep_links(box, [](Matrix &link, const Matrix &staples, std::size_t) { overrelax_link(link, staples); });
}

void thermalize(LinkBox &box, double beta, std::uint64_t seed, int sweeps, int overrelax_per_sweep,
                const Progress &progress) {
    for (int sweep = 1; sweep <= sweeps; sweep++) {
        heatbath_sweep(box, beta, seed, sweep);
        for (int i = 0; i < overrelax_per_sweep; i++)
            overrelax_sweep(box);
        if (progress)
            progress(sweep, box);
    }
}

Gauge thermalized(const Lattice &lattice, double beta, std::uint64_t seed, int sweeps, int overrelax_per_sweep,
                  const Progress &progress) {
    LinkBox box(layout_on_grid(lattice.n, {1, 1, 1, 1}, 0));
    thermalize(box, beta, seed, sweeps, overrelax_per_sweep, progress);
    return std::move(box.links);
}

} // namespace examples
