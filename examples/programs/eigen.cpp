// Computes the lowest eigenvectors of -D^2 on a gauge field (from a file or thermalized), or reads them from a file of
// MILC's, and writes such a file. Prints l, lambda = sqrt(l) / 2 and |B v - l v|, and the number of modes below a
// lambda. Writes a table, which eigen.gp draws. Exit status: 0, or 1 after a failure.
#include "examples/lib/eigenvectors.h"
#include "examples/lib/mode_line.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace {

struct Settings {
    std::string lattice_file, from, start, out, csv, backend = "auto", action = "hisq", parity = "even",
                                                     precision = "half", out_precision = "single";
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0, tolerance = 0;
    int sweeps = 20, count = 0;
    unsigned long seed = 1;
    bool quiet = false;
};

constexpr int default_count = 64;

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("eigen", "the lowest eigenvectors of -D^2, and the density of modes");
    add_gauge_field(arguments, s, "gauge field");
    arguments.add("action", "NAME", s.action, "the action that defines the links", action_name());
    arguments.add("count", "N", s.count,
                  "number of eigenvectors; 0: " + std::to_string(default_count) + ", or all in the file",
                  whole(0, 100000));
    arguments.add("parity", "NAME", s.parity, "parity of the eigenvectors; a file determines its own",
                  one_of({"even", "odd"}));
    arguments.add("tolerance", "R", s.tolerance,
                  "for |B v - l v| relative to the largest l; 0: the low accuracy that deflation needs", from(0, 1));
    arguments.add("precision", "NAME", s.precision, "precision of the vectors on the device",
                  one_of({"half", "single"}));
    arguments.add("from", "FILE", s.from, "read the eigenvectors from a file of MILC's (without QIO)", file_name());
    arguments.add("start", "FILE", s.start,
                  "start from the vectors of such a file, which may be fewer or less accurate", file_name());
    arguments.add("out", "FILE", s.out, "write the eigenvectors into this file, in MILC's format without QIO",
                  file_name());
    arguments.add("out-precision", "NAME", s.out_precision,
                  "precision of this file: the PRECISION of the MILC that will read it", one_of({"single", "double"}));
    add_backend(arguments, s.backend, false);
    Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write a table with a line per mode", file_name());
    arguments.add("quiet", "", s.quiet, "print eight lines, not one for each mode");
    if (!arguments.parse(argc, argv))
        return false;
    if (!s.from.empty() && !s.start.empty())
        throw ArgumentError("--from reads vectors and --start computes them: give only one of them");
    if (!s.from.empty() && s.tolerance > 0)
        throw ArgumentError("--from reads vectors as they are: omit --tolerance");
    return true;
}

int run(const Settings &s, examples::Job &ranks) {
    ranks.start(s.grid);
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::EigenChoice choice;
    choice.from = s.from, choice.start = s.start;
    choice.count = s.count == 0 && s.from.empty() ? default_count : s.count;
    choice.parity = s.parity == "even" ? MILCGPU_EVEN : MILCGPU_ODD;
    choice.tolerance = s.tolerance;
    choice.precision = s.precision == "half" ? MILCGPU_HALF : MILCGPU_SINGLE;
    const int out_precision = s.out_precision == "single" ? MILCGPU_SINGLE : MILCGPU_DOUBLE;
    examples::Csv csv(10);
    ranks.on_first([&] {
        csv.open("--csv", s.csv, examples::with_origin({"mode", "l", "lambda", "residual", "line"}));
        examples::check_writable("--out", s.out);
    });
    reference::Lattice lattice{s.size};
    std::vector<double> gauge = examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
                                                             2 * examples::gauge_bytes);
    const double bytes = (out_precision == MILCGPU_SINGLE ? 12.0 : 24.0) * choice.count * lattice.volume();
    ranks.on_first([&] { examples::check_writable("--out", s.out, bytes); });
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), false);
    examples::print_ranks(ranks, lattice);
    const examples::Connection connection(ranks, system, backend);
    const examples::Eigenvectors eigenvectors(ranks, connection, choice);
    const int count = static_cast<int>(eigenvectors.values().size());
    eigenvectors.print(s.quiet ? std::max(1, count / 8) : 1);
    std::vector<double> lambda;
    for (const double l : eigenvectors.values())
        lambda.push_back(std::sqrt(l) / 2);
    const examples::ModeLine line = examples::mode_line(lambda);
    if (count > 1)
        std::printf("modes below lambda: %.1f + %.1f lambda, %.3e per site\n", line.offset, line.slope,
                    line.slope / lattice.volume());
    const examples::Cells origin = examples::origin_cells(lattice.n, milcgpu_context_device_name(connection.context()));
    for (int k = 0; k < count; ++k)
        csv.row(k + 1, eigenvectors.values()[k], lambda[k], eigenvectors.residuals()[k],
                line.offset + line.slope * lambda[k], origin);
    csv.finish();
    if (!s.out.empty())
        eigenvectors.write(s.out, out_precision);
    return 0;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
