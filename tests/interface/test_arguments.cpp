// The structs of the C interface (milc_glue/api/members.h): defaults, flags, and structs of older headers.
#include "milc_glue/api/members.h"
#include "tests/source_text.h"
#include "tests/support.h"
#include <algorithm>
#include <cstring>
#include <map>

using namespace milcgpu;
using namespace tests;

// A struct of an interface that has grown: 24 bytes at first, then 32, 40 and 48.
struct Grown {
    size_t struct_size;
    int first;
    int second;
    double third;
    int added, beside;
    double again;
    double last;
};
namespace milcgpu {
// clang-format off
TABLE(Grown, SIZE(24),
    NUMBERS(first, any_finite), NUMBERS(second, any_finite), NUMBERS(third, any_finite),
    NUMBERS(added, at_least(1).or_0_for(7)), NUMBERS(beside, unchecked), NUMBERS(again, any_finite),
    NUMBERS(last, any_finite));
// clang-format on
} // namespace milcgpu

namespace {

// The message about a member that a caller must set after _defaults; empty if there is none. Checks that other members
// have the table's defaults, and that nothing behind a smaller struct is written.
template <class Spec> std::string to_be_set(void (*defaults)(Spec *, size_t)) {
    struct {
        Spec spec;
        unsigned char behind[8];
    } filled;
    std::memset(&filled, 0x55, sizeof filled);
    defaults(&filled.spec, sizeof(Spec) - 8);
    CHECK(*(reinterpret_cast<unsigned char *>(&filled.spec) + sizeof(Spec) - 8) == 0x55);
    defaults(&filled.spec, sizeof(Spec));
    CHECK(filled.behind[0] == 0x55);
    CHECK(filled.spec.struct_size == sizeof(Spec));
    for (const Member &m : Members<Spec>::list)
        if (m.kind == Member::numbers)
            CHECK(m.get(reinterpret_cast<unsigned char *>(&filled.spec) + m.offset) == m.may.start);
    defaults(&filled.spec, sizeof filled); // of a header that is newer than the library
    CHECK((filled.behind[0] == 0 && filled.spec.struct_size == sizeof filled));
    defaults(&filled.spec, sizeof(Spec));
    return thrown_by([&] { checked_copy("spec", filled.spec); });
}

} // namespace

TEST_CASE("functions _defaults fill in legal values, except members that only the caller knows", "[errors]") {
    CHECK(to_be_set(milcgpu_solve_defaults).empty());
    CHECK(to_be_set(milcgpu_multi_mass_defaults).empty());
    CHECK(to_be_set(milcgpu_fatlink_defaults).empty());
    CHECK(has(to_be_set(milcgpu_force_defaults), "spec.links "));
    CHECK(to_be_set(milcgpu_eigen_defaults).empty());
    CHECK(to_be_set(milcgpu_gauge_fix_defaults).empty());
    CHECK(to_be_set(milcgpu_ape_defaults).empty());
    CHECK(to_be_set(milcgpu_hyp_defaults).empty());
    CHECK(to_be_set(milcgpu_flow_defaults).empty());
    CHECK(to_be_set(milcgpu_stout_defaults).empty());
    CHECK(to_be_set(milcgpu_meson_links_defaults).empty());
    CHECK(has(to_be_set(milcgpu_meson_defaults), "spec.n_momenta "));
    CHECK(has(to_be_set(milcgpu_dirac_defaults), "spec.n_momenta "));
    CHECK(has(to_be_set(milcgpu_dirac_meson_defaults), "spec.n_momenta "));
    CHECK(to_be_set(milcgpu_laplace_defaults).empty());
    CHECK(has(to_be_set(milcgpu_laplace_solve_defaults), "spec.tolerance "));
    CHECK(has(to_be_set(milcgpu_wilson_defaults), "spec.kappa "));
}

TEST_CASE("members that must be 0 or 1 are refused with any other number", "[errors]") {
    int flags = 0;
    const auto walk = [&](const Table &table) {
        for (const Member &m : table) {
            if (m.kind != Member::numbers || m.may.text() != flag.words)
                continue;
            ++flags;
            CAPTURE(table.name, m.name);
            for (const double number : {-1.0, 2.0, 1e9, double(NAN)})
                CHECK_FALSE(m.may.holds(number));
            CHECK((m.may.holds(0) && m.may.holds(1)));
        }
    };
    for (const Table *table :
         {&members_of<milcgpu_fatlink_spec>, &members_of<milcgpu_loops>, &members_of<milcgpu_gauge_fix_spec>,
          &members_of<milcgpu_ape_spec>, &members_of<milcgpu_hyp_spec>, &members_of<milcgpu_flow_spec>,
          &members_of<milcgpu_stout_spec>, &members_of<milcgpu_meson_links_spec>, &members_of<milcgpu_wilson_spec>})
        walk(*table);
    CHECK(flags == 15);
    // By name, before anything is done.
    auto spec = filled(milcgpu_hisq_defaults);
    spec.hisq = 2;
    CHECK(has(thrown_by([&] { checked_copy("spec", spec); }), "spec.hisq is 2"));
    auto table = sized<milcgpu_messages>();
    table.size = table.node_size = 1, table.gpu_memory = 7;
    auto layout = layout_of({{4, 4, 4, 4}});
    layout.messages = &table;
    milcgpu_context *context = nullptr;
    CHECK(milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(has(milcgpu_last_error(), "gpu_memory is 7"));
}

TEST_CASE("a struct of an older header is accepted, with 0 for the members that it lacks", "[errors]") {
    const Grown whole{0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<size_t> taken;
    for (size_t size = 0; size <= sizeof(Grown) + 8; ++size) {
        std::vector<unsigned char> memory(sizeof(Grown) + 8, 0x55); // behind `size` is no member
        Grown *const given = reinterpret_cast<Grown *>(memory.data());
        std::memcpy(given, &whole, std::min(size, sizeof whole));
        given->struct_size = size;
        Grown full{};
        try {
            full = checked_copy("spec", *given);
        } catch (const Error &error) {
            CHECK(error.status() == Status::bad_argument);
            for (const std::string &part :
                 {format("Grown.struct_size is %zu,", size), std::string(MILCGPU_VERSION), std::string("24 to 48")})
                CHECK(has(error.what(), part));
            continue;
        }
        taken.push_back(size);
        CHECK(full.struct_size == sizeof(Grown));
        CHECK((full.first == 1 && full.second == 2 && full.third == 3));
        CHECK((full.added == (size > 24 ? 4 : 7) && full.beside == (size > 24 ? 5 : 0)));
        CHECK((full.again == (size > 32 ? 6 : 0) && full.last == (size > 40 ? 7 : 0)));
    }
    CHECK(taken == std::vector<size_t>{24, 32, 40, 48});
}

TEST_CASE("the oldest header of each struct is accepted: its size, and the offsets of its members", "[errors]") {
    // The size, and the sum of the offsets of the members within it (0: a struct without a table). Programs that were
    // built with this header run with the library as long as both have the same MAJOR.MINOR of MILCGPU_VERSION.
    // clang-format off
    const std::map<std::string, std::pair<size_t, size_t>> oldest = {
        {"milcgpu_ape_spec", {48, 140}}, {"milcgpu_dirac_meson_spec", {56, 192}}, {"milcgpu_dirac_spec", {40, 76}},
        {"milcgpu_eigen_report", {480, 0}}, {"milcgpu_eigen_spec", {56, 180}}, {"milcgpu_fatlink_report", {496, 0}},
        {"milcgpu_fatlink_spec", {184, 1296}}, {"milcgpu_flow_report", {560, 0}}, {"milcgpu_flow_spec", {72, 428}},
        {"milcgpu_force_report", {480, 0}}, {"milcgpu_force_spec", {64, 224}}, {"milcgpu_gauge_file", {112, 0}},
        {"milcgpu_gauge_fix_report", {488, 0}}, {"milcgpu_gauge_fix_spec", {64, 268}}, {"milcgpu_gb_spec", {80, 288}},
        {"milcgpu_hyp_spec", {48, 200}}, {"milcgpu_laplace_solve_spec", {96, 564}},
        {"milcgpu_laplace_spec", {32, 48}}, {"milcgpu_layout", {112, 0}}, {"milcgpu_meson_links_spec", {32, 36}},
        {"milcgpu_meson_spec", {56, 180}}, {"milcgpu_messages", {56, 0}}, {"milcgpu_multi_mass_report", {504, 0}},
        {"milcgpu_multi_mass_spec", {104, 672}}, {"milcgpu_nersc_spec", {40, 92}}, {"milcgpu_options", {40, 0}},
        {"milcgpu_reunitarize_report", {40, 0}}, {"milcgpu_solve_report", {552, 0}},
        {"milcgpu_solve_spec", {128, 1004}}, {"milcgpu_stout_spec", {32, 68}}, {"milcgpu_tie_up_spec", {72, 216}},
        {"milcgpu_wilson_spec", {32, 76}}};
    // clang-format on
    std::map<std::string, std::pair<size_t, size_t>> now;
    const std::string tables = text_of("milc_glue/api/sized.h") + text_of("milc_glue/api/members.h");
    for (const auto &row : matches(tables, "\n(?:SIZED|TABLE)\\((\\w+), (?:SIZE\\()?([0-9]+)\\)"))
        now[row[1]].first = std::stoul(row[2]);
    const auto add = [&](const Table &table) {
        auto &[bytes, offsets] = now[table.name];
        for (const Member &m : table)
            offsets += m.offset < bytes ? m.offset : 0;
    };
    for (const Table *table : {&members_of<milcgpu_solve_spec>,         &members_of<milcgpu_multi_mass_spec>,
                               &members_of<milcgpu_fatlink_spec>,       &members_of<milcgpu_force_spec>,
                               &members_of<milcgpu_eigen_spec>,         &members_of<milcgpu_nersc_spec>,
                               &members_of<milcgpu_gauge_fix_spec>,     &members_of<milcgpu_ape_spec>,
                               &members_of<milcgpu_hyp_spec>,           &members_of<milcgpu_flow_spec>,
                               &members_of<milcgpu_stout_spec>,         &members_of<milcgpu_meson_links_spec>,
                               &members_of<milcgpu_meson_spec>,         &members_of<milcgpu_dirac_spec>,
                               &members_of<milcgpu_dirac_meson_spec>,   &members_of<milcgpu_laplace_spec>,
                               &members_of<milcgpu_laplace_solve_spec>, &members_of<milcgpu_wilson_spec>,
                               &members_of<milcgpu_tie_up_spec>,        &members_of<milcgpu_gb_spec>})
        add(*table);
    for (const auto &[name, numbers] : now) {
        CAPTURE(name);
        const auto row = oldest.find(name);
        CHECK((row != oldest.end() && row->second == numbers));
    }
    CHECK(now.size() == oldest.size());
}

TEST_CASE("reports of an older header get the members that they have", "[errors]") {
    for (size_t size = 24; size <= sizeof(Grown); size += 8) {
        std::vector<unsigned char> memory(3 * sizeof(Grown), 0x55);
        Grown *const reports = reinterpret_cast<Grown *>(memory.data());
        const std::vector<Grown> filled = {{sizeof(Grown), 1, 2, 3, 4, 5, 6, 7},
                                           {sizeof(Grown), 8, 9, 10, 11, 12, 13, 14}};
        for (int k = 0; k < 2; ++k)
            std::memcpy(&memory[k * size], &size, sizeof size);
        require_sizes(reports, 2);
        copy_to_caller(filled, reports);
        for (int k = 0; k < 2; ++k) {
            size_t kept;
            std::memcpy(&kept, &memory[k * size], sizeof kept);
            CHECK(kept == size);
            CHECK(std::memcmp(&memory[k * size + sizeof size], &filled[k].first, size - sizeof size) == 0);
        }
        CHECK(std::all_of(memory.begin() + 2 * size, memory.end(), [](unsigned char byte) { return byte == 0x55; }));
        memory[size] ^= 8; // another size in the second one
        CHECK(status_of([&] { require_sizes(reports, 2); }) == Status::bad_argument);
    }
}
