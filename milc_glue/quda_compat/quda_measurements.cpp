// Measurements of quda_milc_interface.h: covariant shifts, spin-taste operators, two-link Gaussian smearing,
// contractions, one field per call. Links are those of the call and are recognized by their content.
#include "gpu_kernels/measure/spin_taste.h"
#include "milc_glue/quda_compat/internal.h"
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <utility>
#include <vector>

using namespace milcgpu::quda;

namespace {

// The result of a call, and the error in its arguments.
struct Call {
    const char *function;
    int precision;
    void *result;
    size_t reals;
    char wrong[200] = "";

    __attribute__((format(printf, 3, 4))) void refuse_unless(bool good, const char *pattern, ...) {
        if (good || wrong[0] != '\0')
            return;
        va_list numbers;
        va_start(numbers, pattern);
        std::vsnprintf(wrong, sizeof wrong, pattern, numbers);
        va_end(numbers);
    }
    // If the call was not done, which is logged, the result is NaN.
    template <class Work> void run(const Work &work) {
        refuse_unless(lattice.ranks > 0, "called before qudaInit");
        if (wrong[0] != '\0')
            complain(function, wrong);
        if (wrong[0] != '\0' || !done(function, precision, work))
            fill_with_nan(result, reals, result_precision);
    }
    int result_precision = precision;
};

Call call_on_quark(const char *function, int precision, void *result) {
    Call call{function, precision, result, lattice.ranks > 0 ? 6 * lattice.sites() : 0};
    call.refuse_unless(precision == 1 || precision == 2, "precision is %d: must be 1 (float) or 2 (double)", precision);
    return call;
}

milcgpu_field quark(const void *field, int precision) { return packed(const_cast<void *>(field), precision); }

} // namespace

extern "C" {

void qudaShift(int external_precision, int, const void *links, const void *src, void *dest, int dir, int sym,
               int reload_links) {
    Call call = call_on_quark(__func__, external_precision, dest);
    call.refuse_unless(links != nullptr && src != nullptr && dest != nullptr, "links and fields must not be NULL");
    call.refuse_unless(dir >= 0 && dir <= 3 && sym >= 1 && sym <= 3,
                       "dir is %d, sym %d: must be from 0 (x) to 3 (t), and 1 (forward), 2 (backward) or 3 (both)", dir,
                       sym);
    call.run([&] {
        if (reload_links != 0)
            milcgpu_plugin_expect_links(links, 1);
        return milcgpu_plugin_shift(links, dir, sym - 1, quark(src, external_precision),
                                    quark(dest, external_precision)) != 0;
    });
}

void milcgpu_quda_origin(const int of_operator[4]) {
    std::copy_n(of_operator, 4, state.measurement.origin);
    state.measurement.has_origin = true;
}

void qudaSpinTaste(int external_precision, int, const void *links, const void *src, void *dest, int spin, int taste,
                   int reload_links) {
    if (!state.measurement.has_origin) {
        if (!std::exchange(state.measurement.absence_was_logged, true))
            complain(__func__, "no origin is given: coordinates of the operators count from 0 0 0 0, which gives wrong "
                               "signs for a source with an odd coordinate");
        std::fill_n(state.measurement.origin, 4, 0);
    }
    state.measurement.has_origin = false;
    Call call = call_on_quark(__func__, external_precision, dest);
    call.refuse_unless(spin >= 0 && spin < 16 && taste >= 0 && taste < 16,
                       "spin is %d, taste %d: must be from 0 to 15, sums of 1 x, 2 y, 4 z, 8 t", spin, taste);
    const bool is_local = spin == taste;
    call.refuse_unless(src != nullptr && dest != nullptr && (is_local || links != nullptr),
                       "fields must not be NULL, nor the links of an operator that is not local");
    for (int mu = 0; mu < 4; ++mu)
        call.refuse_unless(state.measurement.origin[mu] >= 0 && state.measurement.origin[mu] < lattice.box.whole[mu],
                           "the origin's %c is %d: must be from 0 to %d", "xyzt"[mu], state.measurement.origin[mu],
                           lattice.box.whole[mu] - 1);
    call.run([&] {
        if (reload_links != 0 && !is_local)
            milcgpu_plugin_expect_links(links, 1);
        return milcgpu_plugin_spin_taste(is_local ? nullptr : links, 1, nullptr, nullptr,
                                         milcgpu::spin_taste_index(spin, taste), state.measurement.origin,
                                         quark(src, external_precision), quark(dest, external_precision)) != 0;
    });
}

void qudaTwoLinkGaussianSmear(int external_precision, int, const void *links, void *field,
                              QudaTwoLinkQuarkSmearArgs_t arguments) {
    Call call = call_on_quark(__func__, external_precision, field);
    const bool again = arguments.compute_2link == 0;
    call.refuse_unless(field != nullptr && (again || links != nullptr), "links and field must not be NULL");
    call.refuse_unless(arguments.n_steps >= 0 && arguments.width >= 0 && std::isfinite(arguments.width),
                       "n_steps is %d, width %g: must not be negative", arguments.n_steps, arguments.width);
    call.refuse_unless(arguments.n_steps == 0 || arguments.width > 0,
                       "width is 0: MILC's own smearing divides by its square. Take a larger one, or no steps");
    call.refuse_unless(arguments.t0 >= -1 && arguments.t0 < lattice.box.whole[3],
                       "t0 is %d: must be from 0 to %d, or -1 for all", arguments.t0, lattice.box.whole[3] - 1);
    call.refuse_unless(arguments.laplaceDim == 3, "laplaceDim is %d: 3 is built", arguments.laplaceDim);
    const void *const with = again ? state.measurement.smeared_with : links;
    // Whether there are links to use or to read, on all ranks.
    const auto can = [&] {
        const bool here = with != nullptr && (with == links || milcgpu_plugin_expect_links(with, 0) != 0);
        return milcgpu_plugin_agreed(!here) == 0;
    };
    call.refuse_unless(!again || can(), "compute_2link is 0, and there are no two-link products: call it with 1 first");
    call.run([&] {
        if (!can()) {
            complain("qudaTwoLinkGaussianSmear", "the two-link products are lost, and compute_2link is 0");
            return false;
        }
        milcgpu_plugin_expect_links(with, again ? 0 : 1);
        return milcgpu_plugin_gauss_smear(with, arguments.width, arguments.n_steps, arguments.t0,
                                          quark(field, external_precision)) != 0;
    });
    state.measurement.smeared_with = arguments.delete_2link != 0 || call.wrong[0] != '\0' ? nullptr : with;
}

void qudaFreeTwoLink(void) { state.measurement.smeared_with = nullptr; }

void qudaContractFT(int external_precision, QudaContractArgs_t *arguments, const void *quark1, const void *quark2,
                    double *correlators) {
    if (arguments == nullptr || correlators == nullptr || arguments->n_mom < 1 || arguments->mom_modes == nullptr ||
        arguments->fft_type == nullptr || arguments->source_position == nullptr) {
        complain(__func__,
                 "arguments and correlators must not be NULL, nor the lists of at least one momentum: nothing "
                 "is done");
        return;
    }
    const int n = arguments->n_mom;
    const size_t reals = lattice.ranks > 0 ? size_t(2) * n * lattice.box.whole[3] : 0;
    const double start = milcgpu_plugin_seconds();
    Call call{__func__, external_precision, correlators, reals};
    call.result_precision = 2;
    call.refuse_unless(quark1 != nullptr && quark2 != nullptr, "fields must not be NULL");
    for (int k = 0; k < n; ++k) {
        call.refuse_unless(arguments->mom_modes[4 * k + 3] == 0, "momentum %d has a part %d in t: must be 0", k,
                           arguments->mom_modes[4 * k + 3]);
        for (int mu = 0; mu < 3; ++mu)
            call.refuse_unless(arguments->fft_type[4 * k + mu] >= 1 && arguments->fft_type[4 * k + mu] <= 3,
                               "fft_type of momentum %d is %d in %c: must be 1 (sine), 2 (cosine) or 3 (both)", k,
                               static_cast<int>(arguments->fft_type[4 * k + mu]), "xyz"[mu]);
    }
    for (int mu = 0; mu < 4; ++mu) {
        const int x = arguments->source_position[mu], n_mu = lattice.box.whole[mu];
        call.refuse_unless(x >= 0 && x < n_mu, "source_position's %c is %d: must be from 0 to %d", "xyzt"[mu], x,
                           n_mu - 1);
    }
    call.run([&] {
        const int as_they_are = milcgpu::spin_taste_index("pion5"); // both fields without signs
        std::vector<milcgpu_momentum> momenta(n);
        std::vector<milcgpu_meson_term> terms;
        for (int k = 0; k < n; ++k) {
            std::copy_n(&arguments->mom_modes[4 * k], 3, momenta[k].p);
            std::copy_n(&arguments->fft_type[4 * k], 3, momenta[k].parity);
            terms.push_back({as_they_are, k, 0, 1, k});
        }
        milcgpu_meson_spec spec{};
        spec.struct_size = sizeof spec;
        std::copy_n(arguments->source_position, 4, spec.origin);
        spec.n_momenta = spec.n_terms = spec.n_correlators = n;
        spec.momenta = momenta.data();
        spec.terms = terms.data();
        const void *const no_links[2] = {nullptr, nullptr};
        return milcgpu_plugin_contract(nullptr, 1, no_links, no_links, &spec, quark(quark1, external_precision),
                                       quark(quark2, external_precision), correlators) != 0;
    });
    arguments->flops = 26.0 * n * lattice.whole_sites(); // as MILC counts
    arguments->dtime = milcgpu_plugin_seconds() - start;
}

} // extern "C"
