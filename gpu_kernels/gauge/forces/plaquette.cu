// Means of the plaquettes and of the Polyakov loop. One thread a site and plane; one a site of space. Matrices a site,
// at the least: 4 read; 1 read.
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

namespace {

template <Precision p> struct Plaquettes {
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u;
    MILCGPU_HD Sums<2> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0, 0}};
        const int parity = item.parity, mu = plane(item.part).mu, nu = plane(item.part).nu;
        const Site x = lattice.site(parity, item.i);
        const auto right = u.load(parity, mu, item.i) * u.load(1 - parity, nu, lattice.hop(x, mu, 1).index());
        const auto left = u.load(parity, nu, item.i) * u.load(1 - parity, mu, lattice.hop(x, nu, 1).index());
        const double trace = real_trace_adjoint(right, left);
        return {{nu < 3 ? trace : 0, nu < 3 ? 0 : trace}};
    }
};

template <class T> MILCGPU_HD Sums<2> trace_of(const Matrix<T> &m) {
    Sums<2> trace = {};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        trace.v[0] += m.e[k][k].re;
        trace.v[1] += m.e[k][k].im;
    }
    return trace;
}

// The even sites of the first two time slices are the first sites of their parity, as many as a slice has sites.
template <Precision p> struct PolyakovLoop {
    Lattice lattice;
    MatrixView<p> u;
    MILCGPU_HD Sums<2> operator()(int i) const {
        Site x = lattice.site(0, i);
        auto product = u.load(0, 3, i);
        for (int t = 1; t < lattice.extent[3]; ++t) {
            x = lattice.hop(x, 3, 1);
            product = product * u.load(t & 1, 3, x.index());
        }
        return trace_of(product);
    }
};

// This rank's part of each line in time, and how parts are joined. One thread a site of space.
template <Precision p> struct PartsOfLines {
    Lattice lattice;
    MatrixView<p> u;
    Matrix<double> *parts;
    MILCGPU_HD void operator()(int k) const {
        int parity = (lattice.origin_parity + parity_of_coordinates(k)) % 2, lexicographic = k;
        Matrix<double> product = convert<double>(u.load(parity, 3, lexicographic / 2));
        for (int t = 1; t < lattice.extent[3]; ++t) {
            lexicographic += lattice.stride_lexicographic[3], parity = 1 - parity;
            product = product * convert<double>(u.load(parity, 3, lexicographic / 2));
        }
        parts[k] = product;
    }

  private:
    MILCGPU_HD int parity_of_coordinates(int k) const {
        int sum = 0;
        for (int mu = 0; mu < 3; ++mu) {
            sum += k % lattice.extent[mu];
            k /= lattice.extent[mu];
        }
        return sum % 2;
    }
};
struct JoinLines {
    Matrix<double> *lines;
    const Matrix<double> *parts;
    MILCGPU_HD void operator()(int k) const { lines[k] = lines[k] * parts[k]; }
};
struct TracesOfLines {
    const Matrix<double> *lines;
    bool count;
    MILCGPU_HD Sums<2> operator()(int k) const { return count ? trace_of(lines[k]) : Sums<2>{}; }
};

} // namespace

double plaquettes_bytes(Precision p) { return 4 * link_bytes(p, 18); }
double polyakov_loop_bytes(Precision p) { return link_bytes(p, 18); }

PlaquetteMeans plaquettes(Device &device, const WideBox &box, const LinkField &u) {
    const SitesAndParts work = box.work(planes);
    Sums<2> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const Plaquettes<precision> body{box.wide().lattice(), work, MatrixView<precision>(u)};
        sums = sum_to_host<2>(device, work.threads(), body, "plaquettes");
    });
    const double count = planes / 2 * box.box().global_volume();
    return {sums.v[0] / count, sums.v[1] / count};
}

Complex<double> polyakov_loop(Device &device, const Geometry &geometry, const LinkField &u) {
    const int space = geometry.volume() / geometry.lattice().extent[3]; // sites of this rank
    const double all = geometry.global_volume() / geometry.lattice().extent[3];
    Sums<2> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const PolyakovLoop<precision> body{geometry.lattice(), MatrixView<precision>(u)};
        sums = sum_to_host<2>(device, space, body, "Polyakov loop");
    });
    return {sums.v[0] / all, sums.v[1] / all};
}

Complex<double> polyakov_loop(Device &device, const Geometry &geometry, const LinkField &u, Halo &halo,
                              int ranks_of_a_line) {
    const int space = geometry.volume() / geometry.lattice().extent[3];
    DeviceArray<Matrix<double>> lines, parts;
    queue_of(device).collective("memory for a Polyakov loop", [&] {
        lines = {device, static_cast<size_t>(space), "Polyakov loop"};
        parts = {device, static_cast<size_t>(space), "Polyakov loop"};
    });
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        launch(device, space, PartsOfLines<precision>{geometry.lattice(), MatrixView<precision>(u), lines.data()},
               "parts of lines");
    });
    queue_of(device).copy_on_device(parts.data(), lines.data(), parts.bytes());
    for (int k = 1; k < ranks_of_a_line; ++k) {
        halo.from_ahead(3, parts.data(), parts.data(), parts.bytes());
        launch(device, space, JoinLines{lines.data(), parts.data()}, "join lines");
    }
    const TracesOfLines body{lines.data(), geometry.origin()[3] == 0};
    const Sums<2> sums = sum_to_host<2>(device, space, body, "Polyakov loop");
    const double all = geometry.global_volume() / geometry.global_extents()[3];
    return {sums.v[0] / all, sums.v[1] / all};
}

} // namespace milcgpu
