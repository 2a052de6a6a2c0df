// The making of links: the kernels alone, and the calls of the C interface.
#include "examples/bench/bench.h"
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "reorder/link_reorder.h"
#include <algorithm>

namespace examples {
using namespace milcgpu;

namespace {

LinkField upload_links(Device &device, const reference::Lattice &lattice, const reference::Gauge &links,
                       Precision precision, int reals) {
    const Geometry geometry(lattice.n);
    const SiteMap map;
    auto host = reference::links_to_milc<double>(lattice, links);
    const LinkField plain(device, Precision::double_, 18, geometry, "bench");
    links_to_device(device, {host.data(), Precision::double_, 576}, map, geometry, plain);
    return std::move(pack_links(device, plain, {1, 1, -1, 0}, geometry, precision, reals, "bench").field);
}

double links_difference(Device &device, const reference::Lattice &lattice, const LinkField &links,
                        const reference::Gauge &wanted) {
    const Geometry geometry(lattice.n);
    const SiteMap map;
    const PackedLinks plain = pack_links(device, links, {1, 1, -1, 0}, geometry, Precision::double_, 18, "bench");
    std::vector<double> back(size_t(72) * lattice.volume());
    links_to_host(device, plain.field, map, geometry, {back.data(), Precision::double_, 576});
    return reference::relative_difference(reference::links_from_milc<double>(lattice, back), wanted);
}

// Fat and long links of asqtad; both levels of HISQ with the unitarization between them.
void time_kernels(const Bench &bench) {
    const System &system = bench.system;
    Table &table = bench.table;
    Device &device = bench.device();
    const Geometry &geometry = bench.context().geometry;
    const int volume = geometry.volume(), repeat = device.on_gpu() ? 5 : 1;
    const auto library = [](const reference::PathCoefficients &c) {
        return PathCoefficients{c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
    };
    const auto asqtad = library(reference::asqtad_coefficients(system.u0));
    const auto fat7 = library(reference::hisq_fat7_coefficients()),
               level_2 = library(reference::hisq_asqtad_coefficients());
    const reference::HisqLinks hisq = reference::hisq_links(system.lattice, system.gauge, 0);
    for (const Precision p : {Precision::double_, Precision::single}) {
        const StapleSpace space(device, geometry, p);
        const LinkField fat(device, p, 18, geometry, "bench"), w(device, p, 18, geometry, "bench");
        const double link = link_bytes(p, 18);
        for (const int reals : {18, 12}) {
            if (const int asked = bench.settings.asked_reals.value_or(0); asked != 0 && asked != reals)
                continue;
            const LinkField u = upload_links(device, system.lattice, system.gauge, p, reals);
            const auto make = [&] { fat_links(device, geometry, u, asqtad, fat, space); };
            const double seconds = median_seconds(device, 5, repeat, make);
            device.fill_zero(fat.block(0, 0), fat.bytes());
            make();
            table.row({"links", format("asqtad fat %d", reals), name(p)},
                      {seconds, volume * fat_links_flops, volume * fat_links_bytes(p, reals)},
                      links_difference(device, system.lattice, fat, system.fat), links_tolerance(p, 2.6e-16, 7.3e-8));
        }
        const LinkField u = upload_links(device, system.lattice, system.gauge, p, 18);
        const double naik = asqtad.naik;
        double seconds = median_seconds(device, 5, repeat, [&] { long_links(device, geometry, u, naik, fat); });
        table.row({"links", "long 18", name(p)}, {seconds, volume * long_links_flops, volume * 8 * link},
                  links_difference(device, system.lattice, fat, system.lng), links_tolerance(p, 1.7e-16, 8.8e-8));
        seconds = median_seconds(device, 5, repeat, [&] {
            fat_links(device, geometry, u, fat7, fat, space);
            unitarize(device, geometry, fat, UnitarizeSpec(), nullptr, w);
            fat_links(device, geometry, w, level_2, fat, space);
        });
        table.row({"links", "hisq fat 18", name(p)},
                  {seconds, volume * 2 * fat_links_flops, volume * (2 * fat_links_bytes(p, 18) + 8 * link)},
                  links_difference(device, system.lattice, fat, hisq.fat), links_tolerance(p, 3.9e-16, 9.8e-8));
    }
}

// The same by the C interface, with all the work of a call on the device; also on ranks.
void time_calls(const Bench &bench) {
    const Job &ranks = bench.ranks;
    const System &system = bench.system;
    auto gauge = system.own;
    std::vector<double> fat(gauge.size()), lng(gauge.size());
    const milcgpu_field from = field_of(gauge), to_fat = field_of(fat), to_long = field_of(lng);
    const milcgpu_fatlink_set set{0, &to_fat, &to_long, nullptr};
    reference::HisqLinks hisq;
    ranks.on_first([&] { hisq = reference::hisq_links(system.lattice, system.gauge, 0); });
    for (const bool is_hisq : {false, true}) {
        const auto wanted_fat = deal_links<double>(ranks, system.lattice, is_hisq ? hisq.fat : system.fat);
        const auto wanted_long = deal_links<double>(ranks, system.lattice, is_hisq ? hisq.lng : system.lng);
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE}) {
            milcgpu_fatlink_spec spec;
            is_hisq ? milcgpu_hisq_defaults(&spec, sizeof spec)
                    : milcgpu_asqtad_defaults(system.u0, &spec, sizeof spec);
            spec.precision = precision;
            const Precision p = static_cast<Precision>(precision - 1);
            const Operation what{"links", format("%s call 18", is_hisq ? "hisq" : "asqtad"), name(p)};
            std::vector<double> seconds;
            double flops = 0, bytes = 0;
            for (int run = 0; run < 5; ++run) {
                milcgpu_fatlink_report report{};
                report.struct_size = sizeof report;
                ranks.together();
                if (milcgpu_links_make(&bench.context(), &spec, &from, &set, 1, nullptr, &report) != MILCGPU_OK)
                    bench.table.wrong(what, report.message);
                seconds.push_back(ranks.slowest(report.kernel_seconds));
                flops = ranks.sum(report.flops);
                bytes = ranks.sum(report.gbytes_per_second * 1e9 * report.kernel_seconds);
            }
            std::sort(seconds.begin(), seconds.end());
            bench.table.row(what, {seconds[seconds.size() / 2], flops, bytes},
                            std::hypot(difference(ranks, fat, wanted_fat, fat.size()),
                                       difference(ranks, lng, wanted_long, lng.size())),
                            links_tolerance(p, 3.9e-16, 9.8e-8));
        }
    }
}

} // namespace

void bench_links(const Bench &bench) {
    if (!bench.context().geometry.is_cut())
        time_kernels(bench);
    time_calls(bench);
}

} // namespace examples
