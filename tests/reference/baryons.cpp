#include "tests/reference/baryons.h"
#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>

namespace reference {

namespace {

int sign_of(const Triple &p) {
    int sign = 1;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            sign *= p[i] > p[j] ? 1 : -1;
    return sign;
}

std::vector<Triple> permutations() {
    std::vector<Triple> all;
    Triple p{0, 1, 2};
    do
        all.push_back(p);
    while (std::next_permutation(p.begin(), p.end()));
    return all;
}

Triple permuted(const Triple &k, const Triple &p) { return {k[p[0]], k[p[1]], k[p[2]]}; }

Matrix at_site(const Propagator &q, int site) {
    Matrix m;
    for (int c = 0; c < 3; c++)
        for (int a = 0; a < 3; a++)
            m.e[c][a] = q[c][site].c[a];
    return m;
}

bool in_corner(const std::array<int, 4> &x, int corner) {
    for (int mu = 0; mu < 3; mu++)
        if (x[mu] % 2 != (corner >> mu & 1))
            return false;
    return true;
}

} // namespace

Propagator congruent_propagator(const Lattice &lattice, unsigned seed) {
    Propagator q;
    uint32_t x = seed;
    const auto next = [&x] {
        x = (1103515245u * x + 12345u) & 0x7fffffffu;
        return double(float(int(x >> 12) % 1999 - 999) / 1000.0f);
    };
    for (Fermion &field : q) {
        field.resize(lattice.volume());
        for (Vector &v : field)
            for (Complex &z : v.c) {
                const double re = next();
                z = {re, next()};
            }
    }
    return q;
}

Propagator shifted(const Lattice &lattice, const Propagator &q, int corner, bool one_sided) {
    std::vector<int> directions;
    for (int mu = 0; mu < 3; mu++)
        if (corner >> mu & 1)
            directions.push_back(mu);
    Propagator total;
    for (Fermion &field : total)
        field.resize(lattice.volume());
    int orders = 0;
    do {
        Propagator step = q;
        for (const int mu : directions)
            for (Fermion &field : step) {
                const Fermion before = field;
                for (int site = 0; site < lattice.volume(); site++) {
                    const Vector ahead = before[lattice.neighbour(site, mu, 1)];
                    field[site] = one_sided ? ahead : 0.5 * (ahead + before[lattice.neighbour(site, mu, -1)]);
                }
            }
        for (int c = 0; c < 3; c++)
            for (int site = 0; site < lattice.volume(); site++)
                total[c][site] = total[c][site] + step[c][site];
        orders++;
    } while (std::next_permutation(directions.begin(), directions.end()));
    for (Fermion &field : total)
        for (Vector &v : field)
            v = (1.0 / orders) * v;
    return total;
}

Complex tie(const Matrix &p, const Matrix &q, const Matrix &r) {
    Complex sum = 0;
    static const std::vector<Triple> all = permutations();
    for (const Triple &c : all)
        for (const Triple &a : all)
            sum += double(sign_of(c) * sign_of(a)) * times(p.e[c[0]][a[0]], times(q.e[c[1]][a[1]], r.e[c[2]][a[2]]));
    return sum;
}

namespace {

// Of shifted propagators.
std::vector<Complex> tie_shifted(const Lattice &lattice, const std::array<const Propagator *, 3> &q,
                                 const SliceOfSites &sites) {
    std::vector<Complex> sums(lattice.n[3]);
    std::vector<std::array<Matrix, 3>> walls(lattice.n[3]);
    const bool moving = sites.p != std::array<int, 3>{};
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        if (!in_corner(x, sites.corner))
            continue;
        if (sites.wall)
            for (int f = 0; f < 3; f++)
                walls[x[3]][f] = walls[x[3]][f] + at_site(*q[f], site);
        else
            sums[x[3]] += times(moving ? momentum_factor(lattice, site, sites.p, sites.parity, sites.origin) : 1.0,
                                tie(at_site(*q[0], site), at_site(*q[1], site), at_site(*q[2], site)));
    }
    for (int t = 0; sites.wall && t < lattice.n[3]; t++)
        sums[t] = tie(walls[t][0], walls[t][1], walls[t][2]);
    return sums;
}

} // namespace

std::vector<Complex> tie_up(const Lattice &lattice, const std::array<const Octet *, 3> &octets, const Triple &source,
                            const Triple &sink, const SliceOfSites &sites) {
    std::array<Propagator, 3> q;
    for (int f = 0; f < 3; f++)
        q[f] = shifted(lattice, (*octets[f])[source[f]], sink[f], sites.one_sided);
    return tie_shifted(lattice, {&q[0], &q[1], &q[2]}, sites);
}

std::vector<Complex> nucleon(const Lattice &lattice, const std::array<const Propagator *, 3> &q) {
    std::vector<Complex> sums(lattice.n[3]);
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        if (!in_corner(x, 0))
            continue;
        Matrix rows;
        for (int c = 0; c < 3; c++)
            std::copy_n((*q[c])[c][site].c, 3, rows.e[c]);
        sums[x[3]] += det(rows);
    }
    return sums;
}

std::vector<Complex> delta(const Lattice &lattice, const Propagator &q) {
    std::vector<Complex> sums(lattice.n[3]);
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        if (!in_corner(x, 0))
            continue;
        for (const Triple &p : permutations()) {
            Matrix rows;
            for (int j = 0; j < 3; j++) {
                const Vector both = q[p[j]][lattice.neighbour(site, j, 1)] + q[p[j]][lattice.neighbour(site, j, -1)];
                std::copy_n(both.c, 3, rows.e[j]);
            }
            sums[x[3]] += sign_of(p) * det(rows).real();
        }
    }
    return sums;
}

namespace {

using Factors = std::vector<double>;
const Factors A{1, 1, 1}, B{1, -1, 1}, C{1, 1, -2}, D{1, -1, -2}, one{1}, two{1, 1}, off{1, -1}, minus{-1, -1};

// Prefactors of the corner triples of an operator.
const std::map<std::string, Factors> factors{
    {"8 S 1", one},   {"8 S 2", A},     {"8 S 3", A},        {"8 S 5", one},     {"8 S 6", B},      {"8' S 4", B},
    {"8' S 7", one},  {"16+ S 2", C},   {"16+ S 3", C},      {"16+ S 4", minus}, {"16+ S 6", D},    {"16- S 2", off},
    {"16- S 3", off}, {"16- S 4", D},   {"16- S 6", two},    {"8 A 4", A},       {"8 A 6", B},      {"8 A 7", one},
    {"16+ A 4", C},   {"16+ A 6", D},   {"16- A 4", off},    {"16- A 6", two},   {"8 M 2", A},      {"8 M 3", A},
    {"8 M 41", A},    {"8 M 5", one},   {"8 M 61", B},       {"8 M 62", B},      {"8' M 41", B},    {"16+ M 2", C},
    {"16+ M 3", C},   {"16+ M 41", C},  {"16+ M 42", minus}, {"16+ M 61", D},    {"16+ M 62", D},   {"16+ M 7", off},
    {"16- M 2", off}, {"16- M 3", off}, {"16- M 41", off},   {"16- M 42", D},    {"16- M 61", two}, {"16- M 62", two},
    {"16- M 7", two}};

const std::map<int, std::vector<Triple>> corners{{1, {{0, 0, 0}}},
                                                 {2, {{0, 1, 1}, {0, 2, 2}, {0, 4, 4}}},
                                                 {3, {{0, 6, 6}, {0, 5, 5}, {0, 3, 3}}},
                                                 {4, {{6, 4, 2}, {5, 4, 1}, {3, 2, 1}}},
                                                 {5, {{7, 7, 0}}},
                                                 {6, {{7, 6, 1}, {7, 5, 2}, {7, 3, 4}}},
                                                 {7, {{6, 5, 3}, {5, 6, 3}}}};

char symmetry_of(const std::string &name) { return name[name.find(' ') + 1]; }

std::vector<Weighted> base(const std::string &name) {
    const auto found = factors.find(name);
    if (found == factors.end())
        throw std::invalid_argument(name);
    const int number = std::stoi(name.substr(name.rfind(' '))), of = number > 9 ? number / 10 : number;
    const bool mixed = symmetry_of(name) == 'M';
    double norm = 0;
    for (const double p : found->second)
        norm += p * p;
    std::vector<Weighted> list;
    for (size_t j = 0; j < found->second.size(); j++) {
        const double w = found->second[j] / std::sqrt(norm);
        const Triple k = corners.at(of)[j], crossed = {k[0], k[2], k[1]};
        if (mixed && of == 4) {
            const bool minus_sign = name == "8 M 41" || name == "16+ M 41" || name == "16- M 41";
            list.push_back({w / std::sqrt(2.0), k});
            list.push_back({(minus_sign ? -w : w) / std::sqrt(2.0), crossed});
        } else if (mixed && number == 62) {
            list.push_back({w, crossed});
        } else if (mixed && (of == 5 || of == 7)) {
            list.push_back({w, {k[2], k[0], k[1]}});
        } else {
            list.push_back({w, k});
        }
    }
    return list;
}

const Triple cyclic[] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
const double projector[] = {2, -1, -1};

} // namespace

std::vector<Weighted> gb_source(const std::string &name, bool has_current) {
    std::vector<Weighted> list;
    for (const Weighted &one : base(name)) {
        if (symmetry_of(name) != 'M')
            for (const Triple &p : permutations())
                list.push_back(
                    {(symmetry_of(name) == 'A' ? sign_of(p) : 1) * one.weight / 6, permuted(one.corners, p)});
        for (int j = 0; symmetry_of(name) == 'M' && j < 3; j++) {
            const Triple q = permuted(one.corners, cyclic[j]);
            const double w = projector[j] * one.weight;
            if (!has_current) {
                list.push_back({w, q});
            } else {
                list.push_back({w, {q[0], q[2], q[1]}});
                list.push_back({w, {q[1], q[2], q[0]}});
            }
        }
    }
    return list;
}

std::vector<Weighted> gb_sink(const std::string &name, bool flip, bool whole) {
    std::vector<Weighted> list;
    for (Weighted one : base(name)) {
        for (int &k : one.corners)
            k ^= flip ? 7 : 0;
        const Triple &k = one.corners, exchanged = {k[1], k[0], k[2]};
        if (symmetry_of(name) == 'M') {
            for (const Triple &first : {k, exchanged})
                for (int j = 0; j < (whole ? 3 : 1); j++)
                    list.push_back({(whole ? projector[j] : 3) * one.weight, permuted(first, cyclic[j])});
        } else if (symmetry_of(name) == 'S' && !whole) {
            list.push_back(one);
        } else {
            for (const Triple &p : permutations())
                list.push_back({(symmetry_of(name) == 'A' ? sign_of(p) : 1) * one.weight / 6, permuted(k, p)});
        }
    }
    return list;
}

Current gb_current(const std::string &label) {
    if (label == "2point")
        return {};
    const std::string names[] = {"GX",  "GY",  "GZ",  "GT",  "G5",  "GYZ", "GZX", "GXY",
                                 "GXT", "GYT", "GZT", "G5X", "G5Y", "G5Z", "G5T", "G1"};
    const int bits[] = {1, 2, 4, 8, 15, 6, 5, 3, 9, 10, 12, 14, 13, 11, 7, 0};
    const auto bits_of = [&](const std::string &name) {
        return bits[std::find(std::begin(names), std::end(names), name) - std::begin(names)];
    };
    const size_t hyphen = label.find('-');
    int spin = bits_of(label.substr(0, hyphen)), taste = bits_of(label.substr(hyphen + 1));
    int signs = taste & 8 ? 7 : 0;
    spin &= 7, taste &= 7;
    // Of one bit, its direction; of two, the direction that is missing.
    const std::map<int, int> axis{{1, 0}, {6, 0}, {2, 1}, {5, 1}, {4, 2}, {3, 2}};
    const int eta[] = {0, 1, 3}, zeta[] = {6, 4, 0}, step = spin ^ taste,
              links = (step & 1) + (step >> 1 & 1) + (step >> 2);
    const bool points = axis.count(spin) == 1;
    if (links > 1)
        signs ^= 2;
    if (taste == 0 || taste == 7) {
        if ((links == 1 || links == 2) && points)
            signs ^= eta[axis.at(spin)];
    } else if (links == 0 || links == 3) {
        signs ^= 7 ^ (points ? 1 << axis.at(spin) : 0);
    } else if (!points) {
        signs ^= zeta[axis.at(taste)];
    } else {
        signs ^= 7 ^ eta[axis.at(spin)] ^ 1 << axis.at(taste);
    }
    return {step, signs};
}

std::vector<Complex> gb_correlator(const Lattice &lattice, const std::array<const Octet *, 3> &octets,
                                   const std::string &source, const std::string &sink, const std::string &current,
                                   bool cube, bool flip, bool whole, const SliceOfSites &sites) {
    const Current through = gb_current(current);
    const auto from = gb_source(source, current != "2point"), to = gb_sink(sink, flip, whole);
    std::map<Triple, Propagator> kept; // by flavour, source corner and sink corner
    const auto quark = [&](int f, int corner, int shift) -> const Propagator * {
        const auto [at, is_new] = kept.try_emplace({f, corner, shift});
        if (is_new)
            at->second = shifted(lattice, (*octets[f])[corner], shift, sites.one_sided);
        return &at->second;
    };
    std::vector<Complex> sum(lattice.n[3]);
    for (int o = 0; o < (cube ? 8 : 1); o++) {
        const int both = through.signs & o;
        const double sign = (both ^ both >> 1 ^ both >> 2) & 1 ? -1 : 1;
        const bool mixed = symmetry_of(sink) == 'M';
        const int moved = mixed ? o ^ through.displacement : o;
        SliceOfSites here = sites;
        here.corner = (mixed ? o : o ^ through.displacement) ^ (flip ? 7 : 0);
        for (const Weighted &s : from)
            for (const Weighted &k : to) {
                std::array<const Propagator *, 3> q;
                for (int f = 0; f < 3; f++)
                    q[f] = quark(f, s.corners[f] ^ moved, k.corners[f]);
                const auto one = tie_shifted(lattice, q, here);
                for (size_t t = 0; t < one.size(); t++)
                    sum[t] += sign * s.weight * k.weight / 36 * one[t];
            }
    }
    return sum;
}

} // namespace reference
