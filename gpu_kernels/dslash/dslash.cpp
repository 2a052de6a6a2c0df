#include "gpu_kernels/dslash/dslash.h"

namespace milcgpu {

void add_double_rows(std::vector<DslashKernel> &table);
void add_single_rows(std::vector<DslashKernel> &table);
void add_half_rows(std::vector<DslashKernel> &table);
void add_single_batch_rows(std::vector<DslashBatchKernel> &table);

const char *name(Epilogue epilogue) {
    constexpr const char *names[] = {"plain", "normal", "residual", "step"};
    return names[static_cast<int>(epilogue)];
}

const std::vector<DslashKernel> &dslash_table() {
    static const std::vector<DslashKernel> table = [] {
        std::vector<DslashKernel> rows;
        add_double_rows(rows);
        add_single_rows(rows);
        add_half_rows(rows);
        return rows;
    }();
    return table;
}

const DslashKernel &find_dslash(Precision spinor, Precision link, int reals, Epilogue epilogue) {
    for (const DslashKernel &row : dslash_table())
        if (row.spinor == spinor && row.link == link && row.reals == reals && row.epilogue == epilogue)
            return row;
    std::string built;
    for (const DslashKernel &row : dslash_table())
        if (row.epilogue == epilogue)
            built += format(" %s/%s/%d", name(row.spinor), name(row.link), row.reals);
    throw Error(Status::not_built, format("no dslash kernel for spinor %s, link %s, %d reals a long link, epilogue %s; "
                                          "built (spinor/link/reals):%s",
                                          name(spinor), name(link), reals, name(epilogue), built.c_str()));
}

void dslash(Device &device, const DslashCall &call, Epilogue epilogue) {
    const bool spinors_fit =
        call.in->precision() == call.out->precision() && call.in->stride() == call.out->stride() &&
        (epilogue == Epilogue::plain || call.x->precision() == call.in->precision()) &&
        (epilogue != Epilogue::residual || call.z->precision() == call.in->precision()) &&
        (epilogue != Epilogue::step || (call.s->precision() == call.in->precision() && call.cg != nullptr));
    if (!spinors_fit || call.fat->precision() != call.lng->precision() || call.fat->reals() != 18 ||
        call.in->data() == call.out->data())
        throw Error(Status::bad_argument, "dslash: spinors of one precision, in and out apart, and links of one "
                                          "precision with 18 reals a fat link are needed");
    find_dslash(call.in->precision(), call.fat->precision(), call.lng->reals(), epilogue)
        .launch(device, call, epilogue);
}

const std::vector<DslashBatchKernel> &dslash_batch_table() {
    static const std::vector<DslashBatchKernel> table = [] {
        std::vector<DslashBatchKernel> rows;
        add_single_batch_rows(rows);
        return rows;
    }();
    return table;
}

void dslash_batch(Device &device, const DslashBatchCall &call, Epilogue epilogue) {
    std::string built;
    for (const DslashBatchKernel &row : dslash_batch_table()) {
        if (row.spinor == call.in[0].precision() && row.link == call.fat->precision() && row.reals == call.lng->reals())
            return row.launch(device, call, epilogue);
        built += format(" %s/%s/%d", name(row.spinor), name(row.link), row.reals);
    }
    throw Error(Status::not_built,
                format("no dslash kernel for several %s fields with %s links and %d reals a long link; built "
                       "(spinor/link/reals):%s",
                       name(call.in[0].precision()), name(call.fat->precision()), call.lng->reals(), built.c_str()));
}

size_t dslash_bytes(Precision spinor, Precision link, int reals, Epilogue epilogue, size_t sites) {
    constexpr size_t spinors[] = {2, 3, 4, 5};
    return sites * (8 * link_bytes(link, 18) + 8 * link_bytes(link, reals) +
                    spinors[static_cast<int>(epilogue)] * spinor_bytes(spinor));
}

size_t dslash_flops(Epilogue epilogue, size_t sites) {
    constexpr size_t added[] = {0, 18, 24, 48};
    return sites * (1146 + 12 + added[static_cast<int>(epilogue)]);
}

} // namespace milcgpu
