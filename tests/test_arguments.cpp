// What the tables of milc_glue/api/members.h promise: a struct that differs on one rank, in one member at a time, is an
// error on all ranks that names the member, for every struct of the C interface that calls of all ranks take.
#include "milc_glue/api/members.h"
#include "tests/cut_support.h"
#include "tests/source_text.h"
#include <algorithm>
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

// What docs/reference.md says of the members of a struct.
std::string row_of(const Table &table) {
    std::string row;
    for (const Member &m : table) {
        const std::string may = m.kind == Member::numbers && m.may.checked ? m.may.text()
                                : m.kind == Member::given                  ? "not NULL"
                                                                           : "";
        row += may.empty() ? "" : format("%s`%s` %s", row.empty() ? "" : "; ", m.name, may.c_str());
    }
    return format("| `%s` | %s |\n", table.name, row.c_str());
}

// Changes a struct, and what it leads to, on rank 1.
class OneByOne {
  public:
    std::string wrong;
    std::map<std::string, std::string> walked; // tables, each with its row of the reference
    int changes = 0, reals = 0;
    explicit OneByOne(Here &here) : rank_(here.rank()) {}
    // call(): with `spec`, which is right. values: what members become whose call takes little else. refused: members
    // that no call takes with another value, which rank 1 sees before it is compared.
    template <class Struct>
    void operator()(const char *name, Struct &spec, const std::function<milcgpu_status()> &call,
                    const std::map<std::string, double> &values = {}, const std::set<std::string> &refused = {}) {
        call_ = call, values_ = values, refused_ = refused;
        if (const milcgpu_status status = call(); status != MILCGPU_OK)
            wrong += format("%s as it is: %d %s\n", Members<Struct>::name, status, milcgpu_last_error());
        walk(members_of<Struct>, &spec, name);
    }
    template <class Struct> void entries(const char *name, std::vector<Struct> &list) { // of the call before
        walk_entries(members_of<Struct>, list.data(), int(list.size()), name);
    }

  private:
    void walk(const Table &table, void *at, const Name &of) {
        walked[table.name] = row_of(table);
        for (const Member &m : table) {
            unsigned char *const here = static_cast<unsigned char *>(at) + m.offset;
            Name name = of;
            if (m.name != nullptr)
                name.parts[++name.last] = m.name;
            if (m.kind == Member::inside)
                walk(*m.table, here, name);
            for (int k = 0; m.kind == Member::numbers && k < m.count; ++k) {
                name.index[name.last] = m.count > 1 ? k : name.index[name.last];
                const double before = m.get(here + k * m.bytes);
                change(name,
                       [&](bool there) { m.set(here + k * m.bytes, there ? other(name, before, m.may) : before); });
                for (const double none : {double(INFINITY), -double(INFINITY), double(NAN)})
                    if (m.real)
                        refuse_on_all(name, [&](bool there) { m.set(here + k * m.bytes, there ? none : before); });
            }
            void *const before = m.kind > Member::inside ? *reinterpret_cast<void **>(here) : nullptr;
            if (m.kind == Member::entries || m.kind == Member::some)
                walk_entries(*m.table, before, *reinterpret_cast<int *>(static_cast<unsigned char *>(at) + m.how_many),
                             name);
            name.pointer = true;
            if (m.kind == Member::alike || m.kind == Member::some)
                change(name, [&](bool there) {
                    *reinterpret_cast<void **>(here) = !there ? before : before == nullptr ? somewhere_ : nullptr;
                });
        }
    }
    void walk_entries(const Table &table, void *at, int n, Name name) {
        for (int &k = name.index[name.last] = 0; k < n; ++k)
            walk(table, static_cast<unsigned char *>(at) + k * table.bytes, name);
    }
    double other(const Name &name, double x, const May &may) const {
        if (values_.count(name.text()) != 0)
            return values_.at(name.text());
        x = x == 0 ? may.zero_is : x;
        for (const double y : {x + 1, x - 1, x / 2})
            if (may.holds(y) && y != 0)
                return y;
        return 0;
    }
    template <class Change> void change(const Name &name, const Change &make) {
        ++changes;
        make(rank_ == 1);
        const milcgpu_status status = call_();
        const std::string said = milcgpu_last_error(), text = name.text();
        make(false);
        const bool compared = said.find(text + " is ") != std::string::npos &&
                              said.find("all ranks must ask for the same") != std::string::npos;
        const bool seen = refused_.count(text) != 0 && said.find("rank 1 of 2: ") != std::string::npos;
        if (status != MILCGPU_BAD_ARGUMENT || !(compared || seen))
            wrong += format("%s: %d %s\n", text.c_str(), status, said.c_str());
    }
    template <class Change> void refuse_on_all(const Name &name, const Change &make) {
        ++reals;
        make(true);
        const milcgpu_status status = call_();
        const std::string said = milcgpu_last_error(), text = name.text();
        make(false);
        if (status != MILCGPU_BAD_ARGUMENT || said.find(text + " is ") == std::string::npos)
            wrong += format("%s, not finite: %d %s\n", text.c_str(), status, said.c_str());
    }
    int rank_;
    std::function<milcgpu_status()> call_;
    std::map<std::string, double> values_;
    std::set<std::string> refused_;
    void *somewhere_[16] = {};
};

// What a caller has to fill in before its defaults are legal; empty: nothing. Other members begin as the table says,
// and of a smaller struct no more than that is written.
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
    try {
        checked_copy("spec", filled.spec);
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_CASE("ranks: a struct that differs on one of them, in any member, is refused on all by the member's name",
          "[ranks][cut][errors]") {
    const Cut two{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Fields fields = fields_on(two.whole, false);
    reference::Gauge gauge = reference::near_unit_gauge(fields.lattice, 0.2, 31);
    const std::vector<double> bare = reference::links_to_milc<double>(fields.lattice, gauge);
    reference::apply_phases(fields.lattice, gauge);
    const std::vector<double> links = reference::links_to_milc<double>(fields.lattice, gauge);
    std::vector<std::string> wrong(2);
    std::map<std::string, std::string> walked[2];
    int changes[2], reals[2];
    const auto endings = on_cut(fields, two, Backend::host, [&](Here &here, Ending &) {
        const size_t sites = here.places.size();
        std::vector<double> u = Fields::part(links, here.places, 72), plain = Fields::part(bare, here.places, 72),
                            h(40 * sites), colour(6 * sites, 0.1), dirac(24 * sites, 0.1), quark(96 * sites, 0.1),
                            out(40000);
        const milcgpu_field u_field = field_of(u), h_field = field_of(h), x = field_of(colour), psi = field_of(dirac),
                            source = field_of(quark);
        struct Handles {
            milcgpu_gauge *gauge = nullptr;
            milcgpu_meson_links *meson = nullptr;
            milcgpu_vectors *vectors = nullptr;
            milcgpu_wilson *wilson = nullptr;
            ~Handles() {
                milcgpu_wilson_destroy(wilson);
                milcgpu_vectors_destroy(vectors);
                milcgpu_gauge_destroy(gauge);
                milcgpu_meson_links_destroy(meson);
            }
        } to;
        demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &to.gauge));
        demand(milcgpu_gauge_load(to.gauge, &u_field, 0));
        demand(milcgpu_momenta_load(to.gauge, &h_field));
        demand(milcgpu_meson_links_create(here.context, MILCGPU_DOUBLE, &to.meson));
        demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 4, &to.vectors));
        for (int k = 0; k < 4; ++k)
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                demand(milcgpu_vectors_load(to.vectors, k, parity, &x));
        const milcgpu_field plain_field = field_of(plain);
        demand(milcgpu_wilson_create(here.context, &to.wilson));
        demand(milcgpu_wilson_load(to.wilson, &plain_field));
        OneByOne walk(here);

        // milcgpu_gauge.h, milcgpu_flow.h
        auto fix = sized<milcgpu_gauge_fix_spec>();
        fix.direction = 2, fix.boost = 1.5, fix.most_steps = 1, fix.tolerance = -1;
        walk("spec", fix, [&] { return milcgpu_gauge_fix(to.gauge, &fix, nullptr); });
        auto ape = sized<milcgpu_ape_spec>();
        walk("spec", ape, [&] { return milcgpu_gauge_ape_smear(to.gauge, &ape, nullptr, nullptr); });
        auto hyp = sized<milcgpu_hyp_spec>();
        hyp.directions = 4;
        walk("spec", hyp, [&] { return milcgpu_gauge_hyp_smear(to.gauge, &hyp, nullptr); });
        auto stout = sized<milcgpu_stout_spec>();
        stout.directions = 4;
        walk("spec", stout, [&] { return milcgpu_gauge_stout_smear(to.gauge, &stout, nullptr); });
        milcgpu_flow_spec flow;
        milcgpu_flow_defaults(&flow, sizeof flow);
        flow.stop = 0, flow.exp_order = 3;
        walk("spec", flow, [&] { return milcgpu_gauge_flow(to.gauge, &flow, nullptr, nullptr, nullptr); });

        // milcgpu.h, milcgpu_md.h
        milcgpu_fatlink_spec hisq;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        milcgpu_links *made = nullptr;
        std::vector<double> room[5];
        milcgpu_field to_make[5];
        for (int k = 0; k < 5; ++k)
            room[k].resize(u.size()), to_make[k] = field_of(room[k]);
        std::vector<milcgpu_fatlink_set> sets = {{0, &to_make[0], nullptr, &made},
                                                 {0.1, &to_make[1], nullptr, nullptr}};
        milcgpu_hisq_links wanted{&to_make[2], &to_make[3], &to_make[4]};
        const auto fat_links = [&] {
            const milcgpu_status status =
                milcgpu_links_make(here.context, &hisq, &u_field, sets.data(), 2, &wanted, nullptr);
            milcgpu_links_destroy(made);
            made = nullptr;
            return status;
        };
        walk("spec", hisq, fat_links, {{"spec.reconstruct", 12}});
        walk.entries("sets", sets);
        walk("hisq", wanted, fat_links);
        const double residues[2] = {0.7, -0.2};
        milcgpu_force_set force_sets[3] = {{0, 1}, {-0.2, 1}, {0.1, 0}};
        const milcgpu_field both[3] = {x, x, x};
        milcgpu_force_spec force{sizeof force, &hisq, 0.01, 2, residues, 2, force_sets, 0};
        walk("spec", force, [&] { return milcgpu_momenta_add_fermion_force(to.gauge, &force, both, nullptr); }, {},
             {"spec.n_terms", "spec.sets[0].n_terms", "spec.sets[1].n_terms"});
        milcgpu_loops loops{1, -0.05, 0.01, 0};
        double action;
        walk("loops", loops, [&] { return milcgpu_gauge_action(to.gauge, &loops, &action); });

        // milcgpu_mesons.h, milcgpu_dirac.h
        auto load = sized<milcgpu_meson_links_spec>();
        load.signs = MILCGPU_SIGNS_IN;
        walk("spec", load, [&] { return milcgpu_meson_links_load(to.meson, &load, &u_field); });
        milcgpu_momentum momenta[3] = {};
        for (milcgpu_momentum &one : momenta)
            one = {{0, 1, 0}, {MILCGPU_EVEN, MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN}};
        milcgpu_meson_term meson_terms[2] = {{0, 1, 1, 1, 1}, {0, 1, 1, 1, 1}};
        milcgpu_meson_spec mesons{sizeof mesons, {}, 2, 1, 2, momenta, meson_terms};
        const milcgpu_quarks quarks{&x, nullptr, 0};
        const std::map<std::string, double> firsts{{"spec.terms[0].momentum", 0}, {"spec.terms[0].correlator", 0}};
        const auto contract = [&] {
            return milcgpu_quarks_contract(to.meson, &mesons, nullptr, nullptr, 1, &quarks, &quarks, out.data());
        };
        walk("spec", mesons, contract, firsts);
        milcgpu_dirac_spec slices{sizeof slices, 0, {}, 1, momenta};
        walk("spec", slices, [&] { return milcgpu_dirac_slices(here.context, &slices, &psi, &psi, out.data()); });
        milcgpu_dirac_term dirac_terms[2] = {{3, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}};
        milcgpu_dirac_meson_spec pions{sizeof pions, 0, {}, 2, 1, 2, momenta, dirac_terms};
        const auto sum_up = [&] { return milcgpu_dirac_mesons(here.context, &pions, 1, &source, &source, out.data()); };
        walk("spec", pions, sum_up, firsts);

        // Solves, milcgpu_wilson.h
        auto solve = solve_spec(0.5, 1e-4, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        solve.sloppy = {}, solve.reliable_delta = 0.1;
        const milcgpu_field into_out = field_of(out);
        walk("spec", solve, [&] { return milcgpu_staggered_solve(here.links, &solve, &x, &into_out, nullptr); },
             {{"spec.precise.reconstruct", 12}});
        milcgpu_eigen_spec lowest;
        milcgpu_eigen_defaults(&lowest, sizeof lowest);
        lowest.count = 1;
        walk("spec", lowest,
             [&] {
                 milcgpu_eigenvectors *made = nullptr;
                 const milcgpu_status status = milcgpu_eigenvectors_compute(here.links, &lowest, &made, nullptr);
                 milcgpu_eigenvectors_destroy(made);
                 return status;
             },
             {{"spec.precision", MILCGPU_SINGLE}});
        milcgpu_pole shifts[3] = {{0.5, 1e-4, 0}, {0.7, 1e-4, 0}, {0.9, 1e-4, 0}};
        double weights[3] = {1, 2, 3};
        auto masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN, masses.n_shifts = 2, masses.shifts = shifts, masses.residues = weights;
        masses.max_iterations = 100, masses.max_restarts = 2, masses.shared_tolerance = 1e-6;
        masses.shared = masses.precise = {MILCGPU_DOUBLE, 18}, masses.sloppy = {MILCGPU_SINGLE, 18};
        std::vector<double> solutions[3] = {out, out, out};
        const milcgpu_field into_solutions[3] = {field_of(solutions[0]), field_of(solutions[1]),
                                                 field_of(solutions[2])};
        const auto several = [&] {
            return milcgpu_staggered_multi_mass(here.links, &masses, &x, into_solutions, nullptr);
        };
        walk("spec", masses, several,
             {{"spec.shared.reconstruct", 12}, {"spec.precise.reconstruct", 12}, {"spec.sloppy.reconstruct", 12}});
        milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 1, 0, 0};
        milcgpu_storage what{MILCGPU_DOUBLE, 18};
        const auto matrix = [&] {
            return milcgpu_wilson_matrix(to.wilson, &wilson, &what, 1, MILCGPU_EVEN, &psi, &into_out);
        };
        walk("spec", wilson, matrix), walk("what", what, matrix, {{"what.reconstruct", 12}});

        milcgpu_laplace_spec laplace{sizeof laplace, 3, 0.1, what};
        const milcgpu_quarks into_host{&into_out, nullptr, 0};
        const auto apply = [&] {
            return milcgpu_laplace_apply(to.meson, &laplace, MILCGPU_LAPLACE_M, 3, 1, &quarks, &into_host);
        };
        walk("spec", laplace, apply, {{"spec.kappa", 0.05}, {"spec.what.reconstruct", 12}});
        auto poisson = sized<milcgpu_laplace_solve_spec>();
        poisson.directions = 3, poisson.kappa = 0.1, poisson.tolerance = 1e-4, poisson.max_iterations = 100;
        poisson.max_restarts = 2, poisson.precise = what, poisson.reliable_delta = 0.1;
        const auto solve_poisson = [&] {
            return milcgpu_laplace_solve(to.meson, &poisson, 1, &quarks, &into_host, nullptr);
        };
        walk("spec", poisson, solve_poisson, {{"spec.kappa", 0.05}, {"spec.precise.reconstruct", 12}});

        // milcgpu_md.h, milcgpu_mesons.h: what is handed in by value or with a host's pointer
        milcgpu_vector a{to.vectors, 0}, b{to.vectors, 1}, sum{to.vectors, 2};
        const auto minus = [&] { return milcgpu_vectors_minus_dslash(here.links, MILCGPU_EVEN, 1, 0.1, a, b, sum); };
        walk("x", a, minus), walk("y", b, minus), walk("to", sum, minus);
        milcgpu_quarks from{nullptr, to.vectors, 0};
        const milcgpu_quarks into{nullptr, to.vectors, 2};
        walk("from", from, [&] { return milcgpu_quarks_shift(to.meson, 0, 0, nullptr, 1, &from, &into); }, {},
             {"from.host != NULL", "from.device != NULL"});
        wrong[here.rank()] = walk.wrong, walked[here.rank()] = walk.walked, changes[here.rank()] = walk.changes;
        reals[here.rank()] = walk.reals;
    });
    CHECK(all_well(endings));
    CHECK(wrong == std::vector<std::string>(2));
    CHECK(changes[0] > 100);
    CHECK(reals[0] > 3 * 60);
    CHECK(walked[0] == walked[1]);
    // Every table was walked, and docs/reference.md has them in this order.
    std::string page = "| struct | its members |\n|---|---|\n";
    walked[0].erase("double");
    for (const auto &table : matches(text_of("milc_glue/api/members.h"), "\nTABLE\\(([a-z0-9_]+),")) {
        CAPTURE(table[1]);
        REQUIRE(walked[0].count(table[1]) == 1);
        const std::string row = walked[0].at(table[1]);
        page += row.find("|  |") != std::string::npos ? "" : row;
        walked[0].erase(table[1]);
    }
    CHECK(walked[0].empty());
    const bool is_there = has(text_of("docs/reference.md") + "\n", "\n\n" + page + "\n");
    CHECK(is_there);
    if (!is_there)
        std::printf("The table of docs/reference.md, Members of structs, is to be:\n\n%s\n", page.c_str());
}

TEST_CASE("what functions _defaults fill in is legal, but for what only the caller knows", "[errors]") {
    CHECK(to_be_set(milcgpu_solve_defaults).empty());
    CHECK(to_be_set(milcgpu_multi_mass_defaults).empty());
    CHECK(to_be_set(milcgpu_fatlink_defaults).empty());
    CHECK(to_be_set(milcgpu_force_defaults) == "spec.links is NULL");
    CHECK(to_be_set(milcgpu_eigen_defaults).empty());
    CHECK(to_be_set(milcgpu_gauge_fix_defaults).empty());
    CHECK(to_be_set(milcgpu_ape_defaults).empty());
    CHECK(to_be_set(milcgpu_hyp_defaults).empty());
    CHECK(to_be_set(milcgpu_flow_defaults).empty());
    CHECK(to_be_set(milcgpu_stout_defaults).empty());
    CHECK(to_be_set(milcgpu_meson_links_defaults).empty());
    CHECK(to_be_set(milcgpu_meson_defaults) == "spec.n_momenta is 0: must be 1 to 1000000");
    CHECK(to_be_set(milcgpu_dirac_defaults) == "spec.n_momenta is 0: must be 1 to 1000000");
    CHECK(to_be_set(milcgpu_dirac_meson_defaults) == "spec.n_momenta is 0: must be 1 to 1000000");
    CHECK(to_be_set(milcgpu_laplace_defaults).empty());
    CHECK(to_be_set(milcgpu_laplace_solve_defaults) == "spec.tolerance is 0: must be at least 1e-150");
    CHECK(to_be_set(milcgpu_wilson_defaults) == "spec.kappa is 0: must be above 0 and below 1");
}

TEST_CASE("members that are 0 or 1 are refused as any other number", "[errors]") {
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
    milcgpu_fatlink_spec spec;
    milcgpu_hisq_defaults(&spec, sizeof spec);
    spec.hisq = 2;
    CHECK(thrown_by([&] { checked_copy("spec", spec); }) == "spec.hisq is 2: must be 0 or 1");
    auto table = sized<milcgpu_messages>();
    table.size = table.node_size = 1, table.gpu_memory = 7;
    auto layout = layout_of({{4, 4, 4, 4}});
    layout.messages = &table;
    milcgpu_context *context = nullptr;
    CHECK(milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(has(milcgpu_last_error(), "gpu_memory is 7: must be 0 or 1"));
}

TEST_CASE("a struct of an older header is taken whole, with 0 for members that it ends before", "[errors]") {
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
            CHECK(std::string(error.what()) == format("Grown.struct_size is %zu, this library (%s) knows 24 to 48: set "
                                                      "it to sizeof, and compile against the header of the library "
                                                      "that is linked",
                                                      size, MILCGPU_VERSION));
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

TEST_CASE("a report of an older header gets the members that it has, and so does each of several", "[errors]") {
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
        try {
            require_sizes(reports, 2);
            CHECK(false);
        } catch (const Error &error) {
            CHECK(error.status() == Status::bad_argument);
        }
    }
}
