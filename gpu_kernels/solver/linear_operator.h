// What a solver of M x = b knows of M, which need not be hermitian: vectors on the sites of one parity, `components`
// colour vectors a site (4 for Wilson fermions).
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/solver/normal_operator.h"

namespace milcgpu {

// out = M in. in and out are different fields.
struct MatrixCall {
    SpinorBlock in, out;
    SpinorBlock with{};        // for the sum <with, out>; empty: that sum is 0
    double *sums = nullptr;    // on the device: Re and Im of <with, out>, |out|^2; nullptr: not wanted
    const int *gate = nullptr; // where this is 0 on the device, the launches do nothing
};
constexpr int matrix_sums = 3;

class LinearOperator {
  public:
    LinearOperator(const Geometry &geometry, int parity, const OperatorSpec &spec, int components)
        : geometry_(geometry), parity_(parity), spec_(spec), components_(components) {}
    virtual ~LinearOperator() = default;
    const Geometry &geometry() const { return geometry_; }
    int parity() const { return parity_; } // of the vectors
    const OperatorSpec &spec() const { return spec_; }
    int components() const { return components_; }

    // Room for vectors.
    SpinorField vectors(Device &device, const char *owner, int sources = 1) const {
        return {device, spec_.spinor, geometry_, parity_, owner, sources, components_};
    }

    virtual void apply(Device &, const MatrixCall &) const = 0;        // out = M in
    virtual void apply_dagger(Device &, const MatrixCall &) const = 0; // out = M^dag in

    // As NormalOperator's.
    virtual bool needs_host() const { return false; }

    // The resident data that the operator is made of.
    virtual std::vector<Region> checked_regions() const = 0;

    // Work and compulsory bytes of one application.
    virtual double flops() const = 0;
    virtual double bytes() const = 0;

  private:
    Geometry geometry_;
    int parity_;
    OperatorSpec spec_;
    int components_;
};

} // namespace milcgpu
