// Quark propagators and hadron correlators on a gauge field, by the C interface alone.
//
// A source eta of colour c is 1 on some sites of a time slice, in colour c; G_c = M^-1 eta_c with M = 2m + D. Summed
// over a time slice, with h = x - origin:
//     pion      sum_x sum_c |G_c(x)|^2                                 (pion5, G5-G5: the Goldstone)
//     rho       mean over k = x, y, z of sum_x (-1)^(h_k) sum_c |G_c|^2  (rhox, rhoy, rhoz, Gk-Gk: the local VT)
//     nucleon   Re sum over x with even x, y, z of det [G_0 G_1 G_2] = epsilon_abc G_0a G_1b G_2c
// without further factors, as in MILC's ks_spectrum. The nucleon is summed over the origins of 2^3 cubes (Golterman,
// Smit, Nucl. Phys. B 255 (1985) 328). On slices beyond the boundary in time, as seen from the source, its sign is
// reversed, because each of its three quarks is antiperiodic.
//
// An octet is eight quarks. The source of quark s is 1 on the sites of a slice whose x, y, z have the parities of
// corner s. Octets go from the solver to their correlators on the device.
#pragma once
#include "examples/lib/effective_mass.h"
#include "examples/lib/system.h"
#include "milc_glue/api/milcgpu_baryons.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include <functional>
#include <memory>

namespace examples {

enum Hadron { pion, rho, nucleon, n_hadrons };
constexpr const char *hadron_names[n_hadrons] = {"pion", "rho", "nucleon"};

enum class Wall {
    corner, // origins of the 2^3 cubes of a slice: MILC's corner_wall
    even,   // even x + y + z: even_wall on even slices
    full    // all: evenandodd_wall
};

struct HadronSpec {
    bool wall, smeared; // the sources to use
    Wall shape;
    bool fix_gauge;    // Coulomb gauge; a wall source needs it
    double width;      // of the Gaussian at source and sink, with hops of two links
    int smear_steps;   // steps of the Gaussian
    double tolerance;  // |eta - M G| / |eta|
    PrecisionPair how; // precisions of the solves
    // Called during long work: its name, the step, and a measure of progress.
    std::function<void(const char *what, int step, double value)> progress;
};

// The larger number; NaN counts as the largest.
inline double worse(double a, double b) { return b <= a || a != a ? a : b; }

// For the three colours of a source.
struct HadronResult {
    Correlator of[n_hadrons];
    int steps;       // of conjugate gradient
    double residual; // the largest |eta - M G| / |eta|, in double
    // The error of Goldstone's Ward identity, sum_x |G|^2 = Re <eta, G> / 2m. With M^dag M = 4 m^2 - D^2 the identity
    // holds to the residual.
    double ward, ward_limit; // relative difference; the limit from residual and rounding
    double norm;             // largest relative difference, over slices, of the pion from |G|^2 summed on the host
};

class Hadrons {
  public:
    enum Part { gauge_fixing, links, smearing, solves, residuals, contractions, octets, baryons, n_parts };
    static constexpr const char *part_names[n_parts] = {"gauge fixing",    "links",        "smearing", "solves",
                                                        "D and residuals", "contractions", "octets",   "baryons"};

    // All ranks must call each function. Functions throw std::runtime_error with the library's message.
    Hadrons(const Job &ranks, const reference::Lattice &lattice, Action action, int backend, HadronSpec spec);

    struct Loaded {
        double plaquette;
        int fix_steps; // 0: the gauge is not fixed
        double fix_mean;
        bool free; // all links are 1
    };
    // gauge: this rank's links without phases, in MILC's order.
    Loaded load(std::vector<double> gauge);

    // All sources of the specification on a time slice: the wall first, then the smeared point (0, 0, 0, slice).
    void make_sources(int slice);
    // One result per source. For the smeared source the sink is smeared, too.
    std::vector<HadronResult> measure(double mass);

    template <class Handle> using Owned = std::unique_ptr<Handle, void (*)(Handle *)>;
    struct Octet {
        Owned<milcgpu_vectors> quarks{nullptr, milcgpu_vectors_destroy}; // three colours for each corner
        int steps = 0;
        double residual = 0; // the largest |eta - M G| / |eta|
    };
    Octet make_octet(double mass, int slice);
    // The memory of so many different octets, one or two, and of all their tie-ups: the library's table.
    std::string octets_plan(int octets) const;
    // For two quarks of `light` and one of `other`: correlators of the operators 16+ M1/2 of all classes, [source
    // class] [sink class][t], in time from the source.
    static constexpr const char *classes[] = {"2", "3", "41", "42", "61", "62", "7"};
    std::vector<Correlator> golterman_bailey(const Octet &light, const Octet &other, int slice);

    const char *device_name() const { return milcgpu_context_device_name(context_.get()); }
    const double *seconds() const { return seconds_; } // of each part, since the start

  private:
    using Field = std::vector<double>;
    template <class Work> void timed(Part part, const Work &work);
    template <class Sum> Field slice_sums(const Sum &of_site) const; // of_site(k): a number of the k-th site
    double norm2(const Field &v, bool even_sites_only = false) const;
    void apply_d(Field &from, Field &to, int parity); // on one parity
    std::vector<Field> wall_source(int slice) const;
    std::vector<Field> smeared_source(int slice);
    std::vector<HadronResult> solve(double mass, std::vector<Field> &g);
    void contract(std::vector<Field> &g, size_t first, bool smeared, HadronResult &result);

    const Job &ranks_;
    reference::Lattice lattice_;
    Action action_;
    HadronSpec spec_;
    std::vector<std::array<int, 4>> sites_; // in the order of this rank's fields
    size_t even_ = 0;                       // number of even sites, which come first
    Owned<milcgpu_context> context_{nullptr, milcgpu_context_destroy};
    Owned<milcgpu_gauge> gauge_{nullptr, milcgpu_gauge_destroy};
    Owned<milcgpu_links> links_{nullptr, milcgpu_links_destroy};
    Owned<milcgpu_meson_links> meson_links_{nullptr, milcgpu_meson_links_destroy};
    Owned<milcgpu_vectors> quarks_{nullptr, milcgpu_vectors_destroy}; // the three colours of a source
    std::vector<Field> eta_;                                          // three colours per source
    int slice_ = 0;
    double seconds_[n_parts] = {};
};

} // namespace examples
