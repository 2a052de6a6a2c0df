// A normal operator (solver/normal_operator.h) whose halves are stencils from one parity to the other and back.
#pragma once
#include "gpu_kernels/solver/normal_operator.h"
#include <cmath>

namespace milcgpu {

class Halo;

class StencilOperator : public NormalOperator {
  public:
    // halo: needed if the geometry is cut; it must outlive the operator.
    StencilOperator(const Geometry &geometry, int parity, const OperatorSpec &spec, Halo *halo)
        : NormalOperator(geometry, parity, spec), halo_(halo) {}
    SpinorField between(Device &device, const char *owner, int sources = 1) const override {
        return {device, spec().spinor, geometry(), 1 - parity(), owner, sources};
    }
    int sites_between() const override { return geometry().sites(1 - parity()); }
    double flops(Epilogue second) const override {
        return double(half_flops(Epilogue::plain, sites_between())) +
               double(half_flops(second, geometry().sites(parity())));
    }
    double bytes(Epilogue second) const override {
        return double(half_bytes(Epilogue::plain, sites_between())) +
               double(half_bytes(second, geometry().sites(parity())));
    }

  protected:
    // Flops and compulsory bytes of one launch.
    virtual size_t half_flops(Epilogue, size_t sites) const = 0;
    virtual size_t half_bytes(Epilogue, size_t sites) const = 0;
    // Rounded links change D by dD, and the residual b - A x by about |D dD x|. An element of a link has the error q =
    // scale epsilon / sqrt(12) on average. So dD changes a colour vector by sqrt(6 n) q (n links, 6 terms each). size:
    // sqrt(6 n) times the factor by which D multiplies a rough vector.
    static double error_of_links(Precision p, double size, double scale) {
        const double epsilon = p == Precision::half ? 1.0 / 32768 : p == Precision::single ? 1.0 / (1 << 24) : 0;
        return size * scale * epsilon / std::sqrt(12.0);
    }
    Halo *halo() const { return halo_; }

  private:
    Halo *halo_;
};

} // namespace milcgpu
