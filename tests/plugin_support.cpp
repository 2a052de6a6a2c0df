#include "tests/plugin_support.h"
#include <cstdlib>
#include <unistd.h>

namespace tests {

std::string said_by(const std::function<void()> &work) {
    std::fflush(stderr);
    const int before = dup(2);
    FILE *file = std::tmpfile();
    REQUIRE(file != nullptr);
    dup2(fileno(file), 2);
    work();
    std::fflush(stderr);
    dup2(before, 2);
    close(before);
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
        text += static_cast<char>(c);
    std::fclose(file);
    CHECK(text.find(" \n") == std::string::npos);
    return text;
}

Milc::Milc(const reference::Lattice &on)
    : lattice(on), order(on.volume()), b(tests::random_fermion(on, 4)), links(tests::asqtad_links(on, 6)) {
    for (int k = 0; k < lattice.volume(); ++k)
        order[k] = k;
    fat = reference::links_to_milc<double>(lattice, links.fat);
    lng = reference::links_to_milc<double>(lattice, links.lng);
    source = reference::vector_to_milc<double>(lattice, b);
    x.assign(source.size(), 0);
}

Milc::~Milc() {
    plugin().close();
    plugin().verbosity = 0; // no tables after those of the tests
}

milcgpu_milc Milc::described() const {
    auto milc = sized<milcgpu_milc>();
    milc.header_version = MILCGPU_VERSION;
    milc.milc = "a test";
    milc.precision = 2;
    milc.ranks = 1;
    std::copy(lattice.n.begin(), lattice.n.end(), milc.extent);
    milc.own_routines = 1;
    milc.report_sizes = milcgpu_sizes_of_reports();
    milc.site_map = order.data();
    return milc;
}

milcgpu_plugin_solve_call Milc::call() {
    milcgpu_plugin_solve_call c{};
    c.routine = MILCGPU_KS_CONGRAD;
    c.mixed = MILCGPU_MIXED_AUTO;
    c.fat = fat.data(), c.lng = lng.data();
    c.parity = MILCGPU_EVEN;
    c.mass = 0.4;
    c.tolerance = 1e-8;
    c.max_iterations = 1000, c.max_restarts = 5;
    c.source = field(source), c.solution = field(x);
    return c;
}

double Milc::residual(const std::vector<double> &solution, double mass) const {
    const auto to = [&](const std::vector<double> &links_of_milc) {
        reference::Gauge out(4 * lattice.volume());
        const auto sites = reference::milc_order(lattice);
        for (int k = 0; k < lattice.volume(); ++k)
            std::copy_n(links_of_milc.data() + 72 * static_cast<size_t>(k), 72,
                        reinterpret_cast<double *>(&out[4 * static_cast<size_t>(sites[k])]));
        return out;
    };
    reference::Fermion field(lattice.volume());
    const auto sites = reference::milc_order(lattice);
    for (int k = 0; k < lattice.volume(); ++k)
        std::copy_n(solution.data() + 6 * static_cast<size_t>(k), 6, reinterpret_cast<double *>(&field[sites[k]]));
    const auto ax = reference::normal_operator(lattice, to(fat), to(lng), mass, 0, field);
    double rr = 0, bb = 0;
    for (int s = 0; s < lattice.volume(); ++s)
        if (lattice.parity(s) == 0) {
            rr += reference::norm2(b[s] - ax[s]);
            bb += reference::norm2(b[s]);
        }
    return std::sqrt(rr / bb);
}

Masses::Masses(Milc &of, std::vector<double> masses, double tolerance)
    : milc(of), tolerances(masses.size(), tolerance), relative(masses.size(), 0),
      x(masses.size(), std::vector<double>(of.x.size(), 0)), shifts(masses.size()) {
    for (size_t i = 0; i < masses.size(); ++i) {
        offsets.push_back(4 * masses[i] * masses[i]);
        fields.push_back(Milc::field(x[i]));
    }
}

milcgpu_plugin_multi_mass_call Masses::call() {
    milcgpu_plugin_multi_mass_call c{};
    c.mixed = MILCGPU_MIXED_AUTO;
    c.fat = milc.fat.data(), c.lng = milc.lng.data();
    c.parity = MILCGPU_EVEN;
    c.n_shifts = static_cast<int>(offsets.size());
    c.offsets = offsets.data(), c.tolerances = tolerances.data(), c.relative_tolerances = relative.data();
    c.max_iterations = 1000, c.max_restarts = 5;
    c.source = Milc::field(milc.source);
    c.solutions = fields.data();
    return c;
}

} // namespace tests
