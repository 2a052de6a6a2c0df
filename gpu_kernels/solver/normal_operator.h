// What a solver knows of an operator A = shift + sign B^dag B, with sign 1 or -1. A is hermitian and positive and lives
// on the sites of one parity. It is applied in two launches: first B x, then B^dag of that, with an epilogue
// (algebra/epilogue.h) that adds shift x and computes what conjugate gradient needs.
// <v, A v> = shift |v|^2 + sign |B v|^2 is known after the first launch (CgState::set_step_along_p). Example: for
// staggered fermions shift is 4 m^2 and B is D.
#pragma once
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/algebra/epilogue.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include <cmath>
#include <memory>

namespace milcgpu {

// Calls use(first, count, before) for each run of consecutive numbers in `of`, a run of at most `most`: vectors that a
// launch can take together. before: how many numbers the runs before have.
template <class Use> void for_each_run(const std::vector<int> &of, int most, const Use &use) {
    const int n = static_cast<int>(of.size());
    for (int before = 0, count = 1; before < n; before += count, count = 1) {
        while (count < most && before + count < n && of[before + count] == of[before] + count)
            ++count;
        use(of[before], count, before);
    }
}

// How an operator is stored: precision of vectors and of links, reals of a long link.
struct OperatorSpec {
    Precision spinor, link;
    int reals;
    bool for_residuals = false;     // applied a few times a solve: copies of its links would not pay
    bool allows_half_links = false; // iterates in single between true residuals in double
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

    // One of the two launches. Epilogue::plain is the first: out = B in; it does not read x, z, s, a and alpha of the
    // call. The epilogues normal, residual and step are the second, with in = B x. The shift is call.a; in a step it is
    // the shift of call.cg. call.checksums may be set only for residual, and only if takes_checksums().
    virtual void apply_half(Device &, const HalfCall &, Epilogue) const = 0;

    // Only if the neighbours' GPUs are reached directly. send: sends the ghosts of x, before a first half with in_sent.
    // send_out: lets another launch send the ghosts of a vector that it computes, in place of send().
    virtual void send(Device &, const SpinorBlock &) const {}
    virtual SendOut send_out() const { return {}; }

    // Room for vectors, and for B of them.
    SpinorField vectors(Device &device, const char *owner, int sources = 1) const {
        return {device, spec_.spinor, geometry_, parity_, owner, sources, components()};
    }
    virtual SpinorField between(Device &, const char *owner, int sources = 1) const = 0;
    virtual int sites_between() const = 0;

    // How much A changes when its links are stored in precision p: |(change of A) x| / |x| for a rough vector x.
    virtual double rounding(Precision p) const = 0;
    // A lower bound of the eigenvalues of A.
    virtual double lowest(double shift) const { return shift; }
    // About the largest one; infinite: not known.
    virtual double highest(double) const { return INFINITY; }

    // Whether A can be applied to several sources in one launch, with any epilogue.
    virtual bool takes_several() const = 0;

    // Whether the host has work between its launches, beside sums of ranks: then they are not recorded.
    virtual bool needs_host() const { return false; }

    // The resident data that the operator is made of.
    virtual std::vector<Region> checked_regions() const = 0;
    // Whether the epilogue residual can compute the checksums of the first most_checksums of them.
    virtual bool takes_checksums() const = 0;
    static constexpr int most_checksums = 2;

    // Flops and compulsory bytes of both launches, the second with this epilogue, for one source.
    virtual double flops(Epilogue) const = 0;
    virtual double bytes(Epilogue) const = 0;
    // How often these bytes include a vector, read or written; the other bytes do not grow with the number of sources.
    virtual int passes(Epilogue second) const { return traits(Epilogue::plain).spinors + traits(second).spinors; }

  private:
    Geometry geometry_;
    int parity_;
    OperatorSpec spec_;
};

// Applies A to call.x by two launches. The second one has the epilogue `end`, with its arguments in `call`: for
// Epilogue::normal call.out = A call.x. between: room for B x.
void apply(Device &, const NormalOperator &, HalfCall, const SpinorBlock &between, Epilogue end);

// out = b - A x. *sum (device) = |out|^2; several sources only without a sum. between: room for B x. checksums (device;
// nullptr: not wanted): those of checked_regions(), as the launch has read the data.
struct ResidualFields {
    SpinorBlock b, x, between, out;
};
void residual(Device &, const NormalOperator &, double shift, const ResidualFields &, double *sum,
              uint64_t *checksums = nullptr);

// Slots for the sums of the two launches of an iteration. Each sum is deferred to the next launch (reduce.h).
struct DeferredSums {
    DeviceArray<double> plain, step;
    DeferredSums() = default;
    DeferredSums(Device &, const NormalOperator &);
};

// An operator that may outlive the call that made it.
using Operator = std::shared_ptr<const NormalOperator>;

} // namespace milcgpu
