// What a solver knows of an operator: A = shift + sign B^dag B, sign 1 or -1, hermitian and positive, on the sites of
// one parity. It is applied in two launches: B x, and B^dag of that with an epilogue (blas/epilogue.h) which adds shift
// x and what conjugate gradient needs. <v, A v> = shift |v|^2 + sign |B v|^2 is known after the first
// (CgState::set_step_along_p).
#pragma once
#include "gpu_kernels/backend/checksum.h"
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/blas/epilogue.h"

namespace milcgpu {

// How an operator is stored: precision of vectors and of links, reals of a long link.
struct OperatorSpec {
    Precision spinor, link;
    int reals;
    bool operator==(const OperatorSpec &o) const { return spinor == o.spinor && link == o.link && reals == o.reals; }
};

class NormalOperator {
  public:
    NormalOperator(const Geometry &geometry, int parity, const OperatorSpec &spec)
        : geometry_(geometry), parity_(parity), spec_(spec) {}
    virtual ~NormalOperator() = default;
    const Geometry &geometry() const { return geometry_; }
    int parity() const { return parity_; } // of the vectors
    const OperatorSpec &spec() const { return spec_; }
    virtual int components() const { return 1; } // colour vectors a site
    virtual int sign() const { return 1; }       // of B^dag B

    // out = B in. call.x and what follows it up to alpha are not read.
    virtual void first_half(Device &, const HalfCall &) const = 0;
    // in = B x, by the epilogue normal, residual or step. The shift is call.a, or in a step that of call.cg. With
    // call.checksums, which needs takes_checksums(), residual only.
    virtual void second_half(Device &, const HalfCall &, Epilogue) const = 0;

    // Where the neighbours' GPUs are reached directly: x, before a first half of it that is told in_sent; and how a
    // launch sends such a vector itself. (No send() is needed after that.)
    virtual void send(Device &, const SpinorBlock &) const {}
    virtual SendOut send_out() const { return {}; }

    // Room for vectors, and for B of them.
    SpinorField vectors(Device &device, const char *owner, int sources = 1) const {
        return {device, spec_.spinor, geometry_, parity_, owner, sources, components()};
    }
    virtual SpinorField between(Device &, const char *owner, int sources = 1) const = 0;
    virtual int sites_between() const = 0;

    // |A x| / |x| that storing the operator's links in precision p costs, on rough x.
    virtual double rounding(Precision p) const = 0;
    // What no eigenvalue of A is below.
    virtual double lowest(double shift) const { return shift; }

    // Whether several sources are applied to at once, with any epilogue.
    virtual bool takes_several() const = 0;

    // Whether the host has work between its launches, beside sums of ranks: then they are not recorded.
    virtual bool needs_host() const { return false; }

    // The resident data that the operator is made of.
    virtual std::vector<Region> stands_on() const = 0;
    // Whether a residual can take the checksums of these on the way, most_checksums of them at the most.
    virtual bool takes_checksums() const = 0;
    static constexpr int most_checksums = 2;

    // Work and compulsory bytes of both halves, the second with this epilogue, on one source.
    virtual double flops(Epilogue) const = 0;
    virtual double bytes(Epilogue) const = 0;
    // Of these bytes, how often a vector is read or written; the others do not grow with the number of sources.
    virtual int passes(Epilogue second) const { return traits(Epilogue::plain).spinors + traits(second).spinors; }

  private:
    Geometry geometry_;
    int parity_;
    OperatorSpec spec_;
};

// out = b - A x, of one source or, without a sum, of several; between: room for B x; *sum (device) = |out|^2. checksums
// (device; nullptr: not wanted), where the operator takes them: of what it stands on, as it was read.
void residual(Device &, const NormalOperator &, double shift, const SpinorBlock &b, const SpinorBlock &x,
              const SpinorBlock &between, const SpinorBlock &out, double *sum, uint64_t *checksums = nullptr);

// Slots of the sums of an iteration, each deferred to the launch that follows (reduce.h).
struct DeferredSums {
    DeviceArray<double> plain, step;
    DeferredSums() = default;
    DeferredSums(Device &, const NormalOperator &);
    static size_t bytes(const Geometry &); // that they allocate
};

} // namespace milcgpu
