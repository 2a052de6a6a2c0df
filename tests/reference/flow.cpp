#include "tests/reference/flow.h"
#include "tests/reference/gauge_force.h"

namespace reference {

namespace {

constexpr double pi = 3.14159265358979323846;

int back(int mu) { return 7 - mu; }

double re_tr(const Matrix &a) { return trace(a).real(); }

// (sum of four leaves - h.c.) / 8, traceless.
Matrix clover(const Lattice &lattice, const Gauge &u, int site, int mu, int nu) {
    const Matrix sum = along_path(lattice, u, site, {mu, nu, back(mu), back(nu)}) +
                       along_path(lattice, u, site, {nu, back(mu), back(nu), mu}) +
                       along_path(lattice, u, site, {back(mu), back(nu), mu, nu}) +
                       along_path(lattice, u, site, {back(nu), mu, nu, back(mu)});
    Matrix f = 0.125 * (sum - adjoint(sum));
    const Complex third = trace(f) / 3.0;
    for (int k = 0; k < 3; ++k)
        f.e[k][k] -= third;
    return f;
}

} // namespace

FlowObservables flow_observables(const Lattice &lattice, const Gauge &u) {
    FlowObservables o{};
    for (int site = 0; site < lattice.volume(); ++site) {
        Matrix f[4][4];
        for (int mu = 0; mu < 4; ++mu)
            for (int nu = mu + 1; nu < 4; ++nu) {
                f[mu][nu] = clover(lattice, u, site, mu, nu);
                const double clover = -re_tr(f[mu][nu] * f[mu][nu]),
                             plaquette = re_tr(along_path(lattice, u, site, {mu, nu, back(mu), back(nu)})),
                             rectangles =
                                 re_tr(along_path(lattice, u, site, {mu, mu, nu, back(mu), back(mu), back(nu)})) +
                                 re_tr(along_path(lattice, u, site, {mu, nu, nu, back(mu), back(nu), back(nu)}));
                (nu == 3 ? o.clover_t : o.clover_s) += clover;
                (nu == 3 ? o.plaquette_t : o.plaquette_s) += plaquette;
                (nu == 3 ? o.rectangle_t : o.rectangle_s) += rectangles;
            }
        o.charge -= re_tr(f[0][1] * f[2][3]) - re_tr(f[0][2] * f[1][3]) + re_tr(f[1][2] * f[0][3]);
    }
    const double sites = lattice.volume();
    o.clover_t /= sites, o.clover_s /= sites;
    o.plaquette_t /= 3 * sites, o.plaquette_s /= 3 * sites;
    o.rectangle_t /= 6 * sites, o.rectangle_s /= 6 * sites;
    o.charge /= 4 * pi * pi;
    return o;
}

Gauge flow_derivative(const Lattice &lattice, const Gauge &u, const FlowAction &action) {
    Gauge z(u.size());
    for (int site = 0; site < lattice.volume(); ++site)
        for (int mu = 0; mu < 4; ++mu) {
            Matrix staples{};
            for (int nu = 0; nu < 4; ++nu) {
                if (nu == mu)
                    continue;
                const double weight = nu == 3 ? action.time_weight : 1;
                for (const int there : {nu, back(nu)}) {
                    const int again = back(there), home = back(mu);
                    staples = staples + (weight * action.plaquette) * along_path(lattice, u, site, {there, mu, again});
                    if (action.rectangle == 0)
                        continue;
                    for (const Path &path : {Path{there, there, mu, again, again}, Path{there, mu, mu, again, home},
                                             Path{home, there, mu, mu, again}})
                        staples = staples + (weight * action.rectangle) * along_path(lattice, u, site, path);
                }
            }
            z[4 * site + mu] = traceless_antihermitian(u[4 * site + mu] * adjoint(staples));
        }
    return z;
}

Matrix exponential(const Matrix &a) {
    int halvings = 0;
    double size = frobenius_norm(a);
    for (; size > 0.1; size /= 2)
        ++halvings;
    const Matrix small = std::ldexp(1.0, -halvings) * a;
    Matrix sum = identity(), term = identity();
    for (int k = 1; k < 20; ++k) {
        term = (1.0 / k) * (term * small);
        sum = sum + term;
    }
    for (int k = 0; k < halvings; ++k)
        sum = sum * sum;
    return sum;
}

Gauge move(const Gauge &links, const Gauge &z, double factor) {
    Gauge moved(links.size());
    for (std::size_t k = 0; k < links.size(); ++k)
        moved[k] = exponential(factor * z[k]) * links[k];
    return moved;
}

Gauge luescher_step(const Lattice &lattice, const Gauge &w0, const FlowAction &action, double eps) {
    const auto combined = [](double a, const Gauge &x, double b, const Gauge &y, double c, const Gauge &z) {
        Gauge sum(x.size());
        for (std::size_t k = 0; k < x.size(); ++k)
            sum[k] = a * x[k] + b * y[k] + c * z[k];
        return sum;
    };
    const Gauge z0 = flow_derivative(lattice, w0, action);
    const Gauge w1 = move(w0, z0, -eps / 4);
    const Gauge z1 = flow_derivative(lattice, w1, action);
    const Gauge w2 = move(w1, combined(8.0 / 9, z1, -17.0 / 36, z0, 0, z0), -eps);
    const Gauge z2 = flow_derivative(lattice, w2, action);
    return move(w2, combined(3.0 / 4, z2, -8.0 / 9, z1, 17.0 / 36, z0), -eps);
}

Gauge stout(const Lattice &lattice, const Gauge &u, double rho, int directions) {
    Gauge smeared = u;
    for (int site = 0; site < lattice.volume(); ++site)
        for (int mu = 0; mu < directions; ++mu) {
            Matrix c{};
            for (int nu = 0; nu < directions; ++nu)
                if (nu != mu)
                    c = c + rho * (along_path(lattice, u, site, {nu, mu, back(nu)}) +
                                   along_path(lattice, u, site, {back(nu), mu, nu}));
            const Matrix omega = c * adjoint(u[4 * site + mu]), difference = adjoint(omega) - omega;
            Matrix iq = -0.5 * difference;
            const Complex third = trace(iq) / 3.0;
            for (int k = 0; k < 3; ++k)
                iq.e[k][k] -= third;
            smeared[4 * site + mu] = exponential(iq) * u[4 * site + mu];
        }
    return smeared;
}

Gauge constant_flux(const Lattice &lattice, int n_xy, int n_zt) {
    Gauge links = unit_gauge(lattice);
    const auto turn = [&](int site, int mu, double angle) {
        links[4 * site + mu].e[0][0] *= std::polar(1.0, angle);
        links[4 * site + mu].e[1][1] *= std::polar(1.0, -angle);
    };
    for (int site = 0; site < lattice.volume(); ++site) {
        const auto x = lattice.coordinates(site);
        for (const int mu : {0, 2}) {
            const int nu = mu + 1;
            const double angle = 2 * pi * (mu == 0 ? n_xy : n_zt) / (lattice.n[mu] * lattice.n[nu]);
            turn(site, nu, angle * x[mu]);
            if (x[mu] == lattice.n[mu] - 1)
                turn(site, mu, -angle * lattice.n[mu] * x[nu]);
        }
    }
    return links;
}

Gauge instanton(const Lattice &lattice, double rho) {
    Gauge links(4 * std::size_t(lattice.volume()));
    for (int site = 0; site < lattice.volume(); ++site)
        for (int mu = 0; mu < 4; ++mu) {
            Matrix link = identity();
            constexpr int parts = 8;
            for (int part = 0; part < parts; ++part) {
                double y[4], y2 = 0;
                for (int nu = 0; nu < 4; ++nu) {
                    y[nu] = lattice.coordinates(site)[nu] - lattice.n[nu] / 2 + 0.5;
                    if (nu == mu)
                        y[nu] += (part + 0.5) / parts;
                    y2 += y[nu] * y[nu];
                }
                // A^a_mu = 2 rho^2 eta^a_mu,nu y_nu / (y^2 (y^2 + rho^2)), 't Hooft's symbols: eta^a_bc = epsilon_abc,
                // eta^a_b4 = -delta_ab
                double a[3] = {};
                for (int k = 0; k < 3; ++k) {
                    const int l = (k + 1) % 3, m = (k + 2) % 3;
                    if (mu == l)
                        a[k] = y[m];
                    else if (mu == m)
                        a[k] = -y[l];
                    else if (mu == k)
                        a[k] = -y[3];
                    else
                        a[k] = y[k];
                    a[k] *= 2 * rho * rho / (y2 * (y2 + rho * rho)) / parts;
                }
                // exp(-i a sigma / 2): U carries the end of the link to its beginning.
                const Complex i(0, -0.5);
                Matrix exponent{};
                exponent.e[0][0] = i * a[2], exponent.e[1][1] = -i * a[2];
                exponent.e[0][1] = i * Complex(a[0], -a[1]), exponent.e[1][0] = i * Complex(a[0], a[1]);
                link = link * exponential(exponent);
            }
            links[4 * site + mu] = link;
        }
    return links;
}

} // namespace reference
