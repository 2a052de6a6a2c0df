// Waits inside kernels time out, and the host names them. Only a GPU waits.
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "reorder/resident_links.h"
#include "tests/cut_support.h"
#include <algorithm>

using namespace milcgpu;
using namespace tests;

TEST_CASE("a wait inside a kernel times out and is named, and the device stays usable", "[faults][waits]") {
    if (Device::gpu_count() == 0)
        SKIP_TEST("no GPU: the host backend never waits");
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Geometry geometry(lattice.n);
    Device device(Backend::cuda, 0);
    const SiteMap map;
    ResidentLinks links(device, map, geometry, Precision::double_);
    auto fat = reference::links_to_milc<double>(lattice, random_links(lattice, 1)),
         lng = reference::links_to_milc<double>(lattice, random_links(lattice, 2));
    links.update({fat.data(), Precision::double_, 576}, {lng.data(), Precision::double_, 576});
    const StaggeredOperator A(geometry, 0, {Precision::double_, Precision::double_, 18}, links.full());
    const SpinorField r = A.vectors(device, "test"), s = A.vectors(device, "test"), between = A.between(device, "test");
    for (const SpinorField *field : {&r, &s, &between})
        device.fill_zero(field->data(), field->bytes());
    for (const int parts_below : {0, 1 << 30}) { // one thread a site, and four
        device.set_parts_below(parts_below);
        CgState state{};
        state.start(1, 1); // the step length is unknown, and no queued kernel will give it
        state.waits = device.waits();
        const DeviceArray<CgState> cg(device, 1, "test");
        device.copy_to_device(cg.data(), &state, sizeof state);
        HalfCall call;
        call.in = between, call.out = call.x = call.z = r, call.s = s;
        call.cg = cg.data();
        A.apply_half(device, call, Epilogue::step);
        CHECK(has(refusal_by(Status::timed_out, [&] { device.synchronize(); }), "conjugate gradient"));
        // The memory of sums is clean again.
        const DeviceArray<double> sum(device, 1, "test");
        norm_squared(device, r, sum.data());
        device.synchronize();
        CHECK(sum.to_host()[0] != 0); // NaN: the step went on with an unknown length
        device.fill_zero(r.data(), r.bytes());
        norm_squared(device, r, sum.data());
        CHECK(sum.to_host()[0] == 0);
    }
}

TEST_CASE("each wait for another rank's ghosts times out and is named", "[faults][waits][cut]") {
    if (Device::gpu_count() == 0)
        SKIP_TEST("no GPU: on the host backend ghosts come as messages");
    const bool by_host = GENERATE(false, true);
    const Environment limit{{"MILCGPU_TIMEOUT", "0.5"}, {"MILCGPU_DIRECT", by_host ? "host" : "1"}};
    const Cut cut{{4, 4, 4, 4}, {1, 1, 1, 1}, 8}; // its own neighbour in t
    const Fields fields = fields_on(cut.whole, true);
    const std::vector<Ending> endings = on_cut(fields, cut, Backend::cuda, [&](Here &here, Ending &ending) {
        std::vector<double> out(here.source.size());
        const milcgpu_field from = field_of(here.source), to = field_of(out);
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        const auto apply = [&] { return milcgpu_staggered_dslash(here.links, &what, MILCGPU_EVEN, &from, &to); };
        demand(apply());
        Device &device = *here.context->device;
        Peers good;
        device.copy_to_host(&good, device.peers(), sizeof good);
        const int ahead = 7; // the neighbour in front receives the ghosts of its back face
        Peers uncounted = good, unheard = good;
        uncounted.blocks_done = 1000; // no block is the last one, so the number of the vector is wrong
        unheard.face[ahead].tell = good.face[ahead - 1].tell; // the notice of this rank goes to another face
        std::vector<const Peers *> wrong{&uncounted, &uncounted};
        if (!by_host) // by the host, no notices go through Peers
            wrong.insert(wrong.begin() + 1, &unheard);
        for (const Peers *planted : wrong) {
            device.copy_to_device(device.peers(), planted, sizeof good);
            std::fill(out.begin(), out.end(), 7.0);
            ending.status = apply();
            ending.text = milcgpu_last_error();
            if (ending.status != MILCGPU_TIMED_OUT || out != std::vector<double>(out.size(), 7.0))
                throw Error(Status::corrupted, "no timeout, or results");
        }
    });
    CHECK(all_ended(endings, Status::timed_out, "ghosts from rank 0 ("));
    CHECK(all_ended(endings, Status::timed_out, " in t)"));
    CHECK(endings[0].seconds < 30);
}

TEST_CASE("a kernel never uses ghosts that change on their way over the host: its wait times out and is named",
          "[faults][waits][cut]") {
    if (Device::gpu_count() < 2)
        SKIP_TEST("fewer than two GPUs: ghosts of kernels do not travel as messages");
    const Environment settings{{"MILCGPU_TIMEOUT", "5"}, {"MILCGPU_DIRECT", "0"}};
    const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Fields fields = fields_on(cut.whole, true);
    const std::vector<Ending> endings = on_cut(fields, cut, Backend::cuda, [&](Here &here, Ending &ending) {
        std::vector<double> out(here.source.size(), 7.0);
        const milcgpu_field from = field_of(here.source), to = field_of(out);
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        const auto apply = [&] { return milcgpu_staggered_dslash(here.links, &what, MILCGPU_EVEN, &from, &to); };
        demand(apply());
        if (!here.context->device->has_meanwhile())
            throw Error(Status::not_built, "the host does not pass ghosts on");
        std::fill(out.begin(), out.end(), 7.0);
        for (double &number : here.source) // ghosts that differ from the previous ghosts
            number *= 3;
        if (here.rank() == 1) // a row of a face: 3 layers of 4^3 / 2 sites, 16 bytes each
            here.room->corrupt(1, 3 * 32 * 16);
        ending.status = apply();
        ending.text = milcgpu_last_error();
        if (out != std::vector<double>(out.size(), 7.0))
            ending.text += "; results were written";
    });
    CAPTURE(endings[0].status, endings[0].text, endings[1].text);
    CHECK(endings[1].status == MILCGPU_TIMED_OUT);
    CHECK(has(endings[1].text, "ghosts from rank 0"));
    CHECK_FALSE(has(endings[1].text, "results were written")); // by this test, above
    CHECK(endings[0].seconds < 30);
}
