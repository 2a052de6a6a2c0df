#include "gpu_kernels/wilson/wilson.h"

namespace milcgpu {

// Each is instantiated separately (wilson_rows.cu).
template <class Where> void double_rows(std::vector<WilsonKernel> &);
template <class Where> void single_rows(std::vector<WilsonKernel> &);
template <class Where> void half_rows(std::vector<WilsonKernel> &);
template <class Where> void add_all(std::vector<WilsonKernel> &table) {
    double_rows<Where>(table);
    single_rows<Where>(table);
    half_rows<Where>(table);
}
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
    static const std::vector<WilsonKernel> table = [] {
        std::vector<WilsonKernel> rows, cut;
        add_all<OnThisBackend>(rows);
#if defined(MILCGPU_WITH_CUDA)
        add_all<CutLattice>(cut);
#else
        cut = rows;
#endif
        for (size_t k = 0; k < rows.size(); ++k)
            rows[k].cut = cut[k].whole, rows[k].send = wilson_sender(rows[k].precision, rows[k].reals);
        return rows;
    }();
    return table;
}

const WilsonKernel *look_for_wilson(Precision spinor, Precision link, int reals) {
    for (const WilsonKernel &row : wilson_table())
        if (row.precision == spinor && row.precision == link && row.reals == reals)
            return &row;
    return nullptr;
}

const WilsonKernel &find_wilson(Precision spinor, Precision link, int reals) {
    if (const WilsonKernel *row = look_for_wilson(spinor, link, reals))
        return *row;
    std::string built;
    for (const WilsonKernel &row : wilson_table())
        built += format(" %s/%s/%d", name(row.precision), name(row.precision), row.reals);
    throw Error(Status::not_built,
                format("no Wilson kernel for spinor %s, link %s, %d reals a link; built (spinor/link/reals):%s",
                       name(spinor), name(link), reals, built.c_str()));
}

namespace {

void check_call(const WilsonCall &call, Epilogue epilogue) {
    const LinkField &links = *call.links;
    const auto fits = [&](const SpinorBlock &block) {
        return block && block.precision == call.in.precision && block.components == wilson_components &&
               block.sources == call.in.sources && (block.sources == 1 || block.source_bytes == call.in.source_bytes) &&
               block.stride == wilson_components * links.stride();
    };
    const bool matrix = call.form == WilsonForm::matrix;
    const bool needs_x = epilogue != Epilogue::plain, step = epilogue == Epilogue::step;
    const bool fields_fit = fits(call.in) && fits(call.out) && (!matrix || fits(call.own)) &&
                            (!needs_x || fits(call.x)) && (!(step || epilogue == Epilogue::residual) || fits(call.z)) &&
                            (!step || fits(call.s)) && (call.dots == nullptr || !call.with || fits(call.with));
    // The form hop has no sum and no epilogue.
    const bool ends = matrix || (epilogue == Epilogue::plain && call.sum == nullptr && call.defer == nullptr);
    const bool sums = (matrix || call.dots == nullptr) && (!matrix || call.pending == nullptr) &&
                      (call.dots == nullptr || (epilogue == Epilogue::plain && call.cg == nullptr)) &&
                      (!step || call.cg != nullptr) && call.checksums == nullptr;
    const bool plain_or_step = epilogue == Epilogue::plain || step;
    const bool sources_fit =
        call.in.sources == 1 || (call.sum == nullptr && call.dots == nullptr && call.defer == nullptr &&
                                 call.pending == nullptr && (call.cg == nullptr || plain_or_step));
    const bool clover_fits = call.clover == nullptr ||
                             (call.clover->precision() == call.in.precision && call.clover->stride() == links.stride());
    if (!fields_fit || !clover_fits || !ends || !sums || !sources_fit || call.in.data == call.out.data ||
        links.directions() != 4 || (call.lattice.is_cut() && call.halo == nullptr) ||
        (call.sign != 1 && call.sign != -1))
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
