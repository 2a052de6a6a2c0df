#include "gpu_kernels/wilson/wilson.h"

namespace milcgpu {

// Each is instantiated separately (wilson_rows.cu).
template <class Where> void double_rows(std::vector<WilsonKernel> &);
template <class Where> void single_rows(std::vector<WilsonKernel> &);
template <class Where> void half_rows(std::vector<WilsonKernel> &);
WilsonSend *wilson_sender(Precision, int reals); // for a row that is built

WilsonHalo::WilsonHalo(Device &device, Halo &of, const Geometry &geometry) : halo(of) {
    const CutLattice &box = geometry.lattice();
    unsigned cuts = 0;
    for (int mu = 0; mu < 4; ++mu)
        if (box.cut(mu))
            cuts |= 1u << mu, places += 2 * size_t(box.layer[mu]);
    const int *const n = box.extent;
    lattice = CutLattice({n[0], n[1], n[2], n[3]}, box.origin_parity, cuts, 1, geometry.most_sites());
    queue_of(device).collective("memory for ghosts of Wilson vectors", [&] {
        ghosts = {device, 2 * places * spinor_bytes(Precision::double_), "ghosts of Wilson vectors"};
    });
}

const std::vector<WilsonKernel> &wilson_table() {
    static const auto table = [] {
        auto all = table_of<WilsonKernel>([](auto rows, std::vector<WilsonKernel> &to) {
            using Where = typename decltype(rows)::Where;
            double_rows<Where>(to), single_rows<Where>(to), half_rows<Where>(to);
        });
        for (WilsonKernel &row : all)
            row.send = wilson_sender(row.spinor, row.reals);
        return all;
    }();
    return table;
}

const WilsonKernel &find_wilson(Precision spinor, Precision link, int reals) {
    return find_kernel(wilson_table(), "Wilson", {spinor, link, reals});
}

namespace {

void check_call(const WilsonCall &call, Epilogue epilogue) {
    const LinkField &links = *call.links;
    const bool matrix = call.form == WilsonForm::matrix;
    const auto fits = [&call](const SpinorBlock &field) { return is_like(field, call.in); };
    const bool fit = fields_fit(call, epilogue) && call.in.components == wilson_components &&
                     call.in.stride == wilson_components * links.stride() && (!matrix || fits(call.own)) &&
                     (call.dots == nullptr || !call.with || fits(call.with));
    // The form hop has no sum and no epilogue.
    const bool ends = matrix || (epilogue == Epilogue::plain && call.sum == nullptr && call.defer == nullptr);
    const bool sums = (matrix || call.dots == nullptr) && (!matrix || call.pending == nullptr) &&
                      (call.dots == nullptr || (epilogue == Epilogue::plain && call.cg == nullptr)) &&
                      call.checksums == nullptr;
    const bool sources_fit =
        call.in.sources == 1 || (call.dots == nullptr && call.defer == nullptr && call.pending == nullptr);
    const bool clover_fits = call.clover == nullptr ||
                             (call.clover->precision() == call.in.precision && call.clover->stride() == links.stride());
    if (!fit || !clover_fits || !ends || !sums || !sources_fit || links.directions() != 4 ||
        (call.lattice.is_cut() && call.halo == nullptr) || (call.sign != 1 && call.sign != -1))
        throw Error(
            Status::bad_argument,
            "wilson: needs Wilson vectors in one precision on the lattice of the links, equal numbers of sources, in "
            "and out that differ, the fields of the epilogue and its sums, a clover term of that precision, a sign of "
            "1 or -1, and a halo if the lattice is cut; several sources have sums only in conjugate gradients");
}

} // namespace

void wilson(Device &device, const WilsonCall &call, Epilogue epilogue) {
    check_call(call, epilogue);
    const WilsonKernel &row = find_wilson(call.in.precision, call.links->precision(), call.links->reals());
    if (call.in.sources == 1)
        return row.launch_one(device, call, epilogue);
    if (call.halo == nullptr)
        return row.launch_several(device, call, epilogue);
    for (int k = 0; k < call.in.sources; ++k) {
        WilsonCall one = call;
        one.keep_source(k);
        one.own = call.own[k];
        row.launch_one(device, one, epilogue);
    }
}

size_t wilson_bytes(Precision spinor, Precision link, int reals, const WilsonEnd &end, bool clover, size_t sites,
                    int sources) {
    const int spinors = traits(end.epilogue).spinors + (end.form == WilsonForm::matrix) + end.dot;
    const double term = clover ? clover_bytes(spinor) : 0;
    return sites * (8 * link_bytes(link, reals) + sources * wilson_components * spinors * spinor_bytes(spinor) +
                    static_cast<size_t>(term));
}

// For a site: D; C; own - factor D; the epilogue and its sums over four colour vectors, or <with, out> and |out|^2.
size_t wilson_flops(const WilsonEnd &end, bool clover, size_t sites) {
    const size_t hops = 1320 + (clover ? static_cast<size_t>(clover_flops) : 0);
    if (end.form == WilsonForm::hop)
        return sites * hops;
    return sites * (hops + 48 + wilson_components * (end.dot ? 24 + 12 : traits(end.epilogue).flops));
}

} // namespace milcgpu
