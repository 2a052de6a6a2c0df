// Shifts, spin-taste operators, smearing and contractions of MILC's fields.
#include "gpu_kernels/measure/quark_operators.h"
#include "milc_glue/api/context.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include "milc_glue/routines/solve.h"
#include "milc_glue/solve/currents.h"

using namespace milcgpu;

namespace {

size_t field_bytes(const Plugin &p) { return p.sites * p.bytes_of(6); }

milcgpu_quarks quarks_of(const milcgpu_field &field) { return {&field, nullptr, 0}; }
milcgpu_quarks quarks_of(const DeviceVectors &vectors) { return {nullptr, vectors.vector().of, 0}; }

// Passes the content of the host's field, on the device, to work(quarks).
template <class Work> milcgpu_status with_field(milcgpu_routine routine, const milcgpu_field &field, const Work &work) {
    Plugin &p = plugin();
    VectorStore::Vectors held;
    const milcgpu_status status =
        p.with_idle_given_back([&] { return p.vectors.with_content(field.data, held, p.ledger[routine].to_device); });
    return status == MILCGPU_OK ? work(quarks_of(*held)) : status;
}

milcgpu_status delivered(milcgpu_routine routine, const VectorStore::Vectors &made, const milcgpu_field &to) {
    Plugin &p = plugin();
    return p.collective(p.vectors.deliver(made, to, p.ledger[routine].to_host));
}

// work(quarks) makes the content of the host's field `to`.
template <class Work> milcgpu_status making(milcgpu_routine routine, const milcgpu_field &to, const Work &work) {
    Plugin &p = plugin();
    if (!p.vectors.keeps_copies()) {
        const milcgpu_status status = work(quarks_of(to));
        p.ledger[routine].to_host += status == MILCGPU_OK ? field_bytes(p) : 0;
        return status;
    }
    VectorStore::Vectors made;
    milcgpu_status status = p.with_idle_given_back([&] { return p.vectors.empty(made); });
    if (status == MILCGPU_OK)
        status = work(quarks_of(*made));
    return status == MILCGPU_OK ? delivered(routine, made, to) : status;
}

// work(quarks) changes the host's field.
template <class Work> milcgpu_status changing(milcgpu_routine routine, const milcgpu_field &field, const Work &work) {
    Plugin &p = plugin();
    if (!p.vectors.keeps_copies()) {
        p.ledger[routine].to_device += field_bytes(p);
        return making(routine, field, work);
    }
    VectorStore::Vectors own;
    milcgpu_status status =
        p.with_idle_given_back([&] { return p.vectors.loaded(field.data, own, p.ledger[routine].to_device); });
    if (status == MILCGPU_OK)
        status = work(quarks_of(*own));
    return status == MILCGPU_OK ? delivered(routine, own, field) : status;
}

// Fat links of up to two sets, for operators that need them.
struct FatLinks {
    const void *fat[2] = {}, *lng[2] = {};
};

// Finds or loads their handles, nullptr if none are given. NO_MEMORY: the device cannot hold both sets.
milcgpu_status ready(const FatLinks &of, milcgpu_links *(&handles)[2]) {
    Plugin &p = plugin();
    LinkCache &cache = *p.links;
    const auto find = [&](int k, milcgpu_links *&handle, uint64_t common) {
        LinkSet *set = nullptr;
        const milcgpu_status status = cache.ready(of.fat[k], of.lng[k], set, common);
        handle = status == MILCGPU_OK ? set->handle : nullptr;
        return status;
    };
    const auto look = [&](int k) { return of.fat[k] != nullptr ? cache.look(of.fat[k], of.lng[k]) : 0; };
    if (of.fat[0] == nullptr && of.fat[1] == nullptr)
        return MILCGPU_OK;
    const Collective::Words seen = p.collective.on_all_ranks({look(0), look(1)});
    const auto is_there = [&](int k) { return of.fat[k] == nullptr || LinkCache::found(seen[k]); };
    const bool both_there = is_there(0) && is_there(1); // else sets may move
    for (const int k : {0, 1})
        if (of.fat[k] != nullptr)
            if (const milcgpu_status status =
                    find(k, handles[k], k == 0 || both_there ? seen[k] : p.collective.on_all_ranks(look(k))))
                return status;
    milcgpu_links *still = handles[0];
    if (of.fat[0] != nullptr && of.fat[1] != nullptr && !both_there) // the second may have taken the place of the first
        if (const milcgpu_status status = find(0, still, p.collective.on_all_ranks(look(0))))
            return status;
    return still == handles[0] ? MILCGPU_OK : MILCGPU_NO_MEMORY;
}

// Runs work(handle, fermion) with these links on the device. flops: for each site.
template <class Work>
int measured(milcgpu_routine routine, const void *links, const int *origin, const FatLinks &fat, double flops,
             const Work &work) {
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        const auto attempt = [&] {
            milcgpu_links *fermion[2] = {};
            if (const milcgpu_status loaded = ready(fat, fermion))
                return loaded;
            const InUse use = p.meson_links->use();
            milcgpu_meson_links *handle = nullptr;
            const milcgpu_status ready = p.meson_links->ready(p.link_records(links), origin, handle, account.to_device);
            return ready != MILCGPU_OK ? ready : p.collective(work(handle, fermion));
        };
        const auto reload = [&] { p.meson_links->drop_all(), p.vectors.drop_copies(); };
        const milcgpu_status status = with_reload(routine, "Trying again with the links loaded anew", reload, attempt);
        account.flops += status == MILCGPU_OK ? flops * p.sites : 0;
        return status;
    });
}

constexpr int of_currents[4] = {0, 0, 0, 0}; // origin

// Noise for currents, and what is made of it.
milcgpu_vectors *vectors_of(int slot) {
    const VectorStore::Vectors &vectors = plugin().vectors.slot(slot);
    return vectors != nullptr ? vectors->vector().of : nullptr;
}

// MILC's eigenvectors on even sites; nullptr: the device does not have all of them.
EigenStore::Set *milcs_eigenvectors(Plugin &p, const milcgpu_plugin_eigen_call &of) {
    EigenStore::Set *const set =
        p.eigenvectors->has(of.vectors, of.count, MILCGPU_EVEN) ? p.eigenvectors->of_fields(MILCGPU_EVEN) : nullptr;
    return set != nullptr && set->count() >= of.count ? set : nullptr;
}

// The fraction of all ranks' sites in one time slice, or in all (-1).
double part_of_lattice(int slice) {
    const milcgpu_layout &layout = plugin().layout;
    return slice < 0 ? 1 : 1.0 / (layout.whole[3] > 0 ? layout.whole[3] : layout.extent[3]);
}

} // namespace

extern "C" {

int milcgpu_plugin_links_of_operator(int index) {
    return answer_of("spin_taste_op", "MILC's own routine does this call", -1, [&] {
        const SpinTaste op = spin_taste(index);
        return op.kind == SpinTaste::Kind::pair ? -1 : op.fat ? 2 : op.directions() != 0 ? 1 : 0;
    });
}

int milcgpu_plugin_signs_of_operator(int index, const int *origin) {
    return answer_of("spin_taste_op", "MILC's own routine does this call", -1, [&] {
        const SpinTaste op = spin_taste(index);
        const SignPattern signs = signs_of(op, origin);
        return op.kind != SpinTaste::Kind::general || op.directions() != 0
                   ? -1
                   : static_cast<int>(signs.mask) + 16 * signs.negative;
    });
}

int milcgpu_plugin_expect_links(const void *links, int are_new) {
    const Plugin &p = plugin();
    return p.meson_links != nullptr && p.meson_links->expect(links, are_new != 0);
}

int milcgpu_plugin_spin_taste(const void *links, int phased, const void *fat, const void *lng, int index,
                              const int *origin, milcgpu_field from, milcgpu_field to) {
    const double flops = answer_of("spin_taste_op", "Flops are not counted", 0.0, [&] {
        const SpinTaste op = spin_taste(index);
        return neighbours_flops(int(corner_steps(op.directions()).size()), op.kind == SpinTaste::Kind::general);
    });
    const FatLinks given = {{fat}, {lng}};
    const int *const phases = phased ? origin : nullptr;
    return measured(MILCGPU_SPIN_TASTE, links, phases, given, flops, [&](auto *handle, auto &fermion) {
        return with_field(MILCGPU_SPIN_TASTE, from, [&](const milcgpu_quarks &source) {
            return making(MILCGPU_SPIN_TASTE, to, [&](const milcgpu_quarks &made) {
                return milcgpu_quarks_spin_taste(handle, fermion[0], index, origin, 1, &source, &made);
            });
        });
    });
}

int milcgpu_plugin_shift(const void *links, int dir, int way, milcgpu_field from, milcgpu_field to) {
    const double flops = neighbours_flops(1, way == MILCGPU_SYMMETRIC);
    return measured(MILCGPU_SHIFT_FIELD, links, nullptr, {}, flops, [&](auto *handle, auto &) {
        return with_field(MILCGPU_SHIFT_FIELD, from, [&](const milcgpu_quarks &source) {
            return making(MILCGPU_SHIFT_FIELD, to, [&](const milcgpu_quarks &made) {
                return milcgpu_quarks_shift(handle, dir, way, nullptr, 1, &source, &made);
            });
        });
    });
}

int milcgpu_plugin_gauss_smear(const void *links, double width, int steps, int slice, milcgpu_field quark) {
    const double flops = steps * neighbours_flops(3, true) * part_of_lattice(slice);
    return measured(MILCGPU_GAUSS_SMEAR, links, nullptr, {}, flops, [&](auto *handle, auto &) {
        const double a = width * width / (16.0 * steps); // MILC multiplies by it and divides by it, in its precision
        if (!(plugin().in_double() ? 1 / a < INFINITY : 1 / static_cast<float>(a) < INFINITY)) {
            set_last_error("milcgpu_plugin_gauss_smear",
                           format("the width of smearing (r0) is %g: MILC divides by its square, which makes the field "
                                  "NaN. Take a larger one, or no smearing",
                                  width)
                               .c_str());
            return MILCGPU_BAD_ARGUMENT;
        }
        return changing(MILCGPU_GAUSS_SMEAR, quark, [&](const milcgpu_quarks &quarks) {
            return milcgpu_quarks_gauss_smear(handle, 2, width, steps, slice, 1, &quarks);
        });
    });
}

int milcgpu_plugin_laplacian(const void *links, int slice, milcgpu_field quark) {
    const double flops = neighbours_flops(3, true) * part_of_lattice(slice);
    return measured(MILCGPU_LAPLACIAN, links, nullptr, {}, flops, [&](auto *handle, auto &) {
        return changing(MILCGPU_LAPLACIAN, quark, [&](const milcgpu_quarks &quarks) {
            return milcgpu_quarks_laplacian(handle, 2, slice, 1, &quarks);
        });
    });
}

int milcgpu_plugin_contract(const void *links, int phased, const void *const fat[2], const void *const lng[2],
                            const milcgpu_meson_spec *spec, milcgpu_field src1, milcgpu_field src2,
                            double *correlators) {
    const double flops = 18.0 * spec->n_momenta + 8.0 * spec->n_terms; // MILC's count
    const FatLinks given = {{fat[0], fat[1]}, {lng[0], lng[1]}};
    const int *const phases = phased ? spec->origin : nullptr;
    return measured(MILCGPU_MESON_CONT, links, phases, given, flops, [&](auto *handle, auto &fermion) {
        return with_field(MILCGPU_MESON_CONT, src1, [&](const milcgpu_quarks &left) {
            const auto contract = [&](const milcgpu_quarks &right) {
                return milcgpu_quarks_contract(handle, spec, fermion[0], fermion[1], 1, &left, &right, correlators);
            };
            return src1.data == src2.data ? contract(left) : with_field(MILCGPU_MESON_CONT, src2, contract);
        });
    });
}

int milcgpu_plugin_current_begin(int vectors, int n) {
    return offloaded(MILCGPU_MEAS_CURRENT, [&](Plugin &p, RoutineAccount &) -> Done {
        if (p.context == nullptr)
            return left_to_milc;
        milcgpu_status status = MILCGPU_OK;
        for (int k = 0; k < n && status == MILCGPU_OK; ++k)
            status = p.with_idle_given_back([&] { return p.vectors.empty(p.vectors.slot(k), vectors); });
        if (status != MILCGPU_OK)
            milcgpu_plugin_current_end();
        return {status, 0};
    });
}

int milcgpu_plugin_current_sources(int n, const milcgpu_field *random, int step, const milcgpu_plugin_eigen_call *of) {
    return offloaded(MILCGPU_MEAS_CURRENT, [&](Plugin &p, RoutineAccount &account) -> Done {
        milcgpu_status status = p.collective(thinned_sources(vectors_of(0), n, random, step));
        account.to_device += n * field_bytes(p);
        if (status == MILCGPU_OK && of != nullptr) {
            const EigenStore &store = *p.eigenvectors;
            const EigenStore::Set *const set = milcs_eigenvectors(p, *of);
            milcgpu_links *made_by = store.newest_on_device() ? store.links_of_other_parity() : nullptr;
            const milcgpu_field *const fields = store.newest_on_device() ? nullptr : store.fields().data();
            if (fields != nullptr) { // project_out() then reads this part from MILC's fields, and no links
                const LinkSet *const links = p.links_for(MILCGPU_MEAS_CURRENT, of->fat, of->lng);
                made_by = links != nullptr ? links->handle : nullptr;
                account.to_device += of->count * field_bytes(p) / 2;
            }
            if (set == nullptr || made_by == nullptr) {
                p.log_failure(MILCGPU_MEAS_CURRENT,
                              format("f_meas_current: the eigenvectors are not on the device%s",
                                     set == nullptr ? "" : " on both parities: MILC has not asked for the other one"));
                return left_to_milc;
            }
            status = p.collective(project_out(set->handle, made_by, fields, vectors_of(0)));
        }
        return {status, 0};
    });
}

int milcgpu_plugin_current_solve(const milcgpu_plugin_solve_call *call, int from, int to,
                                 milcgpu_solve_report *given_reports) {
    return offloaded(call->routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        milcgpu_vectors *const sources = vectors_of(from), *const solutions = vectors_of(to);
        if (p.context == nullptr || sources == nullptr || solutions == nullptr)
            return left_to_milc;
        const int n = p.vectors.slot(from)->count();
        const ReportForMilc<milcgpu_solve_report> reports(given_reports, n);
        const LinkSet *const links = p.links_for(call->routine, call->fat, call->lng, Mirror::Look::sample);
        if (links == nullptr)
            return left_to_milc;
        if (const milcgpu_status status = p.collective(zero_vectors(solutions, call->parity)))
            return status;
        SourcesOnDevice on_device{
            {}, {}, call->one_by_one != 0 ? MILCGPU_ONE_BY_ONE : MILCGPU_TOGETHER_AUTO, links->content()};
        for (int k = 0; k < n; ++k) {
            on_device.sources.push_back({sources, k}), on_device.solutions.push_back({solutions, k});
            reports[k] = {}, reports[k].struct_size = sizeof reports[k];
        }
        if (solve_until_done(p, account, n, call, reports, &on_device) != Outcome::done)
            return left_to_milc;
        return {MILCGPU_OK, n};
    });
}

int milcgpu_plugin_current_sums(const void *links, int phased, const void *fat, const void *lng, int parity, int groups,
                                int slot, double *sums) {
    const VectorStore::Vectors &vectors = plugin().vectors.slot(slot);
    const int n = vectors != nullptr ? vectors->count() : 0;
    const double flops = n * (1146 / 2.0 + 4 * neighbours_flops(1, false));
    return n > 0 &&
           measured(MILCGPU_MEAS_CURRENT, links, phased ? of_currents : nullptr, {{fat}, {lng}}, flops,
                    [&](auto *handle, auto &fermion) {
                        return current_sums(handle, fermion[0], parity, groups, vectors_of(0), vectors_of(slot), sums);
                    });
}

int milcgpu_plugin_current_low(const void *links, int phased, const void *fat, const void *lng,
                               const milcgpu_plugin_eigen_call *of, int n_weights, const double *weights,
                               double *sums) {
    const double flops = of->count * (1146 / 2.0 + 4 * neighbours_flops(1, false));
    return measured(MILCGPU_MEAS_CURRENT, links, phased ? of_currents : nullptr, {{fat}, {lng}}, flops,
                    [&](auto *handle, auto &fermion) {
                        EigenStore::Set *const set = milcs_eigenvectors(plugin(), *of);
                        return low_mode_currents(handle, fermion[0], set != nullptr ? set->handle : nullptr, of->count,
                                                 n_weights, weights, sums);
                    });
}

void milcgpu_plugin_current_end(void) { plugin().vectors.free_slots(); }

} // extern "C"
