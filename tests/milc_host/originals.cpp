// The CPU originals: the results of MILC's routines, computed by tests/reference.
#include "fields.h"
#include "tests/reference/staggered.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace {

su3_matrix *new_links() { return static_cast<su3_matrix *>(std::calloc(4 * sites_on_node, sizeof(su3_matrix))); }

su3_matrix *back_links(const su3_matrix *links, int hops) {
    const reference::Gauge from = gauge(links);
    reference::Gauge to(from.size());
    for (size_t s = 0; s < volume; ++s)
        for (int mu = 0; mu < 4; ++mu)
            to[4 * s + mu] = reference::adjoint(from[4 * here().neighbour(s, mu, -hops) + mu]);
    su3_matrix *out = new_links();
    store(to, out);
    return out;
}

} // namespace

extern "C" {

void report_status(quark_invert_control *) {}

int ks_congrad_parity_cpu(su3_vector *src, su3_vector *dest, quark_invert_control *qic, Real mass,
                          imp_ferm_links_t *fn) {
    if (qic->resid * qic->resid <= 0 && qic->relresid * qic->relresid <= 0) { // MILC tests these squares
        qic->final_iters = qic->converged = 1;
        ++total_iters;
        return 1;
    }
    const auto result = reference::conjugate_gradient(here(), gauge(get_fatlinks(fn)), gauge(get_lnglinks(fn)), mass,
                                                      qic->parity == EVEN ? 0 : 1, fermion(src), fermion(dest),
                                                      qic->resid, qic->max * qic->nrestart, qic->max);
    store(result.x, qic->parity, dest);
    qic->final_rsq = qic->size_r = result.residual * result.residual;
    qic->final_relrsq = qic->size_relr = 1;
    qic->final_iters = result.iterations;
    qic->final_restart = result.iterations > 1;
    qic->converged = result.residual < qic->resid;
    total_iters += result.iterations;
    return result.iterations;
}

int ks_congrad_block_parity_cpu(int nsrc, su3_vector **src, su3_vector **dest, quark_invert_control *qic, Real mass,
                                imp_ferm_links_t *fn) {
    int iterations = 0;
    for (int i = 0; i < nsrc; ++i)
        iterations += ks_congrad_parity_cpu(src[i], dest[i], qic, mass, fn);
    return iterations;
}

int ks_congrad_site(field_offset src, field_offset dest, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn) {
    std::vector<su3_vector> b(sites_on_node), x(sites_on_node);
    for (size_t i = 0; i < sites_on_node; ++i) {
        b[i] = *reinterpret_cast<su3_vector *>(F_PT(&lattice[i], src));
        x[i] = *reinterpret_cast<su3_vector *>(F_PT(&lattice[i], dest));
    }
    int iterations = 0;
    const int parity = qic->parity;
    for (const int p : {EVEN, ODD})
        if (parity & p) {
            qic->parity = p;
            iterations += ks_congrad_parity_cpu(b.data(), x.data(), qic, mass, fn);
        }
    qic->parity = parity;
    for (size_t i = 0; i < sites_on_node; ++i)
        *reinterpret_cast<su3_vector *>(F_PT(&lattice[i], dest)) = x[i];
    return iterations;
}

int ks_congrad(field_offset src, field_offset dest, Real mass, int niter, int nrestart, Real rsqmin, int, int parity,
               Real *final_rsq, imp_ferm_links_t *fn) {
    quark_invert_control qic{};
    qic.max = niter;
    qic.nrestart = nrestart;
    qic.parity = parity;
    qic.resid = std::sqrt(rsqmin);
    const int iterations = ks_congrad_site(src, dest, &qic, mass, fn);
    *final_rsq = qic.final_rsq;
    return iterations;
}

int ks_multicg_offset_field_cpu(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets,
                                quark_invert_control *qic, imp_ferm_links_t *fn) {
    int iterations = 0;
    const int before = total_iters;
    if (std::getenv("MILC_HOST_FEWER_STEPS") != nullptr) // a fault that the comparison must find
        --qic[0].max;
    for (int j = 0; j < num_offsets; ++j) {
        for (size_t i = 0; i < sites_on_node; ++i)
            if ((i < even_sites_on_node ? EVEN : ODD) & qic[0].parity)
                psim[j][i] = su3_vector{};
        qic[j].parity = qic[0].parity;
        quark_invert_control shared = qic[j]; // the shared iteration does not restart
        shared.max = qic[0].max * qic[j].nrestart, shared.nrestart = 1;
        const int n = ks_congrad_parity_cpu(src, psim[j], &shared, 0.5 * std::sqrt(ksp[j].offset), fn);
        shared.max = qic[0].max, shared.nrestart = qic[j].nrestart;
        qic[j] = shared;
        iterations = std::max(iterations, n - 1); // without the last true residual
    }
    total_iters = before + iterations;
    const auto smallest = std::min_element(ksp, ksp + num_offsets,
                                           [](const ks_param &a, const ks_param &b) { return a.offset < b.offset; });
    const auto residual = qic[smallest - ksp].final_rsq; // MILC has only this one
    for (int j = 0; j < num_offsets; ++j) {
        qic[j].final_iters = iterations;
        qic[j].final_rsq = qic[j].size_r = residual;
    }
    return iterations;
}

void dslash_fn_field(su3_vector *src, su3_vector *dest, int parity, imp_ferm_links_t *fn) {
    store(reference::dslash(here(), gauge(get_fatlinks(fn)), gauge(get_lnglinks(fn)), fermion(src)), parity, dest);
}

su3_matrix *create_G_from_site(void) {
    su3_matrix *links = new_links();
    for (size_t i = 0; i < sites_on_node; ++i)
        for (int mu = 0; mu < 4; ++mu)
            links[4 * i + mu] = lattice[i].link[mu];
    return links;
}

void init_ferm_links(fn_links_t *fn) { *fn = {}; }

link_phase_info_t *create_link_phase_info(void) {
    return static_cast<link_phase_info_t *>(std::calloc(1, sizeof(link_phase_info_t)));
}

fn_links_t *create_fn_links(void) {
    fn_links_t *fn = static_cast<fn_links_t *>(std::malloc(sizeof(fn_links_t)));
    init_ferm_links(fn);
    fn->phase = create_link_phase_info();
    fn->fat = new_links();
    fn->lng = new_links();
    return fn;
}

void destroy_fn_backlinks(fn_links_t *fn) {
    std::free(fn->fatback);
    std::free(fn->lngback);
    fn->fatback = fn->lngback = nullptr;
}

void load_fn_backlinks(fn_links_t *fn) {
    destroy_fn_backlinks(fn);
    fn->fatback = back_links(fn->fat, 1);
    fn->lngback = back_links(fn->lng, 3);
}

// The sign of the last time slice, for a phase of 1 in t; MILC gets the links before it reads the phases.
// A phase at the boundary of each direction; backward links get its conjugate, as adjoints of forward links do.
void boundary_twist_fn(fn_links_t *fn, int flag) {
    su3_matrix *const fat = get_fatlinks(fn), *const lng = get_lnglinks(fn);
    su3_matrix *const back[2] = {get_fatbacklinks(fn), get_lngbacklinks(fn)};
    const int extent[4] = {nx, ny, nz, nt};
    using Complex = reference::Complex;
    for (int mu = 0; mu < 4; ++mu) {
        const double turn = fn->phase->bdry_phase[mu];
        const Complex phase = turn == 1 ? Complex(-1) : std::polar(1.0, (flag == ON ? M_PI : -M_PI) * turn);
        for (size_t i = 0; i < sites_on_node && turn != 0; ++i) {
            const int place[4] = {lattice[i].x, lattice[i].y, lattice[i].z, lattice[i].t}, x = place[mu];
            const auto twist = [&](su3_matrix *links, bool at_boundary, Complex by) {
                for (int k = 0; links != nullptr && at_boundary && k < 9; ++k) {
                    complex_number &z = links[4 * i + mu].e[k / 3][k % 3];
                    const Complex to = Complex(z.real, z.imag) * by;
                    z = {static_cast<Real>(to.real()), static_cast<Real>(to.imag())};
                }
            };
            twist(fat, x == extent[mu] - 1, phase);
            twist(lng, x >= extent[mu] - 3, phase);
            twist(back[0], x == 0, std::conj(phase));
            twist(back[1], x <= 2, std::conj(phase));
        }
    }
}

void load_fatlinks_cpu(info_t *info, su3_matrix *fat, ks_component_paths *p, su3_matrix *links) {
    info->final_flop = 61632.0 * volume;
    store(reference::fat_links(here(), gauge(links), coefficients(*p)), fat);
}

void load_lnglinks(info_t *info, su3_matrix *lng, ks_component_paths *p, su3_matrix *links) {
    info->final_flop = 1728.0 * volume;
    store(reference::long_links(here(), gauge(links), coefficients(*p)), lng);
}

void load_fn_links_cpu(info_t *info, fn_links_t *fn, ks_action_paths *ap, su3_matrix *links, int want_back) {
    load_fatlinks_cpu(info, fn->fat, &ap->p, links);
    load_lnglinks(info, fn->lng, &ap->p, links);
    info->final_flop = (61632.0 + 1728.0) * volume;
    if (want_back)
        load_fn_backlinks(fn);
}

void fermion_links_want_aux(int) {}

void create_hisq_links_milc(info_t *info, fn_links_t **fn, fn_links_t **fn_deps, hisq_auxiliary_t **aux,
                            ks_action_paths_hisq *ap, su3_matrix *links, int want_deps, int want_back) {
    *aux = static_cast<hisq_auxiliary_t *>(std::calloc(1, sizeof(hisq_auxiliary_t)));
    (*aux)->WeqY = 1;
    (*aux)->U_link = new_links();
    (*aux)->V_link = new_links();
    (*aux)->W_unitlink = (*aux)->Y_unitlink = new_links();
    const reference::Gauge u = gauge(links), v = reference::fat_links(here(), u, coefficients(ap->p1));
    reference::Gauge w;
    for (const reference::Matrix &m : v)
        w.push_back(reference::unitary_part(m));
    store(u, (*aux)->U_link);
    store(v, (*aux)->V_link);
    store(w, (*aux)->W_unitlink);
    for (int k = 0; k < SETS(ap); ++k) {
        fn[k] = create_fn_links();
        fn[k]->eps_naik = k == 0 ? 0 : ap->eps_naik[k];
        reference::PathCoefficients c = coefficients(ap->p2);
        c.one_link += fn[k]->eps_naik * ap->p3.act_path_coeff.one_link;
        c.naik += fn[k]->eps_naik * ap->p3.act_path_coeff.naik;
        store(reference::fat_links(here(), w, c), fn[k]->fat);
        store(reference::long_links(here(), w, c), fn[k]->lng);
        if (want_back)
            load_fn_backlinks(fn[k]);
    }
    *fn_deps = nullptr;
    if (want_deps || SETS(ap) < ap->n_naiks) {
        *fn_deps = create_fn_links();
        load_fatlinks_cpu(info, (*fn_deps)->fat, &ap->p3, (*aux)->W_unitlink);
        load_lnglinks(info, (*fn_deps)->lng, &ap->p3, (*aux)->W_unitlink);
        if (want_back)
            load_fn_backlinks(*fn_deps);
    }
}

void destroy_hisq_auxiliary_t(hisq_auxiliary_t *aux) {
    if (aux == nullptr)
        return;
    std::free(aux->U_link);
    std::free(aux->V_link);
    std::free(aux->Y_unitlink);
    std::free(aux);
}

#ifdef MILC_HOST_NEWER
void destroy_hisq_links_milc(ks_action_paths_hisq *, hisq_auxiliary_t *aux, fn_links_t *fn0, fn_links_t *fn_deps) {
    destroy_hisq_auxiliary_t(aux);
    for (fn_links_t *fn : {fn0, fn_deps})
        if (fn != nullptr) {
            fn->preserve = 0;
            destroy_fn_links(fn);
        }
}
#else
void destroy_hisq_links_milc(ks_action_paths_hisq *ap, hisq_auxiliary_t *aux, fn_links_t **fn, fn_links_t *fn_deps) {
    destroy_hisq_auxiliary_t(aux);
    for (int k = 0; k < ap->n_naiks; ++k)
        destroy_fn_links(fn[k]);
    destroy_fn_links(fn_deps);
}
#endif

// A gauge field with structure, phases in, for the program.
void fill_gauge_field(unsigned long seed) {
    reference::Rng rng(seed);
    reference::Gauge links(4 * volume);
    for (auto &u : links)
        u = reference::random_near_unit_su3(rng, 0.3);
    reference::apply_phases(here(), links);
    std::vector<su3_matrix> packed(4 * sites_on_node);
    store(links, packed.data());
    for (size_t i = 0; i < sites_on_node; ++i)
        for (int mu = 0; mu < 4; ++mu)
            lattice[i].link[mu] = packed[4 * i + mu];
    phases_in = 1;
}

// The coefficients of the program's action.
static ks_component_paths paths_of(const reference::PathCoefficients &c) {
    ks_component_paths p;
    p.act_path_coeff = {static_cast<Real>(c.one_link),     static_cast<Real>(c.naik),
                        static_cast<Real>(c.three_staple), static_cast<Real>(c.five_staple),
                        static_cast<Real>(c.seven_staple), static_cast<Real>(c.lepage)};
    return p;
}

void fill_action(ks_action_paths *asqtad, ks_action_paths_hisq *hisq) {
    asqtad->p = paths_of(reference::asqtad_coefficients(0.9));
    hisq->n_naiks = 2;
    hisq->eps_naik[0] = 0;
    hisq->eps_naik[1] = -0.3;
    hisq->p1 = paths_of(reference::hisq_fat7_coefficients());
    hisq->p2 = paths_of(reference::hisq_asqtad_coefficients());
    hisq->p3 = paths_of({1.0 / 8, -1.0 / 24, 0, 0, 0, 0});
    hisq->umethod = milc_host_umethod();
    hisq->ugroup = milc_host_ugroup();
}

int milc_host_umethod() {
    const char *const other = std::getenv("MILC_HOST_UMETHOD"); // 1: not built for the device
    return other == nullptr ? UNITARIZE_ANALYTIC : std::strcmp(other, "root") == 0 ? UNITARIZE_ROOT : 1;
}
int milc_host_ugroup() { return std::getenv("MILC_HOST_UGROUP") != nullptr ? UNITARIZE_SU3 : UNITARIZE_U3; }

} // extern "C"
