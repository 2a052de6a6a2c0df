// Shifts, spin-taste operators, smearing and contractions of MILC's fields.
#include "gpu_kernels/mesons/mesons.h"
#include "milc_glue/plugin/state.h"

using namespace milcgpu;

namespace {

size_t field_bytes(const Plugin &p) { return 6 * (p.in_double() ? sizeof(double) : sizeof(float)) * size_t(p.sites); }

milcgpu_quarks quarks_of(const milcgpu_field &field) { return {&field, nullptr, 0}; }

// work(handle) with these links on the device; in, out: fields that move; flops: a site.
template <class Work>
int measured(milcgpu_routine routine, const void *links, const int *origin, int in, int out, double flops,
             const Work &work) {
    return done_by(routine, [&] {
        Plugin &p = plugin();
        RoutineAccount &account = p.ledger[routine];
        const Stopwatch watch(account.seconds);
        const auto attempt = [&] {
            milcgpu_meson_links *handle = nullptr;
            const milcgpu_status ready = p.meson_links->ready(p.link_records(links), origin, handle, account.to_device);
            return ready != MILCGPU_OK ? ready : work(handle);
        };
        milcgpu_status status = with_links_dropped(routine, attempt);
        if (status == MILCGPU_CORRUPTED) {
            p.say(0,
                  format("%s: %s. Trying again with the links loaded anew", routine_name(routine), reason().c_str()));
            p.meson_links->drop_all();
            status = attempt();
        }
        if (status == MILCGPU_NOT_BUILT) {
            milcgpu_plugin_leaves(routine, "MILC's own: built for lattices that one rank has whole");
            return false;
        }
        if (status != MILCGPU_OK) {
            p.report_failure(routine, status);
            return false;
        }
        ++account.calls;
        account.flops += flops * p.sites;
        account.to_device += in * field_bytes(p);
        account.to_host += out * field_bytes(p);
        return true;
    });
}

// The handle of fermion links on the device; nullptr where none are given. Throws where they could not be loaded.
milcgpu_links *fermion_links(const void *fat, const void *lng) {
    if (fat == nullptr)
        return nullptr;
    const LinkSet *set = plugin().links_for(fat, lng);
    if (set == nullptr)
        throw Error(Status::bad_argument, "there are no fermion links on the device");
    return set->handle;
}

} // namespace

extern "C" {

int milcgpu_plugin_links_of_operator(int index) {
    return answer_of("spin_taste_op", "MILC's own routine does this call", -1, [&] {
        const SpinTaste op = spin_taste(index);
        return op.kind == SpinTaste::Kind::pair ? -1 : op.fat ? 2 : op.directions() != 0 ? 1 : 0;
    });
}

int milcgpu_plugin_expect_links(const void *links, int are_new) {
    const Plugin &p = plugin();
    return p.meson_links != nullptr && p.meson_links->expect(links, are_new != 0);
}

int milcgpu_plugin_spin_taste(const void *links, const void *fat, const void *lng, int index, const int *origin,
                              milcgpu_field from, milcgpu_field to) {
    const double flops = answer_of("spin_taste_op", "Flops are not counted", 0.0, [&] {
        const SpinTaste op = spin_taste(index);
        return neighbours_flops(int(corner_steps(op.directions()).size()), op.kind == SpinTaste::Kind::general);
    });
    return measured(MILCGPU_SPIN_TASTE, links, origin, 1, 1, flops, [&](milcgpu_meson_links *handle) {
        const milcgpu_quarks source = quarks_of(from), made = quarks_of(to);
        return milcgpu_spin_taste(handle, fermion_links(fat, lng), index, origin, 1, &source, &made);
    });
}

int milcgpu_plugin_shift(const void *links, int dir, int way, milcgpu_field from, milcgpu_field to) {
    const double flops = neighbours_flops(1, way == MILCGPU_SYMMETRIC);
    return measured(MILCGPU_SHIFT_FIELD, links, nullptr, 1, 1, flops, [&](milcgpu_meson_links *handle) {
        const milcgpu_quarks source = quarks_of(from), made = quarks_of(to);
        return milcgpu_shift_quarks(handle, dir, way, nullptr, 1, &source, &made);
    });
}

int milcgpu_plugin_gauss_smear(const void *links, double width, int steps, int slice, milcgpu_field quark) {
    const double flops = steps * neighbours_flops(3, true) / (slice < 0 ? 1 : plugin().layout.extent[3]);
    return measured(MILCGPU_GAUSS_SMEAR, links, nullptr, 1, 1, flops, [&](milcgpu_meson_links *handle) {
        const milcgpu_quarks quarks = quarks_of(quark);
        return milcgpu_gauss_smear(handle, 2, width, steps, slice, 1, &quarks);
    });
}

int milcgpu_plugin_laplacian(const void *links, int slice, milcgpu_field quark) {
    const double flops = neighbours_flops(3, true) / (slice < 0 ? 1 : plugin().layout.extent[3]);
    return measured(MILCGPU_LAPLACIAN, links, nullptr, 1, 1, flops, [&](milcgpu_meson_links *handle) {
        const milcgpu_quarks quarks = quarks_of(quark);
        return milcgpu_laplacian(handle, 2, slice, 1, &quarks);
    });
}

int milcgpu_plugin_contract(const void *links, const void *const fat[2], const void *const lng[2],
                            const milcgpu_meson_spec *spec, milcgpu_field src1, milcgpu_field src2,
                            double *correlators) {
    const double flops = 18.0 * spec->n_momenta + 8.0 * spec->n_terms; // MILC's count
    return measured(MILCGPU_MESON_CONT, links, spec->origin, 2, 0, flops, [&](milcgpu_meson_links *handle) {
        const milcgpu_quarks left = quarks_of(src1), right = quarks_of(src2);
        milcgpu_links *const first = fermion_links(fat[0], lng[0]), *const second = fermion_links(fat[1], lng[1]);
        return milcgpu_contract(handle, spec, first, second, 1, &left, &right, correlators);
    });
}

} // extern "C"
