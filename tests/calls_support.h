// The table of all calls of the C interface: each function once with right arguments, and again as variants that work
// in another way. Walkers over it: test_calls.cpp (NULL and wrong numbers, signs of links, ranks that differ),
// test_flips_calls.cpp, test_cut_calls.cpp, test_faults.cpp; tests/cuda_faults makes calls of the CUDA runtime fail in
// it. A function that is not in the table fails a test. Nothing here needs Catch.
#pragma once
#include "milc_glue/api/members.h"
#include "tests/reference/lattice.h"
#include "tests/sized.h"
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tests {

using Reals = std::vector<double>;

// Fields of the whole lattice in MILC's order.
struct WholeFields {
    reference::Lattice lattice;
    Reals bare, phased, momenta, fat, lng; // bare: links without staggered phases; fat, lng: asqtad links of them
    std::vector<Reals> colour, dirac;      // vectors; dirac: of 24 reals a site
    Reals quark;                           // a propagator of Dirac fields, 96 reals a site
    // roughness: how far links are from 1; above 1: random
    explicit WholeFields(const reference::Lattice &lattice, double roughness = 0.3);
};

// A host field in the caller's precision.
struct HostData {
    Reals numbers;
    std::vector<float> single; // if not empty, it is what the library sees
    milcgpu_field field;
    HostData(Reals content, bool in_single);
    HostData(const HostData &) = delete;
    Reals content() const { return single.empty() ? numbers : Reals(single.begin(), single.end()); }
};

// What a call leaves behind: `reals` a site of this rank's box, or 0: numbers that all ranks have alike.
struct Part {
    std::string name;
    size_t reals;
    Reals numbers; // empty: they cannot be read
};
using State = std::vector<Part>;

// What a rank works with: handles, made when they are first asked for, host fields, and structs with right members.
class World {
  public:
    // places: of this rank's sites in fields of the whole lattice. phased: the gauge handles hold links with phases.
    World(milcgpu_context *, const WholeFields &, const std::vector<size_t> &places, bool phased = true,
          bool single = false);
    World(const World &) = delete;
    ~World();

    milcgpu_links *links();
    milcgpu_gauge *gauge();       // links and momenta
    milcgpu_gauge *moved();       // gauge(), with links that are off SU(3) by more than rounding
    milcgpu_gauge *bare();        // links without phases
    milcgpu_gauge *spare();       // as gauge()
    milcgpu_meson_links *meson(); // links without phases, antiperiodic
    milcgpu_wilson *wilson();
    milcgpu_vectors *vectors();                // 6, all parts filled
    milcgpu_eigenvectors *eigen();             // 2
    milcgpu_links *with_derivative(int which); // HISQ links of eps_naik 0, and their derivative by it
    const char *file(const char *name);        // in one folder for all ranks
    void written(const char *name);            // writes that file
    void start_smearing();                     // outputs hold what is smeared in place

    // Handles and outputs as they were at first. Throws if the library refuses. start_again(): without handles, and on
    // another context if one is given.
    void refill();
    void refill_outputs();
    void start_again(milcgpu_context *other = nullptr);
    Reals content_of(const milcgpu_field &) const; // of an input or an output
    State outputs() const;                         // of the host, which all of them are filled with at first
    // What the call that was made last left behind. Handles that it made are used once.
    State state();
    // Links of the last calls that went by singular values, and that were filtered: of this rank.
    std::vector<uint64_t> counts() const;
    void drop_made();

    milcgpu_context *context;
    const reference::Lattice lattice;
    const bool phased;
    const int signs, precision;
    const size_t sites;

    // Inputs.
    HostData &input(Reals content);
    std::vector<milcgpu_field> b, psi; // colour and Dirac vectors, 4 each
    std::vector<milcgpu_field> quark;  // 2, one field
    milcgpu_field links_in, bare_in, momenta_in, fat_in, lng_in;
    std::vector<uint32_t> generators, drawn;
    int origin[4] = {1, 0, 3, 1};

    // Outputs.
    std::vector<milcgpu_field> x, dirac_x, fat_x, lng_x;
    milcgpu_field v_x, y_x, w_x, numbers_x, links_x, momenta_x;
    Reals sums;
    double value = 0, other = 0;
    int integer = 0, column[4] = {}, power[4] = {};
    uint64_t count = 0;
    size_t bytes = 0;
    char text[200] = {};
    milcgpu_context *made_context = nullptr;
    milcgpu_links *made_links[3] = {};
    milcgpu_gauge *made_gauge = nullptr;
    milcgpu_meson_links *made_meson = nullptr;
    milcgpu_wilson *made_wilson = nullptr;
    milcgpu_vectors *made_vectors = nullptr;
    milcgpu_eigenvectors *made_eigen = nullptr;

    // Structs.
    milcgpu_storage as_given{};
    milcgpu_solve_spec solve{}, solve_sloppy{}, solve_half{}, wilson_solve{};
    milcgpu_pole shifts[4] = {};
    double weights[4] = {0.7, -0.2, 1.3, 0.4};
    milcgpu_multi_mass_spec masses{};
    milcgpu_fatlink_spec asqtad{}, hisq{}, fat_links{};
    milcgpu_fatlink_set sets[3] = {}, one_set[1] = {};
    milcgpu_hisq_links no_hisq{}, hisq_links{};
    milcgpu_force_set force_sets[3] = {};
    milcgpu_force_spec force{}, asqtad_force{};
    milcgpu_loops loops{}, plaquettes{};
    int lengths[2] = {6, 6}, steps[12] = {4, 4, 6, 3, 3, 1, 7, 5, 3, 0, 2, 4};
    milcgpu_eigen_spec lowest{};
    milcgpu_gauge_fix_spec fix{};
    milcgpu_ape_spec ape{};
    milcgpu_hyp_spec hyp{};
    milcgpu_stout_spec stout{};
    milcgpu_flow_spec flow{}, adaptive_flow{};
    milcgpu_observables observables{};
    milcgpu_meson_links_spec load{}, load_gauge{};
    milcgpu_momentum momenta[3] = {};
    milcgpu_meson_term meson_terms[3] = {};
    milcgpu_meson_spec contraction{};
    milcgpu_vector octets[24] = {}; // of vectors 0 to 2 and 3 to 5
    milcgpu_tie_up tie_ups[3] = {};
    milcgpu_tie_up_spec tie_up{}, tie_up_wall{}, tie_up_at_momentum{};
    milcgpu_gb_term gb_terms[3] = {};
    milcgpu_gb_spec three_point{}, two_point{};
    milcgpu_dirac_term dirac_terms[3] = {};
    milcgpu_dirac_spec slices{};
    milcgpu_dirac_meson_spec dirac_mesons{};
    milcgpu_wilson_spec clover{}, clover_bicgstab{};
    milcgpu_laplace_spec laplace{};
    milcgpu_laplace_solve_spec laplace_solve{};
    milcgpu_quarks from{}, to{}, in_place{}, on_device{}, to_device{};
    milcgpu_vector first[3] = {}, third[3] = {}; // vectors 0 and 1, 3 and 4
    milcgpu_solve_report reports[4] = {};
    milcgpu_multi_mass_report of_masses{};
    milcgpu_fatlink_report of_links{};
    milcgpu_force_report of_force{};
    milcgpu_reunitarize_report of_unitary{};
    milcgpu_eigen_report of_eigen{};
    milcgpu_flow_report of_flow{};
    milcgpu_gauge_fix_report of_fixing{};
    milcgpu_gauge_file of_file{};
    milcgpu_nersc_spec nersc{};
    milcgpu_layout layout{};
    milcgpu_options options{};

  private:
    Reals own(const Reals &whole, size_t reals) const;
    milcgpu_field output(const char *name, size_t reals);
    void fill(milcgpu_gauge *, bool with_phases);
    void set_structs();
    void drop_all();
    const WholeFields &whole_;
    const std::vector<size_t> places_;
    std::deque<HostData> fields_;
    struct Output {
        const char *name;
        size_t reals;
        HostData *data;
        Reals before;
    };
    std::vector<Output> outputs_;
    milcgpu_links *links_ = nullptr, *of_eps_[2] = {};
    milcgpu_gauge *gauge_ = nullptr, *bare_ = nullptr, *spare_ = nullptr;
    milcgpu_meson_links *meson_ = nullptr;
    milcgpu_wilson *wilson_ = nullptr;
    milcgpu_vectors *vectors_ = nullptr;
    milcgpu_eigenvectors *eigen_ = nullptr;
    std::deque<std::string> paths_;
};

// An argument of a call, in storage that walkers change.
struct Argument {
    enum Kind { integer, real, pointer, structure, rest } kind;
    void *at;
    bool optional = false;                      // a pointer that may be NULL
    bool to_field = false;                      // to a milcgpu_field
    bool to_integers = false, to_reals = false; // to constant ones
    const milcgpu::Table *table = nullptr;      // of the struct, or of the one that is pointed to
    void *&pointer_value() const { return *static_cast<void **>(at); }
};

// A call with right arguments. Those are of its own; structs and fields are of the World.
struct BoundCall {
    std::vector<Argument> arguments;
    std::function<milcgpu_status()> run; // OK where the function returns something else
    bool has_status = true;
};

template <class Struct, class = void> constexpr bool has_members = false;
template <class Struct>
constexpr bool has_members<Struct, std::void_t<decltype(milcgpu::Members<std::remove_cv_t<Struct>>::list)>> = true;

template <class Type> Argument argument_at(Type &at) {
    using Pointed = std::remove_cv_t<std::remove_pointer_t<Type>>;
    Argument a{Argument::rest, &at};
    if constexpr (std::is_same_v<Type, int>) {
        a.kind = Argument::integer;
    } else if constexpr (std::is_same_v<Type, double>) {
        a.kind = Argument::real;
    } else if constexpr (std::is_pointer_v<Type>) {
        a.kind = Argument::pointer;
        a.to_field = std::is_same_v<Pointed, milcgpu_field>;
        a.to_integers = std::is_same_v<Type, const int *>, a.to_reals = std::is_same_v<Type, const double *>;
        if constexpr (has_members<Pointed> && !std::is_same_v<Pointed, double>)
            a.table = &milcgpu::members_of<Pointed>;
    } else if constexpr (has_members<Type>) {
        a.kind = Argument::structure, a.table = &milcgpu::members_of<Type>;
    }
    return a;
}

// optional: the arguments, counted from 0, that may be NULL.
template <class Result, class... Arguments, class... Given>
BoundCall bound(World &w, Result (*function)(Arguments...), const std::set<int> &optional, Given... given) {
    const auto all = std::make_shared<std::tuple<Arguments...>>(static_cast<Arguments>(given)...);
    BoundCall call;
    std::apply([&](auto &...each) { (call.arguments.push_back(argument_at(each)), ...); }, *all);
    for (const int k : optional)
        call.arguments.at(k).optional = true;
    call.has_status = std::is_same_v<Result, milcgpu_status>;
    call.run = [&w, function, all] {
        w.drop_made();
        if constexpr (std::is_same_v<Result, milcgpu_status>)
            return std::apply(function, *all);
        std::apply(function, *all);
        return MILCGPU_OK;
    };
    return call;
}

struct Call {
    const char *function, *variant; // variant: "" for the row of the function
    enum Traits {
        none = 0,
        alone = 1,        // not a call of all ranks
        takes_phases = 2, // links with phases only, and the call is not told
        solves = 4,       // the result has the error of a solve
        loose = 8         // a solve in half precision
    };
    int traits;
    BoundCall (*with)(World &);
    std::string name() const { return std::string(function) + (*variant != '\0' ? std::string(", ") + variant : ""); }
};
const std::vector<Call> &calls();

bool same_state(const State &, const State &);
// A part of the state that a solve of the call, or of World::state(), has made. Other parts have no error of a solve.
bool is_of_a_solve(const Call &, const Part &);

// A call in which a fault is planted, and the next one. clean: the state after a call without a fault.
struct FaultedCall {
    bool happened = false; // the fault
    milcgpu_status status = MILCGPU_OK, next = MILCGPU_OK;
    std::string message;
    bool written = false; // in spite of an error, to outputs on the host
    bool emptied = false; // the next call refused a handle, until it was loaded again
    std::string wrong;    // what differs from a state or from outputs that are right; empty: nothing
};
FaultedCall run_with_fault(World &, const Call &, const State &clean, const std::function<void()> &plant,
                           const std::function<bool()> &lift);

} // namespace tests
