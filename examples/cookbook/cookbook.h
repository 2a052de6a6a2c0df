/* Shared code of the cookbook's programs: a small lattice, random numbers, and a gauge field. */
#include <milcgpu/milcgpu_file.h>
#include <milcgpu/milcgpu_md.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { nx = 4, ny = 4, nz = 4, nt = 8, sites = nx * ny * nz * nt, even_sites = sites / 2 };

/* Ends the program if a call has failed. */
static inline void ok(milcgpu_status status) {
    if (status != MILCGPU_OK) {
        printf("%s: %s\n", milcgpu_status_name(status), milcgpu_last_error());
        exit(1);
    }
}

/* Prints a number and its limit; returns whether the number is within the limit. */
static inline int small(const char *what, double value, double limit) {
    printf("%s: %.2e, allowed %.0e\n", what, value, limit);
    return value >= 0 && value <= limit;
}

static inline void fill_random(double *numbers, size_t count) {
    for (size_t k = 0; k < count; ++k)
        numbers[k] = 2.0 * rand() / RAND_MAX - 1;
}

/* |a - b|^2 / |b|^2 */
static inline double distance(const double *a, const double *b, size_t count) {
    double difference = 0, norm = 0;
    for (size_t k = 0; k < count; ++k)
        difference += (a[k] - b[k]) * (a[k] - b[k]), norm += b[k] * b[k];
    return difference / norm;
}

static inline milcgpu_context *make_context(void) {
    milcgpu_layout layout = {.struct_size = sizeof layout, .extent = {nx, ny, nz, nt}};
    milcgpu_context *context;
    ok(milcgpu_context_create(&layout, NULL, &context));
    return context;
}

typedef double link_field[sites][4][3][3][2];

/* Multiplies staggered phases and boundary sign into links in the library's order of sites, or takes them out. */
static inline void rephase(link_field links) {
    for (int k = 0, parity = 0; parity < 2; ++parity) /* even sites, then odd ones; x fastest */
        for (int t = 0; t < nt; ++t)
            for (int z = 0; z < nz; ++z)
                for (int y = 0; y < ny; ++y)
                    for (int x = 0; x < nx; ++x) {
                        if ((x + y + z + t) % 2 != parity)
                            continue;
                        const int minus[4] = {t % 2, (t + x) % 2, (t + x + y) % 2, t == nt - 1};
                        for (int n = 0; n < 4 * 18; ++n)
                            if (minus[n / 18])
                                (&links[k][0][0][0][0])[n] *= -1;
                        ++k;
                    }
}

/* A gauge field with momenta, the same in every call: unit links with staggered phases and boundary sign, moved by
 * random momenta. Shows the order of sites, the phases, and the format of momenta. */
static inline milcgpu_gauge *make_gauge(milcgpu_context *context) {
    static link_field links;
    static double momenta[sites][4][10];
    for (int n = 0; n < 4 * sites; ++n)
        for (int row = 0; row < 3; ++row)
            links[n / 4][n % 4][row][row][0] = 1;
    rephase(links);
    srand(1);
    fill_random(&momenta[0][0][0], sizeof momenta / sizeof(double));
    for (int k = 0; k < sites; ++k)
        for (int mu = 0; mu < 4; ++mu) /* no trace: the diagonal adds up to 0 */
            momenta[k][mu][8] = -momenta[k][mu][6] - momenta[k][mu][7];
    milcgpu_field u = {links, MILCGPU_DOUBLE, 0}, h = {momenta, MILCGPU_DOUBLE, 0};
    milcgpu_gauge *gauge;
    ok(milcgpu_gauge_create(context, MILCGPU_DOUBLE, &gauge));
    ok(milcgpu_gauge_load(gauge, &u, 0));
    ok(milcgpu_momenta_load(gauge, &h));
    ok(milcgpu_gauge_update(gauge, 0.4, 16, NULL)); /* U = exp(0.4 H) U */
    return gauge;
}

/* The links of make_gauge() without phases, as lattice files have them. */
static inline void make_plain_links(milcgpu_context *context, link_field links) {
    milcgpu_gauge *gauge = make_gauge(context);
    milcgpu_field to = {links, MILCGPU_DOUBLE, 0};
    ok(milcgpu_gauge_save(gauge, &to));
    milcgpu_gauge_destroy(gauge);
    rephase(links);
}

/* Writes the gauge field into a NERSC archive. Links in files have no phases. */
static inline void write_plain_file(const char *path) {
    static link_field links;
    milcgpu_context *context = make_context();
    make_plain_links(context, links);
    const milcgpu_field from = {links, MILCGPU_DOUBLE, 0};
    milcgpu_nersc_spec nersc;
    milcgpu_nersc_defaults(&nersc, sizeof nersc);
    ok(milcgpu_gauge_file_write_nersc(context, path, &from, &nersc, NULL));
    milcgpu_context_destroy(context);
}

/* HISQ links of the gauge field, on the device. *links may be an existing handle. */
static inline void make_hisq(milcgpu_gauge *gauge, milcgpu_links **links) {
    milcgpu_fatlink_spec hisq;
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    const milcgpu_fatlink_set set = {.eps = 0, .links = links};
    ok(milcgpu_gauge_make_links(gauge, &hisq, &set, 1, NULL, NULL));
}
