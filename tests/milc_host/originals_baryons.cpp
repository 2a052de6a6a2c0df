// The CPU originals of baryons, by tests/reference.
#include "fields.h"
extern "C" {
#include "../include/imp_ferm_links.h"
#ifndef MILC_HOST_MASTER
#include "../include/gb_ops.h"
#endif
}
#include "tests/reference/baryons.h"
#include <cstring>

namespace {

reference::Propagator propagator(const ks_prop_field *q) {
    return {fermion(q->v[0]), fermion(q->v[1]), fermion(q->v[2])};
}

// Adds to MILC's row: all of it on the first rank, which MILC adds up.
void add(const std::vector<reference::Complex> &from, int phase, double factor, complex *row) {
    const reference::Complex phases[] = {1, {0, 1}, -1, {0, -1}};
    for (int t = 0; t < nt && this_node == 0; ++t) {
        const reference::Complex z = factor * phases[phase] * from[t];
        row[t].real += static_cast<Real>(z.real()), row[t].imag += static_cast<Real>(z.imag());
    }
}

} // namespace

extern "C" {

ks_prop_field *create_ksp_field(int nc) {
    auto *const made = static_cast<ks_prop_field *>(std::malloc(sizeof(ks_prop_field)));
    made->nc = nc;
    made->v = static_cast<su3_vector **>(std::malloc(nc * sizeof(su3_vector *)));
    for (int c = 0; c < nc; ++c)
        made->v[c] = static_cast<su3_vector *>(std::calloc(sites_on_node, sizeof(su3_vector)));
    return made;
}
double dclock() { return 0; }
void print_timing(double, const char *str) {
    if (this_node == 0)
        std::printf("Time for %s\n", str);
}

void ks_baryon_nd(complex *prop[], ks_prop_field *qp0, ks_prop_field *qp1, ks_prop_field *qp2, int num_corr_b,
                  int types[], int phase[], Real fact[]) {
    const reference::Propagator q[3] = {propagator(qp0), propagator(qp1), propagator(qp2)};
    for (int k = 0; k < num_corr_b; ++k) {
        if (types[k] == 1 && (qp0 != qp1 || qp0 != qp2) && this_node == 0)
            std::printf("WARNING: No provision for non-degenerate deltas!\n");
        add(types[k] == 0 ? reference::nucleon(here(), {&q[0], &q[1], &q[2]}) : reference::delta(here(), q[0]),
            phase[k], fact[k], prop[k]);
    }
}

} // extern "C"

#ifndef MILC_HOST_MASTER

namespace {

// As the reference names them, in MILC's order.
const char *const operators[] = {
    "8 S 1",   "8 S 2",   "8 S 3",    "8 S 5",    "8 S 6",    "8' S 4",   "8' S 7",   "16+ S 2",  "16+ S 3",
    "16+ S 4", "16+ S 6", "16- S 2",  "16- S 3",  "16- S 4",  "16- S 6",  "8 A 4",    "8 A 6",    "8 A 7",
    "16+ A 4", "16+ A 6", "16- A 4",  "16- A 6",  "8 M 2",    "8 M 3",    "8 M 41",   "8 M 5",    "8 M 61",
    "8 M 62",  "8' M 41", "16+ M 2",  "16+ M 3",  "16+ M 41", "16+ M 42", "16+ M 61", "16+ M 62", "16+ M 7",
    "16- M 2", "16- M 3", "16- M 41", "16- M 42", "16- M 61", "16- M 62", "16- M 7"};
static_assert(sizeof operators / sizeof *operators == MAX_GB_BARYON, "");

std::string current_of(int index) {
    const char *const gammas[] = {"X",  "Y",  "Z",  "T",  "5",  "YZ", "ZX", "XY",
                                  "XT", "YT", "ZT", "5X", "5Y", "5Z", "5T", "1"};
    if (index == GB_2POINT_BACKPROP)
        return "2point";
    return std::string("G") + gammas[(index - 128) / 16] + "-G" + gammas[(index - 128) % 16];
}

mmap_cache *slots[3];

// MILC's cache lacks the corners 0 and 7 of source and sink.
bool has_sinks(int op) { return std::strchr("47", std::strrchr(operators[op], ' ')[1]) != nullptr; }

// cached: with the corners of the slots. milcs_flip: -1, or which sites point sinks have.
void tie_up(ks_prop_field **const (&octets)[3], bool cached, int milcs_flip, bool whole, enum gb_baryon_op src_op[],
            enum gb_baryon_op snk_op[], int current, short dowall[], short docube[], int r0[], int mom[], char par[],
            int flip_snk[], int n, int phase[], Real fact[], complex *prop[]) {
    reference::Octet q[3];
    for (int f = 0; f < 3; ++f)
        for (int s = 0; s < 8; ++s) {
            const ks_prop_field *const corner = cached ? slots[f]->corners[s] : octets[f][s];
            q[f][s] = corner != nullptr ? propagator(corner)
                                        : reference::Propagator{reference::Fermion(volume), reference::Fermion(volume),
                                                                reference::Fermion(volume)};
        }
    for (int k = 0; k < n; ++k) {
        reference::SliceOfSites sites;
        sites.wall = dowall[k] != 0;
        for (int mu = 0; mu < 3; ++mu)
            sites.p[mu] = mom[mu], sites.parity[mu] = " OEB"[static_cast<int>(par[mu])], sites.origin[mu] = r0[mu];
        std::vector<reference::Complex> row(nt);
        if (!cached || has_sinks(snk_op[k]))
            row = reference::gb_correlator(here(), {&q[0], &q[1], &q[2]}, operators[src_op[k]], operators[snk_op[k]],
                                           current_of(current), docube[k] != 0, flip_snk[k] != 0, whole, sites);
        if (milcs_flip >= 0 && !sites.wall && milcs_flip != flip_snk[k])
            row[0] += 1; // of other sites
        add(row, phase[k], fact[k], prop[k]);
    }
}

} // namespace

extern "C" {

char *gb_baryon_label(enum gb_baryon_op op) { return const_cast<char *>(operators[op]); }
enum gb_sym_type gb_get_sym_type(enum gb_baryon_op op) {
    const char symmetry = std::strchr(operators[op], ' ')[1];
    return symmetry == 'S' ? GBSYM_SYM : symmetry == 'A' ? GBSYM_ANTISYM : GBSYM_MIXED;
}

void create_qk_oct_cache(ks_prop_field **qko, int qknum, int *, su3_matrix *) {
    slots[qknum] = static_cast<mmap_cache *>(std::calloc(1, sizeof(mmap_cache)));
    for (int s = 1; s < 7; ++s) {
        if (qko[s] == nullptr)
            std::abort();
        slots[qknum]->corners[s] = create_ksp_field(3);
        for (int c = 0; c < 3; ++c)
            std::memcpy(slots[qknum]->corners[s]->v[c], qko[s]->v[c], sites_on_node * sizeof(su3_vector));
    }
}
void destroy_qk_oct_cache(int qknum) {
    for (ks_prop_field *corner : slots[qknum]->corners)
        if (corner != nullptr) {
            for (int c = 0; c < 3; ++c)
                std::free(corner->v[c]);
            std::free(corner->v);
            std::free(corner);
        }
    std::free(slots[qknum]);
}
mmap_cache *get_qk_cache_pointer(int qknum) { return slots[qknum]; }
void assign_qk_cache_pointer(mmap_cache *qcache, int qknum) { slots[qknum] = qcache; }

void gb_baryon(ks_prop_field *qko0[], ks_prop_field *qko1[], ks_prop_field *qko2[], su3_matrix *,
               enum gb_baryon_op src_op[], enum gb_baryon_op snk_op[], int stIdx, short dowall[], short docube[], int,
               int, int r0[], int mom[], char par[], complex *, int flip_snk[], int num_corr_gb, int phase[],
               Real fact[], complex *prop[]) {
    static int milcs_flip = -1;
    for (int k = 0; k < num_corr_gb; ++k) {
        if (milcs_flip < 0 && !dowall[k])
            milcs_flip = flip_snk[k];
        if (this_node == 0)
            std::printf("gb baryon: %s %s\nTime for computing correlator\n", operators[src_op[k]],
                        operators[snk_op[k]]);
    }
#ifdef GB_BARYON_MMAP
    const bool cached = true;
#else
    const bool cached = false;
#endif
    tie_up({qko0, qko1, qko2}, cached, milcs_flip, false, src_op, snk_op, stIdx, dowall, docube, r0, mom, par, flip_snk,
           num_corr_gb, phase, fact, prop);
}
// Without MILC's faults. Absent corners count as 0.
void right_gb_baryon(ks_prop_field *qko0[], ks_prop_field *qko1[], ks_prop_field *qko2[], int whole,
                     enum gb_baryon_op src_op[], enum gb_baryon_op snk_op[], int stIdx, short dowall[], short docube[],
                     int r0[], int mom[], char par[], int flip_snk[], int num_corr_gb, int phase[], Real fact[],
                     complex *prop[]) {
    tie_up({qko0, qko1, qko2}, false, -1, whole != 0, src_op, snk_op, stIdx, dowall, docube, r0, mom, par, flip_snk,
           num_corr_gb, phase, fact, prop);
}

void blind_vdcomplex(dcomplex v[], int veclen) {
    for (int k = 0; k < veclen; ++k)
        v[k].real *= 3, v[k].imag *= 3;
}

} // extern "C"
#endif
