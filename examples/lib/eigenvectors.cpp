#include "examples/lib/eigenvectors.h"
#include "examples/lib/progress.h"
#include <chrono>
#include <cmath>

namespace examples {

Eigenvectors::Eigenvectors(const Job &ranks, const Connection &connection, const EigenChoice &choice) {
    if (choice.count == 0 && choice.from.empty())
        return;
    const auto start = std::chrono::steady_clock::now();
    if (!choice.from.empty()) {
        must(milcgpu_eigenvectors_read(connection.links(), choice.from.c_str(), choice.precision, choice.count,
                                       &vectors_));
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        std::printf("%d eigenvectors of %s read in %.2f s\n", milcgpu_eigenvectors_count(vectors_),
                    milcgpu::quoted_name(choice.from).c_str(), ranks.slowest(seconds));
    } else {
        milcgpu_eigen_spec spec;
        milcgpu_eigen_defaults(&spec, sizeof spec);
        spec.count = choice.count, spec.parity = choice.parity;
        spec.tolerance = choice.tolerance, spec.precision = choice.precision;
        struct Start {
            milcgpu_eigenvectors *vectors = nullptr;
            ~Start() { milcgpu_eigenvectors_destroy(vectors); }
        } begin;
        if (!choice.start.empty())
            must(milcgpu_eigenvectors_read(connection.links(), choice.start.c_str(), choice.precision, 0,
                                           &begin.vectors));
        spec.start = begin.vectors;
        ProgressLine progress(ranks.is_first());
        spec.user = &progress;
        spec.progress = [](void *line, int done, int of) {
            static_cast<ProgressLine *>(line)->show("%d of %d vectors of the Krylov space", done, of);
        };
        milcgpu_eigen_report report{};
        report.struct_size = sizeof report;
        const milcgpu_status status = milcgpu_eigenvectors_compute(connection.links(), &spec, &vectors_, &report);
        progress.clear();
        must(status);
        std::printf("%d eigenvectors in %.2f s: basis %d, degree %d, %d restarts, %.0f applications, %.0f GFLOPS%s%s\n",
                    report.count, ranks.slowest(report.seconds), report.basis, report.degree, report.restarts,
                    report.applications, report.gflops, report.message[0] != 0 ? ". " : "", report.message);
    }
    values_.resize(milcgpu_eigenvectors_count(vectors_)), residuals_.resize(values_.size());
    must(milcgpu_eigenvectors_values(vectors_, values_.data(), residuals_.data()));
}

void Eigenvectors::print(int every) const {
    const int count = static_cast<int>(values_.size());
    const auto line = [&](int k) {
        std::printf("  %6d  l %.6e  lambda %.6e  residual %.1e\n", k + 1, values_[k], std::sqrt(values_[k]) / 2,
                    residuals_[k]);
    };
    for (int k = 0; k < count - 1; k += every)
        line(k);
    if (count > 0)
        line(count - 1);
}

void Eigenvectors::write(const std::string &file, int precision) const {
    const auto start = std::chrono::steady_clock::now();
    must(milcgpu_eigenvectors_write(vectors_, file.c_str(), precision, nullptr));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("written in %.2f s: %s\n", seconds, milcgpu::quoted_name(file).c_str());
}

} // namespace examples
