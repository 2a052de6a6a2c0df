// The CPU originals of molecular dynamics that call no other original, by tests/reference. They use the links in the
// sites as they are, with phases or without: a wrong state of the phases gives wrong numbers.
#include "fields.h"
#include "tests/reference/forces.h"
#include "tests/reference/gauge_force.h"
#include <cstdlib>
#include <quark_action.h>

using reference::Gauge;

namespace {

Gauge momenta_of_sites() {
    Gauge out(4 * volume);
    for (size_t s = 0; s < volume; ++s)
        for (int mu = 0; mu < 4 && is_mine(s); ++mu) {
            const anti_hermitmat &h = lattice[place(s)].mom[mu];
            reference::Matrix &m = out[4 * s + mu];
            m.e[0][1] = {h.m01.real, h.m01.imag};
            m.e[0][2] = {h.m02.real, h.m02.imag};
            m.e[1][2] = {h.m12.real, h.m12.imag};
            m.e[0][0] = {0, h.m00im}, m.e[1][1] = {0, h.m11im}, m.e[2][2] = {0, h.m22im};
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < i; ++j)
                    m.e[i][j] = -std::conj(m.e[j][i]);
        }
    return of_all_ranks(out);
}

void momenta_to_sites(const Gauge &from) {
    const auto complex = [](reference::Complex z) {
        return complex_number{static_cast<Real>(z.real()), static_cast<Real>(z.imag())};
    };
    for (size_t s = 0; s < volume; ++s)
        for (int mu = 0; mu < 4 && is_mine(s); ++mu) {
            anti_hermitmat &h = lattice[place(s)].mom[mu];
            const reference::Matrix &m = from[4 * s + mu];
            h.m01 = complex(m.e[0][1]), h.m02 = complex(m.e[0][2]), h.m12 = complex(m.e[1][2]);
            h.m00im = m.e[0][0].imag(), h.m11im = m.e[1][1].imag(), h.m22im = m.e[2][2].imag();
        }
}

// a += c b
void add(Gauge &a, double c, const Gauge &b) {
    for (size_t k = 0; k < a.size(); ++k)
        a[k] = a[k] + c * b[k];
}

// The terms of a force, and their outer products.
struct Terms {
    std::vector<reference::Fermion> x;
    std::vector<double> weights;
    Terms(const Real *residues, su3_vector *const *fields, int n) : weights(residues, residues + n) {
        for (int t = 0; t < n; ++t)
            x.push_back(fermion(fields[t]));
    }
    Gauge products(int hops) const { return reference::outer_products(here(), x, weights, hops); }
};

Gauge by_fat(const Gauge &links, const ks_component_paths &p, const Gauge &q) {
    return reference::path_derivative(here(), links, reference::fat_paths, coefficients(p), q);
}
Gauge by_long(const Gauge &links, const ks_component_paths &p, const Gauge &q) {
    return reference::path_derivative(here(), links, reference::long_path, coefficients(p), q);
}

#if FERM_ACTION == HISQ
// MILC's routine takes U, V and W from the auxiliary links.
Gauge derivative(const Gauge &, const Real *residues, su3_vector **xxx, int, fermion_links_t *fl) {
    const ks_action_paths_hisq &ap = fl->aph;
    const hisq_auxiliary_t *const aux = get_hisq_auxiliary(fl);
    const Gauge u = gauge(aux->U_link), v = gauge(aux->V_link), w = gauge(aux->W_unitlink);
    const Terms all(residues, xxx, n_order_naik_total);
    Gauge d = by_fat(w, ap.p2, all.products(1));
    add(d, 1, by_long(w, ap.p2, all.products(3)));
    for (int k = 1, first = n_orders_naik[0]; k < ap.n_naiks; first += n_orders_naik[k++]) {
        const Terms set(residues + first, xxx + first, n_orders_naik[k]);
        add(d, ap.eps_naik[k] * ap.p3.act_path_coeff.one_link, set.products(1));
        add(d, ap.eps_naik[k], by_long(w, ap.p3, set.products(3)));
    }
    for (size_t k = 0; k < d.size(); ++k)
        d[k] = reference::unitary_part_derivative(v[k], d[k], 0);
    return by_fat(u, ap.p1, d);
}
#else
Gauge derivative(const Gauge &u, const Real *residues, su3_vector **xxx, int nterms, fermion_links_t *fl) {
    const Terms all(residues, xxx, nterms);
    Gauge d = by_fat(u, fl->ap.p, all.products(1));
    add(d, 1, by_long(u, fl->ap.p, all.products(3)));
    return d;
}
#endif

int loop_length[] = {4, 6, 6}, loop_num[] = {6, 12, 16};
Real plaquette_coefficient[] = {1}, rectangle_coefficient[] = {-0.08}, bent_coefficient[] = {0.02};
Real *loop_coefficients[] = {plaquette_coefficient, rectangle_coefficient, bent_coefficient};

std::vector<reference::Loops> loops() {
    return {{plaquette_coefficient[0], reference::plaquettes()},
            {rectangle_coefficient[0], reference::rectangles()},
            {bent_coefficient[0], reference::bent_rectangles()}};
}

} // namespace

extern "C" {

Real beta = 6.8;
int n_orders_naik[MAX_NAIK] = {2, 1}, n_order_naik_total = 3, hisq_svd_counter, hisq_force_filter_counter;

int get_nreps(void) { return std::getenv("MILC_HOST_NREPS") != nullptr ? 2 : 1; } // 2: not built for the device
int get_nloop(void) { return 3; }
int *get_loop_length(void) { return loop_length; }
int *get_loop_num(void) { return loop_num; }
Real **get_loop_coeff(void) { return loop_coefficients; }

ks_action_paths *get_action_paths(fermion_links_t *fl) { return &fl->ap; }
ks_action_paths_hisq *get_action_paths_hisq(fermion_links_t *fl) { return &fl->aph; }
int fermion_links_get_n_naiks(fermion_links_t *fl) { return fl->aph.n_naiks; }
double *fermion_links_get_eps_naik(fermion_links_t *fl) { return fl->aph.eps_naik; }

#ifdef MILC_HOST_NEWER
fn_links_t *get_fn_deps_links(fermion_links_t *fl) { return fl->fn_deps; }
fn_links_t *get_fm_links(fermion_links_t *fl, int i_naik) {
    if (i_naik == 0) {
        if (fl->fn[0] != nullptr)
            fl->fn[0]->preserve = 1;
        return fl->fn[0];
    }
    fn_links_t *const fn = create_fn_links();
    const size_t bytes = 4 * sites_on_node * sizeof(su3_matrix);
    fn->fatback = static_cast<su3_matrix *>(std::malloc(bytes));
    fn->lngback = static_cast<su3_matrix *>(std::malloc(bytes));
    scalar_mult_fn(fl->fn_deps, fl->aph.eps_naik[i_naik], fn);
    add_fn(fn, fl->fn[0], fn);
    fn->eps_naik = fl->aph.eps_naik[i_naik];
    return fn;
}
#else
fn_links_t **get_fm_links(fermion_links_t *fl) { return fl->fn; }
#endif

su3_vector *create_v_field_from_site_member(field_offset member) {
    std::printf("a copy of a member of the sites\n");
    auto *const copy = static_cast<su3_vector *>(std::malloc(sites_on_node * sizeof(su3_vector)));
    for (size_t i = 0; i < sites_on_node; ++i)
        copy[i] = *reinterpret_cast<const su3_vector *>(F_PT(&lattice[i], member));
    return copy;
}

int ks_rateval(su3_vector *dest, field_offset src, su3_vector **psim, Real *residues, int order, int parity) {
    const size_t first = parity == EVEN ? 0 : even_sites_on_node;
    const auto real = [](const void *vector, int k) { return static_cast<const Real *>(vector)[k]; };
    for (size_t i = first; i < first + even_sites_on_node; ++i)
        for (int k = 0; k < 6; ++k) {
            Real sum = residues[0] * real(F_PT(&lattice[i], src), k);
            for (int j = 1; j <= order; ++j)
                sum += residues[j] * real(&psim[j - 1][i], k);
            reinterpret_cast<Real *>(&dest[i])[k] = sum;
        }
    return 0;
}

void restore_fermion_links_from_site(fermion_links_t *fl, int) {
    info_t info{};
    if (fl->fn[0] != nullptr)
        return;
    fl->options.want_back = 1;
    su3_matrix *links = create_G_from_site();
    if (FERM_ACTION == HISQ) {
        create_hisq_links_milc(&info, fl->fn, &fl->fn_deps, &fl->aux, &fl->aph, links, 0, 1);
        if (fl->no_aux) {
            destroy_hisq_auxiliary_t(fl->aux);
            fl->aux = nullptr;
        }
    } else {
        fl->fn[0] = create_fn_links();
        load_fn_links_cpu(&info, fl->fn[0], &fl->ap, links, 1);
    }
    std::free(links);
}

fermion_links_t *create_fermion_links_from_site(int prec, int, double *) { // in another file than update_u, as in MILC
    restore_fermion_links_from_site(fn_links, prec);
    return fn_links;
}

void update_u(Real eps) {
    const int order = std::getenv("MILC_HOST_ORDER") != nullptr ? 2 : 8; // a fault that the comparison must find
    to_sites(reference::update_links(links_of_sites(), momenta_of_sites(), eps, order));
    invalidate_fermion_links(fn_links);
}

void imp_gauge_force_cpu(Real eps, field_offset) {
    momenta_to_sites(reference::add_gauge_force(here(), links_of_sites(), loops(), eps * beta / 3, momenta_of_sites()));
}

void imp_gauge_force(Real eps, field_offset mom_off) { imp_gauge_force_cpu(eps, mom_off); }

void eo_fermion_force_multi(Real eps, Real *residues, su3_vector **xxx, int nterms, int, fermion_links_t *fl) {
    const Gauge u = links_of_sites(), d = derivative(u, residues, xxx, nterms, fl);
    Gauge h = momenta_of_sites();
    for (size_t k = 0; k < u.size(); ++k)
        h[k] = h[k] + (2 * eps) * reference::traceless_antihermitian(u[k] * reference::adjoint(d[k]));
    momenta_to_sites(h);
}

// The force of one or two members of the sites, in the file of the routine that they call, like MILC's for HISQ.
static void force_of_members(Real eps, int terms, Real *weights, const field_offset *members, int prec,
                             fermion_links_t *fl) {
    std::vector<su3_vector> fields[2];
    su3_vector *x[2];
    for (int t = 0; t < terms; ++t) {
        for (size_t i = 0; i < sites_on_node; ++i)
            fields[t].push_back(*reinterpret_cast<su3_vector *>(F_PT(&lattice[i], members[t])));
        x[t] = fields[t].data();
    }
    eo_fermion_force_multi(eps, weights, x, terms, prec, fl);
}
void eo_fermion_force_oneterm_site(Real eps, Real weight, field_offset x, int prec, fermion_links_t *fl) {
    force_of_members(eps, 1, &weight, &x, prec, fl);
}
void eo_fermion_force_twoterms_site(Real eps, Real weight1, Real weight2, field_offset x1, field_offset x2, int prec,
                                    fermion_links_t *fl) {
    Real weights[] = {weight1, weight2};
    const field_offset members[] = {x1, x2};
    force_of_members(eps, 2, weights, members, prec, fl);
}
void eo_fermion_force_twoterms_site_cpu(Real eps, Real weight1, Real weight2, field_offset x1, field_offset x2,
                                        int prec, fermion_links_t *fl) {
    eo_fermion_force_twoterms_site(eps, weight1, weight2, x1, x2, prec, fl);
}

// In another file than its callers, as in MILC; else the linker could not wrap it.
void destroy_fn_links(fn_links_t *fn) {
    if (fn == nullptr)
        return;
#ifdef MILC_HOST_NEWER
    if (fn->preserve == 1)
        return;
#endif
    destroy_fn_backlinks(fn);
    std::free(fn->phase);
    std::free(fn->fat);
    std::free(fn->lng);
    std::free(fn);
}

double imp_gauge_action(void) { return reference::gauge_action(here(), links_of_sites(), loops()); }

void rephase(int flag) {
    if (flag == phases_in) {
        std::printf("rephase: already %d\n", flag);
        terminate(1);
    }
    for (size_t i = 0; i < sites_on_node; ++i)
        for (int mu = 0; mu < 4; ++mu)
            for (auto &row : lattice[i].link[mu].e)
                for (complex_number &z : row)
                    z.real *= lattice[i].phase[mu], z.imag *= lattice[i].phase[mu];
    phases_in = flag;
}

void gauge_field_copy(field_offset src, field_offset dest) {
    for (size_t i = 0; i < sites_on_node; ++i)
        for (int mu = 0; mu < 4; ++mu)
            reinterpret_cast<su3_matrix *>(F_PT(&lattice[i], dest))[mu] =
                reinterpret_cast<const su3_matrix *>(F_PT(&lattice[i], src))[mu];
}

void ranmom(void) {
    for (size_t i = 0; i < sites_on_node; ++i)
        for (anti_hermitmat &h : lattice[i].mom)
            random_anti_hermitian(&h, &lattice[i].site_prn);
}

complex ploop(void) {
    const Gauge u = links_of_sites();
    reference::Complex sum = 0;
    for (size_t i = 0; i < volume / nt; ++i)
        sum += reference::trace(reference::along_path(here(), u, int(i), reference::Path(nt, 3))) * double(nt) /
               double(volume);
    return {static_cast<Real>(sum.real()), static_cast<Real>(sum.imag())};
}

int ***get_loop_table(void) {
    static std::vector<reference::Loops> kinds = loops();
    static std::vector<std::vector<int *>> paths(kinds.size());
    static std::vector<int **> table;
    for (size_t k = table.size(); k < kinds.size(); ++k) {
        for (reference::Path &path : kinds[k].paths)
            paths[k].push_back(path.data());
        table.push_back(paths[k].data());
    }
    return table.data();
}

void g_measure(void) {
    const Gauge u = links_of_sites();
    const complex loop = ploop();
    double space, time, action = 0;
    d_plaquette(&space, &time);
    std::printf(MILC_PRECISION == 1 ? "PLAQ:\t%f\t%f\n" : "PLAQ:\t%.16f\t%.16f\n", space, time);
    std::printf("P_LOOP:\t%e\t%e\n", loop.real, loop.imag);
    for (int kind = 0; kind < get_nloop(); ++kind)
        for (int k = 0; k < loop_num[kind]; ++k) {
            const reference::Path path(get_loop_table()[kind][k], get_loop_table()[kind][k] + loop_length[kind]);
            double mean = 0;
            for (size_t i = 0; i < volume; ++i)
                mean += reference::trace(reference::along_path(here(), u, int(i), path)).real() / volume;
            action += loop_coefficients[kind][0] * (3 - mean);
            std::printf("G_LOOP:  %d  %d  %d   ", kind, k, loop_length[kind]);
            std::printf(MILC_PRECISION == 1 ? "\t%e" : "\t%.16e", mean);
            std::printf("\t( ");
            for (const int step : path)
                std::printf("%d ", step);
            std::printf(" )\n");
        }
    std::printf("GACTION: %e\n", action);
    std::fflush(stdout);
}

// CONTINUE: links stay. FRESH: the file's name is the seed, and the links have no phases, like those of a file.
gauge_file *reload_lattice(int flag, file_name file) {
    if (flag == CONTINUE)
        return nullptr;
    if (flag == WARM) {
        double space, time;
        warmlat();
        d_plaquette(&space, &time);
        return nullptr;
    }
    reference::Rng rng(std::strtoul(file, nullptr, 10));
    Gauge u(4 * volume);
    for (reference::Matrix &m : u)
        m = reference::random_near_unit_su3(rng, 0.3);
    to_sites(u);
    return nullptr;
}

} // extern "C"
