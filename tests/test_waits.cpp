// Waits inside kernels have an end, and the host names them. Only a GPU waits.
#include "gpu_kernels/operators/staggered.h"
#include "reorder/resident_links.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;

TEST_CASE("a wait inside a kernel gives up, is named, and the device goes on", "[faults][waits]") {
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
        state.start(1, 1); // the step length is unknown, and nothing is queued that would give it
        state.waits = device.waits();
        const DeviceArray<CgState> cg(device, 1, "test");
        device.copy_to_device(cg.data(), &state, sizeof state);
        HalfCall call;
        call.in = between, call.out = call.x = call.z = r, call.s = s;
        call.cg = cg.data();
        A.second_half(device, call, Epilogue::step);
        try {
            device.synchronize();
            FAIL("the wait ended without a word");
        } catch (const Error &error) {
            CHECK(error.status() == Status::timed_out);
            CHECK(std::string(error.what()).find("the step length of conjugate gradient") != std::string::npos);
        }
        // The sums are clean again.
        const DeviceArray<double> sum(device, 1, "test");
        norm_squared(device, r, sum.data());
        device.synchronize();
        CHECK(sum.to_host()[0] != 0); // NaN: the step went on with an unknown length
        device.fill_zero(r.data(), r.bytes());
        norm_squared(device, r, sum.data());
        CHECK(sum.to_host()[0] == 0);
    }
}
