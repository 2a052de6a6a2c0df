// Handles of the C interface that are destroyed at the end of their block.
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/catch.h"

namespace tests {

// Arguments: those of `create`, without the last.
template <class Of, auto create, auto destroy> struct OwnedHandle {
    Of *of = nullptr;
    template <class... Arguments> explicit OwnedHandle(const Arguments &...arguments) {
        REQUIRE(create(arguments..., &of) == MILCGPU_OK);
    }
    OwnedHandle(const OwnedHandle &) = delete;
    ~OwnedHandle() { destroy(of); }
    operator Of *() const { return of; }
    Of *operator->() const { return of; }
};
using GaugeHandle = OwnedHandle<milcgpu_gauge, milcgpu_gauge_create, milcgpu_gauge_destroy>;
using VectorsHandle = OwnedHandle<milcgpu_vectors, milcgpu_vectors_create, milcgpu_vectors_destroy>;
using MesonLinksHandle = OwnedHandle<milcgpu_meson_links, milcgpu_meson_links_create, milcgpu_meson_links_destroy>;
using WilsonHandle = OwnedHandle<milcgpu_wilson, milcgpu_wilson_create, milcgpu_wilson_destroy>;
using LinksHandle = OwnedHandle<milcgpu_links, milcgpu_links_create, milcgpu_links_destroy>;

// None at first.
struct EigenvectorsHandle {
    milcgpu_eigenvectors *of = nullptr;
    EigenvectorsHandle() = default;
    EigenvectorsHandle(const EigenvectorsHandle &) = delete;
    ~EigenvectorsHandle() { milcgpu_eigenvectors_destroy(of); }
    milcgpu_eigenvectors *operator*() const { return of; }
};

} // namespace tests
