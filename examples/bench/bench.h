// The parts of the program `bench`. Each part times its operations on one lattice, verifies every timed result, and
// writes the rows.
#pragma once
#include "examples/bench/table.h"
#include "examples/lib/system.h"
#include "examples/lib/timing.h"
#include "milc_glue/api/context.h"
#include <cmath>
#include <optional>

namespace examples {

struct BenchSettings {
    std::string backend = "auto", csv, pairs = "all", compare, only = "all", dense_precision = "all";
    std::array<int, 4> size = {0, 0, 0, 0}, grid = {1, 1, 1, 1};
    double mass = 0.01, tolerance = 1e-10, delta = 0, noise = 3;
    int block = 0;
    std::optional<int> asked_reals, asked_sweeps;
    int reals = 0, sweeps = 8; // sweeps: enough for solves of the usual length
    int hisq_terms = 30, asqtad_terms = 8;
    bool all_rows = false, quick = false, sweep_shapes = false;
};

struct Bench {
    const Job &ranks;
    const BenchSettings &settings;
    const System &system; // with the reference's links
    const Connection &connection;
    Table &table;

    milcgpu_context &context() const { return *connection.context(); }
    milcgpu::Device &device() const { return *context().device; }
    bool on_gpu() const { return device().on_gpu(); }
    bool wants(int reals) const { return settings.reals == 0 || settings.reals == reals; } // reals of a long link
};

// Over the first `count` reals of every rank.
inline double difference(const Job &ranks, const std::vector<double> &a, const std::vector<double> &b, size_t count) {
    double d = 0, size = 0;
    for (size_t k = 0; k < count; ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(ranks.sum(d) / ranks.sum(size));
}

void bench_dslash(const Bench &bench);  // rows of the dslash table, on one source and on several
void bench_links(const Bench &bench);   // fat and long links, HISQ
void bench_solves(const Bench &bench);  // conjugate gradients
void bench_masses(const Bench &bench);  // ten masses in one solve
void bench_sources(const Bench &bench); // several sources in one solve
void bench_forces(const Bench &bench);  // forces, updates, actions, gradient flow
// One rank only.
void bench_gauge(const Bench &bench);     // gauge fixing, APE smearing
void bench_mesons(const Bench &bench);    // shifts, operators, smearing, contractions of quark fields
void bench_operators(const Bench &bench); // the gauge Laplace operator
void bench_wilson(const Bench &bench);    // Wilson and clover fermions
void bench_dirac(const Bench &bench);     // contractions of Dirac fields
void bench_deflation(const Bench &bench); // passes over eigenvectors
void bench_dense(const Bench &bench);     // Gram matrices and rotations of many fields

} // namespace examples
