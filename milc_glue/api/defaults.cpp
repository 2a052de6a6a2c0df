// Functions _defaults of the C interface: a struct begins as its table in members.h says.
#include "milc_glue/api/members.h"

using namespace milcgpu;

namespace {

void begin(const Table &table, void *at) {
    for (const Member &m : table) {
        unsigned char *const member = static_cast<unsigned char *>(at) + m.offset;
        if (m.kind == Member::inside)
            begin(*m.table, member);
        const Member &number = m.kind == Member::inside ? *m.table->first : m;
        for (int k = 0; k < number.count && m.may.start != 0; ++k)
            number.set(member + k * number.bytes, m.may.start);
    }
}

// The caller's header may be older or newer: `size` bytes are filled. more(full): what the table does not say.
template <class Struct, class More = void (*)(Struct &)>
void fill(Struct *spec, size_t size, const More &more = [](Struct &) {}) {
    if (spec == nullptr)
        return;
    Struct full{};
    begin(members_of<Struct>, &full);
    more(full);
    full.struct_size = size;
    std::memset(spec, 0, size);
    std::memcpy(spec, &full, std::min(size, sizeof full));
}

} // namespace

#define DEFAULTS(object)                                                                                               \
    void milcgpu_##object##_defaults(milcgpu_##object##_spec *spec, size_t size) { fill(spec, size); }

extern "C" {

DEFAULTS(solve)
DEFAULTS(multi_mass)
DEFAULTS(fatlink)
DEFAULTS(force)
DEFAULTS(eigen)
DEFAULTS(nersc)
DEFAULTS(gauge_fix)
DEFAULTS(ape)
DEFAULTS(hyp)
DEFAULTS(flow)
DEFAULTS(stout)
DEFAULTS(meson_links)
DEFAULTS(meson)
DEFAULTS(tie_up)
DEFAULTS(gb)
DEFAULTS(dirac)
DEFAULTS(dirac_meson)
DEFAULTS(laplace)
DEFAULTS(laplace_solve)
DEFAULTS(wilson)

void milcgpu_asqtad_defaults(double u0, milcgpu_fatlink_spec *spec, size_t size) {
    fill(spec, size, [u0](milcgpu_fatlink_spec &s) {
        const double u2 = u0 * u0, u4 = u2 * u2;
        s.paths = {5.0 / 8, -1.0 / 24 / u2, -1.0 / 16 / u2, 1.0 / 64 / u4, -1.0 / 384 / (u4 * u2), -1.0 / 16 / u4};
    });
}

void milcgpu_hisq_defaults(milcgpu_fatlink_spec *spec, size_t size) {
    fill(spec, size, [](milcgpu_fatlink_spec &s) {
        s.hisq = 1;
        s.fat7 = {1.0 / 8, 0, -1.0 / 16, 1.0 / 64, -1.0 / 384, 0};
        s.paths = {1.0, -1.0 / 24, -1.0 / 16, 1.0 / 64, -1.0 / 384, -1.0 / 8};
        s.eps_one_link = 1.0 / 8;
        s.eps_naik = -1.0 / 24;
    });
}

} // extern "C"
