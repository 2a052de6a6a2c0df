// The C interface to over-relaxation and heat bath (gpu_kernels/gauge/forces/heat_bath.cu).
#include "milc_glue/api/members.h"
#include "milc_glue/links/gauge.h"
#include "milc_glue/links/link_checks.h"

using namespace milcgpu;

namespace {

constexpr SaidSigns without_phases{Signs::phases_out, "Load links without phases: the action is Wilson's"};

void need_whole_lattice(const milcgpu_gauge &gauge) {
    if (gauge.context->ranks->size() > 1)
        throw Error(Status::not_built, "over-relaxation and heat bath are built for one rank, and this context has "
                                       "several: run them on one, or in MILC");
}

// The generators as the device stores them: word by word, each for all sites. The host's sites are in the caller's
// order.
class Generators {
  public:
    Generators(milcgpu_gauge &gauge, const uint32_t *words)
        : sites_(gauge.geometry().volume()),
          map_(gauge.context->map.data() != nullptr ? gauge.context->map.to_host() : std::vector<int>()),
          on_device_(gauge.device(), (generator_words + 1) * sites_, "random numbers") {
        std::vector<uint32_t> turned(on_device_.size(), 0);
        for (size_t k = 0; k < sites_; ++k) {
            const float factor = bit_cast<float>(words[generator_words * k + 13]);
            if (!(factor > 0 && factor <= 1.0f / (1 << 24)))
                throw Error(Status::bad_argument,
                            format("generators: the float in word 13 of the site %s is %g: must be "
                                   "above 0 and at most 2^-24, which MILC's are",
                                   place_of_record(*gauge.context, k).c_str(), double(factor)));
            if (const uint32_t lowest = words[generator_words * k + 14]; lowest > 40)
                refuse(format(
                    "generators: word 14 of the site %s is %u: must be at most 40, as 24 bits of 64 from there on "
                    "are a number",
                    place_of_record(*gauge.context, k).c_str(), lowest));
        }
        for (size_t k = 0; k < sites_; ++k)
            for (int word = 0; word < generator_words; ++word)
                turned[word * sites_ + k] = words[generator_words * place(k) + word];
        gauge.device().copy_to_device(on_device_.data(), turned.data(), on_device_.bytes());
    }
    uint32_t *data() const { return on_device_.data(); }
    std::vector<uint32_t> to_host() const { return on_device_.to_host(); }
    // all: as to_host() returned it. Fills `drawn` with the numbers that each site has drawn.
    void count(const std::vector<uint32_t> &all, uint32_t *drawn) const {
        for (size_t k = 0; k < sites_; ++k)
            drawn[place(k)] = all[generator_words * sites_ + k];
    }

  private:
    size_t place(size_t k) const { return map_.empty() ? k : map_[k]; }
    size_t sites_;
    std::vector<int> map_;
    DeviceArray<uint32_t> on_device_;
};

} // namespace

extern "C" {

milcgpu_status milcgpu_gauge_overrelax(milcgpu_gauge *gauge, int sweeps) {
    return with_gauge(gauge, "milcgpu_gauge_overrelax", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_overrelax", [&](CallArguments &call) {
            call("sweeps", sweeps, from_to(0, 1000000));
            need_whole_lattice(g);
        });
        need_some_links(g, without_phases);
        g.links_version = 0;
        for (int k = 0; k < sweeps; ++k)
            overrelax(g.device(), g.geometry(), g.u);
        g.links_changed();
    });
}

milcgpu_status milcgpu_gauge_heat_bath(milcgpu_gauge *gauge, double beta, int sweeps, const uint32_t *generators,
                                       uint32_t *drawn) {
    return with_gauge(gauge, "milcgpu_gauge_heat_bath", [&](milcgpu_gauge &g) {
        same_on_all_ranks(*g.context, "milcgpu_gauge_heat_bath", [&](CallArguments &call) {
            call("beta", beta, from_to(1e-6, 1e6)), call("sweeps", sweeps, from_to(0, 1000000));
            call.given("generators", generators), call.given("drawn", drawn);
            need_whole_lattice(g);
        });
        need_some_links(g, without_phases);
        const Generators all(g, generators);
        g.links_version = 0;
        for (int k = 0; k < sweeps; ++k)
            heat_bath(g.device(), g.geometry(), g.u, beta, all.data());
        const std::vector<uint32_t> after = all.to_host(); // nothing may fail once links are marked as changed
        g.links_changed();
        all.count(after, drawn);
    });
}

} // extern "C"
