// MILC's staggered baryons: propagators of MILC's become quarks on the device.
#include "milc_glue/measure/baryons.h"
#include "milc_glue/api/context.h"
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
            VectorStore::Vectors &held = held_[fields[k]];
            if (held == nullptr)
                if (const milcgpu_status status = p.with_idle_given_back(
                        [&] { return p.vectors.with_content(fields[k], held, p.ledger[routine].to_device); }))
                    return status;
            quarks_[k / 3].colour[k % 3] = held->vector();
        }
        return MILCGPU_OK;
    }
    const QuarkColours *quarks() const { return quarks_.data(); }

  private:
    std::map<const void *, VectorStore::Vectors> held_;
    std::vector<QuarkColours> quarks_;
};

// Runs work(quarks) with the propagators on the device.
template <class Work>
int tied_up(milcgpu_routine routine, const void *const *fields, int propagators, const Work &work) {
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        const auto attempt = [&] {
            QuarksOnDevice on_device;
            const milcgpu_status status = on_device.load(routine, fields, propagators);
            return status != MILCGPU_OK ? status : p.collective(work(p.context, on_device.quarks(), account));
        };
        return with_reload(
            routine, "The quarks are loaded again", [&] { p.vectors.drop_copies(); }, attempt);
    });
}

} // namespace

extern "C" {

int milcgpu_plugin_right_baryons(void) { return plugin().settings.is("MILCGPU_BARYONS", "right"); }

int milcgpu_plugin_baryons(const void *const quarks[9], double *nucleon, double *delta) {
    return tied_up(MILCGPU_BARYON, quarks, 3, [&](milcgpu_context *c, const QuarkColours *three, RoutineAccount &) {
        const milcgpu_status status = nucleon != nullptr ? baryon_nucleon(c, three, nucleon) : MILCGPU_OK;
        return status == MILCGPU_OK && delta != nullptr ? baryon_delta(c, three[0], delta) : status;
    });
}

int milcgpu_plugin_gb_baryon(const milcgpu_gb_spec *spec, const void *const quarks[72], double *correlators) {
    return tied_up(MILCGPU_GB_BARYON, quarks, 24,
                   [&](milcgpu_context *c, const QuarkColours *octets, RoutineAccount &account) {
                       double flops = 0;
                       const milcgpu_status status = gb_correlate(c, spec, octets, correlators, &flops);
                       account.flops += flops;
                       return status;
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
