// MILC's staggered baryons: propagators of MILC's become quarks on the device.
#include "gpu_kernels/machine/backend/large_pages.h"
#include "milc_glue/api/context.h"
#include "milc_glue/measure/baryons.h"
#include "milc_glue/routines/entry.h"
#include <map>

using namespace milcgpu;

namespace {

// The fields of some of MILC's propagators on the device, three for each propagator. NULL: absent.
class QuarksOnDevice {
  public:
    milcgpu_status load(milcgpu_routine routine, const void *const *fields, int propagators) {
        Plugin &p = plugin();
        quarks_.assign(propagators, QuarkColours{});
        for (int k = 0; k < 3 * propagators; ++k) {
            if (fields[k] == nullptr)
                continue;
            VectorStore::Vectors &held = loaded_[fields[k]];
            if (held == nullptr)
                if (const milcgpu_status status = p.with_idle_given_back(
                        [&] { return p.vectors.with_content(fields[k], held, p.ledger[routine].to_device); }))
                    return status;
            quarks_[k / 3].colour[k % 3] = held->vector();
        }
        return MILCGPU_OK;
    }
    // Quarks as they were when MILC made its caches of them.
    milcgpu_status take(const void *const octets[3]) {
        Plugin &p = plugin();
        quarks_.assign(24, QuarkColours{});
        for (const void *const octet : {octets[0], octets[1], octets[2]})
            for (const VectorStore::Held &held : p.octets.at(octet))
                in_use_.push_back(held.vectors); // the others are loaded, and must not push these out
        for (int k = 0; k < 3 * 24; ++k) {
            VectorStore::Held &held = p.octets.at(octets[k / 24])[k % 24];
            if (held.field.field().data == nullptr)
                continue;
            if (const milcgpu_status status = p.with_idle_given_back([&] { return with_vector(held); }))
                return status;
            in_use_.push_back(held.vectors);
            quarks_[k / 3].colour[k % 3] = held.vectors->vector();
        }
        return MILCGPU_OK;
    }
    const QuarkColours *quarks() const { return quarks_.data(); }

  private:
    // Loads the quark again if the device has lost it.
    static milcgpu_status with_vector(VectorStore::Held &held) {
        if (held.is_there())
            return MILCGPU_OK;
        if (held.is_on_host())
            return plugin().vectors.hold(held.field.field().data, held, plugin().ledger[MILCGPU_GB_BARYON].to_device);
        set_last_error("gb_baryon", "a quark is no longer on the device, and MILC's field has changed since "
                                    "create_qk_oct_cache");
        return MILCGPU_BAD_ARGUMENT;
    }
    std::map<const void *, VectorStore::Vectors> loaded_;
    std::vector<VectorStore::Vectors> in_use_; // of octets
    std::vector<QuarkColours> quarks_;
};

// Runs work(quarks) with the propagators on the device. fetch(): brings them there. forget(): what of them is wrong.
template <class Fetch, class Forget, class Work>
int tied_up(milcgpu_routine routine, const Fetch &fetch, const Forget &forget, const Work &work) {
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        const auto attempt = [&] {
            QuarksOnDevice on_device;
            const milcgpu_status status = fetch(on_device);
            return status != MILCGPU_OK ? status : p.collective(work(p.context, on_device.quarks(), account));
        };
        const auto reload = [&] {
            p.vectors.drop_copies();
            forget(p);
        };
        return with_reload(routine, "The quarks are loaded again", reload, attempt);
    });
}

} // namespace

extern "C" {

int milcgpu_plugin_right_baryons(void) { return plugin().settings.is("MILCGPU_BARYONS", "right"); }

int milcgpu_plugin_baryons(const void *const quarks[9], double *nucleon, double *delta) {
    return tied_up(
        MILCGPU_BARYON, [&](QuarksOnDevice &on_device) { return on_device.load(MILCGPU_BARYON, quarks, 3); },
        [](Plugin &) {},
        [&](milcgpu_context *c, const QuarkColours *three, RoutineAccount &) {
            const milcgpu_status status = nucleon != nullptr ? baryon_nucleon(c, three, nucleon) : MILCGPU_OK;
            return status == MILCGPU_OK && delta != nullptr ? baryon_delta(c, three[0], delta) : status;
        });
}

int milcgpu_plugin_gb_baryon(const milcgpu_gb_spec *spec, const void *const octets[3], const void *const quarks[72],
                             double *correlators) {
    return tied_up(
        MILCGPU_GB_BARYON,
        [&](QuarksOnDevice &on_device) {
            return octets[0] != nullptr ? on_device.take(octets) : on_device.load(MILCGPU_GB_BARYON, quarks, 24);
        },
        [&](Plugin &p) {
            for (int f = 0; f < 3 && octets[f] != nullptr; ++f)
                for (VectorStore::Held &held : p.octets.at(octets[f]))
                    held.vectors.reset();
        },
        [&](milcgpu_context *c, const QuarkColours *all, RoutineAccount &account) {
            double flops = 0;
            const milcgpu_status status = gb_correlate(c, spec, all, correlators, &flops);
            account.flops += flops;
            return status;
        });
}

int milcgpu_plugin_hold_octet(const void *octet, const void *const fields[24]) {
    const int held = offloaded(MILCGPU_GB_BARYON, [&](Plugin &p, RoutineAccount &account) -> Done {
        Residency::HeldOctet &quarks = p.octets[octet];
        const auto attempt = [&] {
            milcgpu_status status = MILCGPU_OK;
            for (int k = 0; k < 24 && status == MILCGPU_OK; ++k)
                if (fields[k] != nullptr)
                    status =
                        p.with_idle_given_back([&] { return p.vectors.hold(fields[k], quarks[k], account.to_device); });
            return status;
        };
        return {with_links_dropped(MILCGPU_GB_BARYON, attempt), 0};
    });
    if (!held)
        plugin().octets.erase(octet);
    return held;
}

void milcgpu_plugin_drop_octet(const void *octet) { plugin().octets.erase(octet); }

int milcgpu_plugin_held_quark(const void *octet, int k, void *room) {
    return answer_of("gb_baryon", "MILC's own routine does this call", 0, [&] {
        Plugin &p = plugin();
        VectorStore::Held &held = p.octets.at(octet)[k];
        const size_t bytes = p.sites * p.bytes_of(6);
        const bool is_on_host = held.is_on_host();
        if (is_on_host && held.copy == nullptr)
            return 1;
        const milcgpu_field to = {room, p.real(), 0};
        if (room == nullptr)
            return 0;
        if (is_on_host)
            copy_bytes(room, held.copy.get(), bytes);
        else if (!held.is_there() ||
                 milcgpu_vectors_save(held.vectors->vector().of, 0, MILCGPU_EVEN + MILCGPU_ODD, &to) != MILCGPU_OK)
            return 0;
        else
            p.ledger[MILCGPU_GB_BARYON].to_host += bytes;
        held.copy.reset();
        held.field = {{room, static_cast<size_t>(p.sites), p.bytes_of(6), p.bytes_of(6)}, Mirror::Look::whole};
        held.field.both_have();
        return 2;
    });
}

int milcgpu_plugin_gb_corners(const milcgpu_gb_spec *spec, const milcgpu_gb_term *term, unsigned sources[3],
                              unsigned sinks[3]) {
    return answer_of("gb_baryon", "MILC's own routine does this call", 0, [&] {
        const GbCorners of = corners_of(*spec, *term);
        std::copy(std::begin(of.source), std::end(of.source), sources);
        std::copy(std::begin(of.sink), std::end(of.sink), sinks);
        return 1;
    });
}

} // extern "C"
