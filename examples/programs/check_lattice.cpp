// check_lattice: whether a file holds a gauge field that programs can use, in one line at the end.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "examples/lib/arguments.h"
#include "examples/lib/system.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/api/milcgpu_md.h"

namespace {

// The gauge field of this rank, for plaquettes and the Polyakov loop.
class LoadedGauge {
  public:
    LoadedGauge(milcgpu_context *context, const milcgpu_field &links) {
        examples::must(milcgpu_gauge_create(context, MILCGPU_DOUBLE, &gauge_));
        try {
            examples::must(milcgpu_gauge_load(gauge_, &links, -1)); // whatever their unitarity
        } catch (...) {
            milcgpu_gauge_destroy(gauge_);
            throw;
        }
    }
    ~LoadedGauge() { milcgpu_gauge_destroy(gauge_); }
    LoadedGauge(const LoadedGauge &) = delete;
    operator milcgpu_gauge *() const { return gauge_; }

  private:
    milcgpu_gauge *gauge_ = nullptr;
};

const char *name_of(int format) {
    return format == MILCGPU_FILE_MILC ? "MILC version 5" : format == MILCGPU_FILE_SCIDAC ? "SciDAC or ILDG" : "NERSC";
}

void print_head(const std::string &path, const milcgpu_gauge_file &head) {
    std::printf("file            %s: %s, %d x %d x %d x %d sites, %s precision\n", milcgpu::quoted_name(path).c_str(),
                name_of(head.format), head.extent[0], head.extent[1], head.extent[2], head.extent[3],
                head.precision == MILCGPU_DOUBLE ? "double" : "single");
    if (head.time[0] != '\0')
        std::printf("written         %s\n", milcgpu::quoted(head.time).c_str());
}

void print_checksums(const milcgpu_gauge_file &head) {
    if (!head.has_checksums)
        std::printf("checksums       the file has none: its data are not checked\n");
    else if (head.format == MILCGPU_FILE_NERSC)
        std::printf("checksum        %x, right\n", head.checksums[0]);
    else
        std::printf("checksums       %x %x, right\n", head.checksums[0], head.checksums[1]);
}

// Throws what is wrong with the file.
void look(const examples::Job &ranks, const std::string &path) {
    auto head = milcgpu_gauge_file{};
    head.struct_size = sizeof head;
    const reference::Lattice lattice = examples::lattice_of(ranks, path);
    ranks.on_first([&] {
        examples::must(milcgpu_gauge_file_look(path.c_str(), &head));
        print_head(path, head);
    });
    examples::check_lattice(ranks, lattice, 3 * examples::gauge_bytes / ranks.size());
    const milcgpu_layout box = ranks.layout(lattice);
    std::vector<double> links(72 * std::size_t(box.extent[0]) * box.extent[1] * box.extent[2] * box.extent[3]);
    const milcgpu_field field = examples::field_of(links);
    const examples::HostContext context(ranks, lattice);
    examples::must(milcgpu_gauge_file_read(context, path.c_str(), &field, &head));
    print_checksums(head);

    examples::UnitaryLinks unitary;
    const double *at = links.data();
    examples::for_sites(box, [&](const std::array<int, 4> &x) {
        for (int dir = 0; dir < 4; ++dir, at += 18) {
            reference::Matrix u;
            std::memcpy(static_cast<void *>(&u), at, sizeof u);
            unitary.add(u, x, dir);
        }
    });
    std::printf("unitarity       |U U^dag - 1| at most %.1e, |det U - 1| at most %.1e (limit %g)\n",
                ranks.slowest(unitary.worst_product()), ranks.slowest(unitary.worst_determinant()), unitary.most);
    const LoadedGauge gauge(context, field);
    double space = 0, time = 0, re = 0, im = 0;
    examples::must(milcgpu_gauge_plaquettes(gauge, &space, &time));
    examples::must(milcgpu_gauge_polyakov_loop(gauge, &re, &im));
    std::printf("plaquette       %.8f (space-space %.8f, space-time %.8f)", (space + time) / 6, space / 3, time / 3);
    if (head.format == MILCGPU_FILE_NERSC && !std::isnan(head.plaquette))
        std::printf(", in the head %.8f", head.plaquette);
    std::printf("\npolyakov loop   %.8f %.8f\n", re / 3, im / 3);
    unitary.check(path);
}

} // namespace

int main(int argc, char **argv) {
    std::string path;
    std::array<int, 4> grid{1, 1, 1, 1};
    examples::Arguments arguments("check_lattice",
                                  "checks a gauge field in a file: format, checksums, links in SU(3), plaquette and "
                                  "Polyakov loop (means of tr / 3). The last line is 'right', or 'WRONG: ' and why; "
                                  "the exit status is then 1");
    arguments.add_file(path, "gauge field (MILC version 5, SciDAC, ILDG or NERSC)");
    examples::Job::add_grid(arguments, grid);
    return examples::run_on_ranks([&](examples::Job &ranks) {
        if (!arguments.parse(argc, argv))
            return 0;
        ranks.start(grid);
        try {
            look(ranks, path);
        } catch (const examples::ArgumentError &) { // about the grid, not the file
            throw;
        } catch (const std::runtime_error &error) {
            std::printf("WRONG: %s\n", error.what());
            return 1;
        }
        std::printf("right\n");
        return 0;
    });
}
