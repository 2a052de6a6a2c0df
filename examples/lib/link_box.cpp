#include "examples/lib/link_box.h"
#include <cstring>
#include <stdexcept>
#include <string>

namespace examples {

using reference::Gauge;
using reference::Lattice;
using reference::Matrix;

LinkBox::LinkBox(const milcgpu_layout &box, Swap swap) : swap_(std::move(swap)) {
    const Lattice whole{{box.whole[0], box.whole[1], box.whole[2], box.whole[3]}};
    Lattice all{}; // all sites, with the layer
    std::array<int, 4> layer{};
    for (int mu = 0; mu < 4; ++mu) {
        if (whole.n[mu] < 2 || whole.n[mu] % 2 != 0)
            throw std::invalid_argument("heat bath: extent " + std::to_string(whole.n[mu]) + " in direction " +
                                        std::to_string(mu) + "; extents must be even and at least 2");
        layer[mu] = box.extent[mu] < box.whole[mu];
        all.n[mu] = box.extent[mu] + 2 * layer[mu];
    }
    const std::size_t sites = std::size_t(all.volume());
    links.assign(4 * sites, reference::identity());
    number.resize(sites), ahead.resize(4 * sites), behind.resize(4 * sites);
    for (int site = 0; site < all.volume(); ++site) {
        auto x = all.coordinates(site);
        bool is_own = true;
        for (int mu = 0; mu < 4; ++mu) {
            is_own = is_own && x[mu] >= layer[mu] && x[mu] < layer[mu] + box.extent[mu];
            x[mu] += box.origin[mu] - layer[mu];
            ahead[4 * std::size_t(site) + mu] = all.neighbour(site, mu, 1);
            behind[4 * std::size_t(site) + mu] = all.neighbour(site, mu, -1);
        }
        number[std::size_t(site)] = std::size_t(whole.site(x));
        if (is_own)
            own_sites[std::size_t(x[0] + x[1] + x[2] + x[3]) % 2].push_back(site);
    }
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && layer[mu] != 0; ++side) { // 0: to the rank behind
            Face face{{}, {}, box.neighbour[mu][side], box.neighbour[mu][1 - side]};
            for (int site = 0; site < all.volume(); ++site) {
                const int x = all.coordinates(site)[mu];
                if (x == (side == 0 ? 1 : box.extent[mu]))
                    face.out.push_back(std::size_t(site));
                if (x == (side == 0 ? box.extent[mu] + 1 : 0))
                    face.in.push_back(std::size_t(site));
            }
            faces_.push_back(std::move(face));
        }
}

void LinkBox::load(const std::vector<double> &own) {
    const double *from = own.data();
    for (const auto &sites : own_sites)
        for (const int site : sites) {
            std::memcpy(static_cast<void *>(&links[4 * std::size_t(site)]), from, 4 * sizeof(Matrix));
            from += 72;
        }
    for (int dir = 0; dir < 4; ++dir)
        fill(dir);
}

std::vector<double> LinkBox::own() const {
    std::vector<double> own(72 * (own_sites[0].size() + own_sites[1].size()));
    double *to = own.data();
    for (const auto &sites : own_sites)
        for (const int site : sites) {
            std::memcpy(to, &links[4 * std::size_t(site)], 4 * sizeof(Matrix));
            to += 72;
        }
    return own;
}

void LinkBox::fill(int dir) {
    Gauge out, in;
    for (const Face &face : faces_) {
        out.clear();
        for (const std::size_t site : face.out)
            out.push_back(links[4 * site + dir]);
        in.resize(out.size());
        swap_(out, in, face.to, face.from);
        for (std::size_t k = 0; k < in.size(); ++k)
            links[4 * face.in[k] + dir] = in[k];
    }
}

std::array<double, 2> LinkBox::plaquette_sums() const {
    std::array<long double, 2> sums{};
    std::vector<double> at_site;
    for (int nu = 1; nu < 4; ++nu)
        for (int mu = 0; mu < nu; ++mu)
            for (const auto &sites : own_sites) {
                at_site.resize(sites.size());
#pragma omp parallel for
                for (std::size_t k = 0; k < sites.size(); ++k) {
                    const std::size_t site = std::size_t(sites[k]);
                    const Matrix &right = links[4 * std::size_t(ahead[4 * site + mu]) + nu],
                                 &top = links[4 * std::size_t(ahead[4 * site + nu]) + mu];
                    at_site[k] = trace(links[4 * site + mu] * right * adjoint(links[4 * site + nu] * top)).real() / 3;
                }
                for (const double value : at_site)
                    sums[nu == 3] += value;
            }
    return {double(sums[0]), double(sums[1])};
}

} // namespace examples
