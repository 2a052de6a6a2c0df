// The C interface to contractions of Dirac fields (gpu_kernels/wilson/contract.h).
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/machine/geometry/places.h"
#include "gpu_kernels/wilson/contract.h"
#include "milc_glue/api/members.h"
#include "milc_glue/measure/meson_links_handle.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace milcgpu;

namespace {

constexpr int spins = 4, colours = 3, open_numbers = 144;
constexpr size_t vector_reals = 6, dirac_reals = spins * vector_reals; // of one site in the host's memory

GammaBasis checked_basis(int basis) {
    if (basis != MILCGPU_GAMMAS_MILC && basis != MILCGPU_GAMMAS_DEGRAND_ROSSI)
        refuse(format("basis is %d: must be MILCGPU_GAMMAS_MILC (0) or MILCGPU_GAMMAS_DEGRAND_ROSSI (1)", basis));
    return static_cast<GammaBasis>(basis);
}

Gamma checked_gamma(GammaBasis basis, int k, const char *what) {
    if (k < 0 || k >= gamma_matrices)
        refuse(format("%s is %d: gamma matrices have numbers from 0 to %d", what, k, gamma_matrices - 1));
    return gamma_of(basis, k);
}

// Fields with `sources` spins at the source.
struct DiracField {
    Device &device;
    const Geometry &geometry;
    SpinorField even, odd;
    DiracField(milcgpu_context &context, Precision p, int sources)
        : device(*context.device), geometry(context.geometry),
          even(*context.device, p, context.geometry.without_ghosts(), 0, "Dirac fields", sources, spins),
          odd(*context.device, p, context.geometry.without_ghosts(), 1, "Dirac fields", sources, spins) {}
    FullVectors vectors() const { return {even, odd}; }
    // Throws if a site holds NaN or infinity.
    void load(SpinorReorder &reorder, const HostField &from, const char *what, Verification &verification) const {
        for (int k = 0; k < even.sources(); ++k) {
            HostField vector = from;
            vector.data = static_cast<unsigned char *>(from.data) + k * dirac_reals * real_bytes(from.real);
            reorder.to_device(vector, 0, even[k]);
            reorder.to_device(vector, 1, odd[k]);
        }
        verification.loaded(even), verification.loaded(odd);
        for (const auto &[field, parity] : {std::pair(&even, 0), std::pair(&odd, 1)})
            for (int k = 0; k < field->sources(); ++k) {
                const long long bad = first_not_finite(device, (*field)[k]);
                const long long places = static_cast<long long>(field->stride() / spins);
                if (bad >= 0)
                    throw Error(Status::nan_or_inf, format("%s: the site %s holds NaN or infinity", what,
                                                           place_of_site(geometry, parity, bad % places).c_str()));
            }
    }
};

bool same(const HostField &a, const HostField &b) {
    return a.data == b.data && a.real == b.real && a.pitch_bytes == b.pitch_bytes;
}

void check_precision(const HostField &field, const HostField &first, const char *what) {
    if (field.real != first.real)
        refuse(format("%s is in %s precision, the first field is in %s: they must agree", what, name(field.real),
                      name(first.real)));
}

struct HostPair {
    HostField phi{}, psi{};
    HostPair(const milcgpu_field *left, const milcgpu_field *right)
        : phi(host_field(left, dirac_reals, "phi")), psi(host_field(right, dirac_reals, "psi")) {
        check_precision(psi, phi, "psi");
    }
};

// phi and psi on the device; one field if they are the same.
class FieldPair {
  public:
    FieldPair(milcgpu_context &context, Precision p, int sources, bool two)
        : reorder_(*context.device, context.map, context.geometry, spins), context_(context) {
        left_.emplace(context, p, sources);
        if (two)
            right_.emplace(context, p, sources);
    }
    void load(const HostField &phi, const char *left, const HostField &psi, const char *right) {
        two_ = !same(phi, psi);
        verification_.emplace(context_);
        left_->load(reorder_, phi, left, *verification_);
        if (two_)
            right_->load(reorder_, psi, right, *verification_);
    }
    // Call it after the last read, before anything is returned. Throws if the fields are no longer what was loaded.
    void must_hold() const { verification_->loaded_must_hold(); }
    FullVectors phi() const { return left_->vectors(); }
    FullVectors psi() const { return (two_ ? right_ : left_)->vectors(); }

  private:
    SpinorReorder reorder_;
    milcgpu_context &context_;
    std::optional<Verification> verification_;
    std::optional<DiracField> left_, right_;
    bool two_ = false;
};

// Reals on the device that are copied to the host in the same order.
class RawNumbers {
  public:
    RawNumbers() = default;
    RawNumbers(Device &device, size_t reals, Precision p) {
        const size_t vectors = (reals + vector_reals - 1) / vector_reals;
        memory_ = {device, vectors * spinor_bytes(p), "numbers of sites"};
        device.fill_zero(memory_.data(), memory_.bytes());
        all_.data = memory_.data();
        all_.stride = vectors, all_.sites = static_cast<int>(vectors);
        all_.source_bytes = memory_.bytes(), all_.sources = 1;
        all_.precision = p;
    }
    unsigned char *data() const { return memory_.data(); }
    bool finite(Device &device) const { return first_not_finite(device, all_) < 0; } // treated as colour vectors

  private:
    DeviceArray<unsigned char> memory_;
    SpinorBlock all_;
};

// ---- mesons

struct MesonPlan {
    std::vector<Momentum> momenta;
    std::vector<GammaPair> pairs; // that differ
    std::vector<int> pair_of;     // of each term
    std::vector<HostField> src1, src2;
    bool two = false; // src1 and src2 differ somewhere
    Precision precision() const { return src1[0].real; }
};

MesonPlan checked(CallArguments &call, const milcgpu_context &context, const milcgpu_dirac_meson_spec &spec, bool open,
                  int n, const milcgpu_field *src1, const milcgpu_field *src2) {
    check_origin(context.geometry, spec.origin, 3);
    const GammaBasis basis = static_cast<GammaBasis>(spec.basis);
    MesonPlan plan;
    plan.momenta = momenta_of(spec.n_momenta, spec.momenta);
    for (int k = 0; k < spec.n_terms; ++k) {
        const milcgpu_dirac_term &term = spec.terms[k];
        check_term(term, k, spec);
        const Gamma in = checked_gamma(basis, term.in, format("spec.terms[%d].in", k).c_str());
        const Gamma out = open ? unit_gamma() : checked_gamma(basis, term.out, format("spec.terms[%d].out", k).c_str());
        // tr[in S2 out g5 S1^dag g5] = sum (g5 in)_rs (out g5)_nm conj(S1_rm) S2_sn
        const GammaPair pair = {gamma_5() * in, transpose(out * gamma_5())};
        size_t known = 0;
        while (known < plan.pairs.size() && !(plan.pairs[known].in == pair.in && plan.pairs[known].out == pair.out))
            ++known;
        if (known == plan.pairs.size())
            plan.pairs.push_back(pair);
        plan.pair_of.push_back(static_cast<int>(known));
    }
    call("n", n, from_to(1, 1000)), call.given("src1", src1), call.given("src2", src2);
    for (int k = 0; k < n; ++k) {
        const std::string left = format("src1[%d]", k), right = format("src2[%d]", k);
        plan.src1.push_back(host_field(&src1[k], spins * dirac_reals, left.c_str()));
        plan.src2.push_back(host_field(&src2[k], spins * dirac_reals, right.c_str()));
        check_precision(plan.src1[k], plan.src1[0], left.c_str());
        check_precision(plan.src2[k], plan.src1[0], right.c_str());
        plan.two = plan.two || !same(plan.src1[k], plan.src2[k]);
    }
    call("the precision of src1", int(plan.precision()));
    return plan;
}

// Calls make(sums, phi, psi, plan) for each propagator and adds the results: [momentum][pair][number][t of the box],
// `numbers` of them per pair.
struct MesonCall {
    const char *function;
    bool open;
    int n;
    const milcgpu_field *src1, *src2;
    double *correlators;
};
template <class Make>
milcgpu_status sum_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *given, const MesonCall &of,
                          const Make &make) {
    return timed_call(context, of.function, [&](milcgpu_context &c) {
        const size_t numbers = of.open ? open_numbers : 1;
        Device &device = *c.device;
        MesonPlan plan;
        milcgpu_dirac_meson_spec spec{};
        same_on_all_ranks(c, of.function, [&](CallArguments &call) {
            spec = call.copy_of("spec", given);
            plan = checked(call, c, spec, of.open, of.n, of.src1, of.src2);
            call.given("correlators", of.correlators);
        });
        const auto text = [terms = spec.n_terms, pairs = plan.pairs.size(), momenta = spec.n_momenta, n = of.n] {
            return format("%d mesons of %zu pairs of gamma matrices, %d momenta, %d propagators", terms, pairs, momenta,
                          n);
        };
        if (spec.n_terms == 0)
            return text;
        std::vector<Complex<double>> found;
        device.collective("contraction of Dirac fields", [&] {
            FieldPair fields(c, plan.precision(), spins, plan.two);
            DiracSums sums(device, c.geometry, plan.momenta, spec.origin);
            found.clear();
            for (int k = 0; k < of.n; ++k) {
                fields.load(plan.src1[k], format("src1[%d]", k).c_str(), plan.src2[k], format("src2[%d]", k).c_str());
                const std::vector<Complex<double>> one = make(sums, fields.phi(), fields.psi(), plan);
                fields.must_hold();
                found.resize(one.size());
                for (size_t j = 0; j < one.size(); ++j)
                    found[j] = found[j] + one[j];
            }
        });
        // Sums of the box, then of all boxes.
        const int n_t = c.geometry.lattice().extent[3], begin = c.geometry.origin()[3],
                  times = c.geometry.global_extents()[3];
        std::vector<Complex<double>> added(size_t(spec.n_correlators) * times * numbers);
        for (int k = 0; k < spec.n_terms; ++k) {
            const milcgpu_dirac_term &term = spec.terms[k];
            const size_t first = (term.momentum * plan.pairs.size() + plan.pair_of[k]) * numbers;
            for (int t = 0; t < n_t; ++t)
                for (size_t j = 0; j < numbers; ++j) {
                    Complex<double> &to = added[(size_t(term.correlator) * times + begin + t) * numbers + j];
                    to = to + term.factor * times_i(found[(first + j) * n_t + t], term.phase);
                }
        }
        add_correlators(device, added, "src1 and src2", of.correlators);
        return text;
    });
}

// MILC's open mesons, in the order of sum_mesons.
std::vector<Complex<double>> open_mesons(DiracSums &sums, const FullVectors &phi, const FullVectors &psi,
                                         const MesonPlan &plan) {
    const size_t momenta = plan.momenta.size(), pairs = plan.pairs.size();
    std::vector<Complex<double>> found;
    for (size_t pair = 0; pair < pairs; ++pair) {
        const std::vector<Complex<double>> one = sums.of_open_meson(phi, psi, plan.pairs[pair].in);
        const size_t times = one.size() / (momenta * open_numbers);
        found.resize(pairs * one.size());
        for (size_t q = 0; q < momenta; ++q)
            for (size_t j = 0; j < open_numbers; ++j) {
                const double gamma_5 = j / (spins * colours) % spins < 2 ? 1 : -1; // of the spin of S1
                for (size_t t = 0; t < times; ++t)
                    found[((q * pairs + pair) * open_numbers + j) * times + t] =
                        gamma_5 * one[(q * open_numbers + j) * times + t];
            }
    }
    return found;
}

} // namespace

extern "C" {

int milcgpu_gamma_index(int basis, const char *label) {
    return index_of_label("milcgpu_gamma_index", label, [&] {
        int found = -1;
        const GammaBasis set = checked_basis(basis);
        std::string all;
        for (int k = 0; k < gamma_matrices; ++k) {
            if (std::string(label) == gamma_label(set, k))
                found = k;
            all += std::string(" ") + gamma_label(set, k);
        }
        if (found < 0)
            refuse(format("'%s' is no gamma matrix of this set, which has%s", label, all.c_str()));
        return found;
    });
}

milcgpu_status milcgpu_gamma_label(int basis, int index, char *label, size_t size) {
    return label_of_index("milcgpu_gamma_label", label, size, [&] {
        checked_gamma(checked_basis(basis), index, "index");
        return gamma_label(static_cast<GammaBasis>(basis), index);
    });
}

milcgpu_status milcgpu_gamma_matrix(int basis, int index, int column[4], int power[4]) {
    return guarded(nullptr, "milcgpu_gamma_matrix", [&] {
        require(column, "milcgpu_gamma_matrix", "column");
        require(power, "milcgpu_gamma_matrix", "power");
        const GammaMatrix matrix = matrix_of(checked_gamma(checked_basis(basis), index, "index"));
        std::copy_n(matrix.column, spins, column);
        std::copy_n(matrix.power, spins, power);
        return Status::ok;
    });
}

milcgpu_status milcgpu_dirac_sites(milcgpu_context *context, int numbers, const milcgpu_field *phi,
                                   const milcgpu_field *psi, const milcgpu_field *to) {
    constexpr const char *function = "milcgpu_dirac_sites";
    return timed_call(context, function, [&](milcgpu_context &c) {
        constexpr size_t record = 2 * gamma_matrices; // reals
        Device &device = *c.device;
        const size_t volume = c.geometry.volume();
        RawNumbers made;
        HostField out{};
        std::optional<FieldPair> fields;
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            call("numbers", numbers,
                 from_to(MILCGPU_OPEN_SPIN, MILCGPU_GAMMAS_DEGRAND_ROSSI,
                         "MILCGPU_OPEN_SPIN (-1), MILCGPU_GAMMAS_MILC (0) or MILCGPU_GAMMAS_DEGRAND_ROSSI (1)"));
            const HostPair host(phi, psi);
            out = host_field(to, record, "to");
            check_precision(out, host.phi, "to");
            call("the precision of phi", int(out.real));
            fields.emplace(c, host.phi.real, 1, !same(host.phi, host.psi));
            fields->load(host.phi, "phi", host.psi, "psi");
            made = RawNumbers(device, volume * record, out.real);
        });
        device.collective(function, [&] {
            const SiteNumbers places{made.data(), 1, gamma_matrices, c.map.data()};
            if (numbers == MILCGPU_OPEN_SPIN)
                open_spins(device, c.geometry, fields->phi(), fields->psi(), places);
            else
                gammas_of_sites(device, c.geometry, static_cast<GammaBasis>(numbers), fields->phi(), fields->psi(),
                                places);
            fields->must_hold();
            if (!made.finite(device))
                throw Error(Status::nan_or_inf, "phi and psi are finite, but so large that their products are not");
            device.copy_rows_to_host(out.data, made.data(), out.pitch_bytes, record * real_bytes(out.real), volume);
        });
        return [numbers, volume] {
            return format("%s of %zu sites", numbers == MILCGPU_OPEN_SPIN ? "open spins" : "16 gamma matrices", volume);
        };
    });
}

milcgpu_status milcgpu_dirac_slices(milcgpu_context *context, const milcgpu_dirac_spec *spec, const milcgpu_field *phi,
                                    const milcgpu_field *psi, double *sums) {
    constexpr const char *function = "milcgpu_dirac_slices";
    return timed_call(context, function, [&](milcgpu_context &c) {
        std::vector<Momentum> momenta;
        std::vector<GammaPair> pairs;
        std::optional<FieldPair> fields;
        milcgpu_dirac_spec full{};
        same_on_all_ranks(c, function, [&](CallArguments &call) {
            full = call.copy_of("spec", spec);
            call.given("sums", sums);
            check_origin(c.geometry, full.origin, 3);
            momenta = momenta_of(full.n_momenta, full.momenta);
            for (int k = 0; k < gamma_matrices; ++k)
                pairs.push_back({unit_gamma(), gamma_of(static_cast<GammaBasis>(full.basis), k)});
            const HostPair host(phi, psi);
            call("the precision of phi", int(host.phi.real));
            fields.emplace(c, host.phi.real, 1, !same(host.phi, host.psi));
            fields->load(host.phi, "phi", host.psi, "psi");
        });
        std::vector<Complex<double>> found;
        c.device->collective("contraction of Dirac fields", [&] {
            found =
                DiracSums(*c.device, c.geometry, momenta, full.origin).of_gammas(fields->phi(), fields->psi(), pairs);
            fields->must_hold();
        });
        const int n_t = c.geometry.lattice().extent[3], begin = c.geometry.origin()[3],
                  times = c.geometry.global_extents()[3];
        std::vector<Complex<double>> added(momenta.size() * gamma_matrices * times);
        for (size_t k = 0; k < momenta.size() * gamma_matrices; ++k)
            std::copy_n(&found[k * n_t], n_t, &added[k * times + begin]);
        std::vector<double> all(2 * added.size());
        add_correlators(*c.device, added, "phi and psi, which are finite but too large", all.data());
        std::copy(all.begin(), all.end(), sums);
        return [n = full.n_momenta] { return format("16 gamma matrices, %d momenta", n); };
    });
}

milcgpu_status milcgpu_dirac_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                    const milcgpu_field *src1, const milcgpu_field *src2, double *correlators) {
    return sum_mesons(context, spec, {"milcgpu_dirac_mesons", false, n, src1, src2, correlators},
                      [](DiracSums &sums, const FullVectors &phi, const FullVectors &psi, const MesonPlan &plan) {
                          return sums.of_gammas(phi, psi, plan.pairs);
                      });
}

milcgpu_status milcgpu_dirac_open_mesons(milcgpu_context *context, const milcgpu_dirac_meson_spec *spec, int n,
                                         const milcgpu_field *src1, const milcgpu_field *src2, double *correlators) {
    return sum_mesons(context, spec, {"milcgpu_dirac_open_mesons", true, n, src1, src2, correlators},
                      [](DiracSums &sums, const FullVectors &phi, const FullVectors &psi, const MesonPlan &plan) {
                          return open_mesons(sums, phi, psi, plan);
                      });
}

} // extern "C"
