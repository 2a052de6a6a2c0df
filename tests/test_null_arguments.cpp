// Every function of the C interface with NULL for each pointer it takes, and with numbers that no call may take for
// each argument and member of a struct: what is refused names the argument.
#include "milc_glue/api/apart.h"
#include "milc_glue/api/members.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include "tests/support.h"
#include <filesystem>
#include <limits>
#include <random>
#include <utility>

using namespace tests;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The names of a function's parameters, from its declaration in the headers.
std::vector<std::string> parameters_of(const std::string &function) {
    static const std::string headers = [] {
        std::string all;
        for (const auto &file : std::filesystem::directory_iterator("milc_glue/api"))
            if (file.path().extension() == ".h" && file.path().filename().string().rfind("milcgpu", 0) == 0)
                all += text_of(file.path());
        return all;
    }();
    size_t at = headers.find(function + "(");
    while (at != std::string::npos && !(headers[at - 1] == ' ' || headers[at - 1] == '*'))
        at = headers.find(function + "(", at + 1);
    REQUIRE(at != std::string::npos);
    std::vector<std::string> names(1);
    int depth = 0;
    for (at += function.size();; ++at) {
        const char c = headers[at];
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        if (depth == 0)
            break;
        if (depth > 1 || c == ']')
            continue; // an extent
        if (c == ',')
            names.emplace_back();
        else if (std::isalnum(c) || c == '_')
            names.back() += c;
        else
            names.back().clear(); // the last word is the name
    }
    return names;
}

bool says_word(const std::string &text, const std::string &word) {
    const auto in_word = [](char c) { return std::isalnum(c) || c == '_'; };
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if ((at == 0 || !in_word(text[at - 1])) && !in_word(text[at + word.size()]))
            return true;
    return false;
}

template <class Struct, class = void> constexpr bool has_members = false;
template <class Struct>
constexpr bool has_members<Struct, std::void_t<decltype(milcgpu::Members<std::remove_cv_t<Struct>>::list)>> = true;

// Calls functions with arguments that are right, but for one: a pointer that is NULL; or a number, of the call or of a
// struct or field of it, that no call takes for right.
class Walk {
  public:
    std::set<std::string> walked;
    int refusals = 0;
    // optional: the pointers (counted from 0 among all arguments) that may be NULL.
    template <class Result, class... Arguments, class... Given>
    void operator()(const char *name, Result (*function)(Arguments...), const std::set<int> &optional, Given... given) {
        walked.insert(name);
        name_ = name;
        if constexpr (sizeof...(Arguments) > 0)
            parameters_ = parameters_of(name);
        one_by_one(function, optional, std::index_sequence_for<Arguments...>(), static_cast<Arguments>(given)...);
        if constexpr (std::is_same_v<Result, milcgpu_status>)
            vary_all(function, std::index_sequence_for<Arguments...>(), static_cast<Arguments>(given)...);
    }

  private:
    template <class T> static T null_if(bool wanted, T value) {
        if constexpr (std::is_pointer_v<T>)
            return wanted ? nullptr : value;
        else
            return value;
    }
    template <class Result, class... Arguments, size_t... k>
    void one_by_one(Result (*function)(Arguments...), const std::set<int> &optional, std::index_sequence<k...>,
                    Arguments... right) {
        constexpr bool is_pointer[] = {std::is_pointer_v<Arguments>...};
        for (size_t null = 0; null < sizeof...(k); ++null)
            if (is_pointer[null]) {
                if constexpr (std::is_same_v<Result, milcgpu_status>)
                    judge(null, optional.count(int(null)) != 0, function(null_if(k == null, right)...));
                else
                    function(null_if(k == null, right)...); // it comes back
            }
    }
    // The name of the function is in front, and nowhere else.
    void judge(size_t k, bool may_be_null, milcgpu_status status) {
        CAPTURE(name_, k, milcgpu_last_error());
        CHECK(status == (may_be_null ? MILCGPU_OK : MILCGPU_BAD_ARGUMENT));
        if (status == MILCGPU_OK)
            return;
        const std::string words = milcgpu_last_error(), function = name_ + ": ";
        CHECK(words.rfind(function, 0) == 0);
        CHECK(words.find("milcgpu_", function.size()) == std::string::npos);
        CHECK(words.find("NULL") != std::string::npos);
        CHECK(says_word(words, parameters_.at(k)));
    }
    // What was refused names the member, or the argument; what was not is as the call says.
    void judge_refusal(const std::string &what, const std::string &name, double value, milcgpu_status status) {
        if (status != MILCGPU_BAD_ARGUMENT && status != MILCGPU_NOT_BUILT)
            return;
        ++refusals;
        const std::string words = std::string(milcgpu_last_error()).substr(name_.size());
        if (!says_word(words, name) && !says_word(words, what))
            FAIL_CHECK(name_ << ", " << what << " " << name << " " << value << ": " << milcgpu_last_error());
    }
    template <class... Arguments, size_t... k>
    void vary_all(milcgpu_status (*function)(Arguments...), std::index_sequence<k...>, Arguments... right) {
        (vary<k>(function, std::tuple<Arguments...>(right...)), ...);
    }
    template <size_t k, class... Arguments>
    void vary(milcgpu_status (*function)(Arguments...), std::tuple<Arguments...> arguments) {
        auto &argument = std::get<k>(arguments);
        using Type = std::remove_reference_t<decltype(argument)>;
        using Pointed = std::remove_cv_t<std::remove_pointer_t<Type>>;
        const std::string parameter = parameters_.at(k);
        const auto call = [&](const std::string &name, double value) {
            judge_refusal(parameter, name, value, std::apply(function, arguments));
        };
        if constexpr (std::is_same_v<Type, int> || std::is_same_v<Type, double>) {
            for (const double value : wrong(std::is_same_v<Type, int>))
                if (parameter != "steps" || value < 0) // as many as are asked for
                    argument = Type(value), call(parameter, value);
        } else if constexpr (std::is_same_v<Pointed, milcgpu_field>) {
            const milcgpu_field right = *argument;
            milcgpu_field changed = right;
            argument = &changed;
            for (const int precision : {-5, 0, 3, 99})
                changed = {right.data, precision, right.pitch_bytes}, call(parameter, precision);
            for (const size_t pitch : {size_t(7), size_t(8), ~size_t(0)})
                changed = {right.data, right.precision, pitch}, call(parameter, double(pitch));
            changed = {static_cast<char *>(right.data) + 1, right.precision, right.pitch_bytes}, call(parameter, 1);
            changed = {nullptr, right.precision, right.pitch_bytes}, call(parameter, 0);
        } else if constexpr (std::is_pointer_v<Type> && has_members<Pointed> && !std::is_same_v<Pointed, double>) {
            Pointed changed = *argument;
            argument = &changed;
            members(milcgpu::members_of<Pointed>, &changed, call);
        } else if constexpr (has_members<Type>) {
            members(milcgpu::members_of<Type>, &argument, call);
        }
    }
    static std::vector<double> wrong(bool whole) {
        if (whole)
            return {-5, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
        return {not_a_number, HUGE_VAL, -HUGE_VAL};
    }
    // Each number of a struct, of those in it and of its entries. What its table says is legal is not tried.
    template <class Call> void members(const milcgpu::Table &table, void *at, const Call &call) {
        using milcgpu::Member;
        for (const Member &m : table) {
            unsigned char *const here = static_cast<unsigned char *>(at) + m.offset;
            if (m.kind == Member::inside)
                members(*m.table, here, call);
            if ((m.kind == Member::entries || m.kind == Member::some) && m.has_table()) {
                void **const pointer = reinterpret_cast<void **>(here), *const right = *pointer;
                const int n = *reinterpret_cast<int *>(static_cast<unsigned char *>(at) + m.how_many);
                if (right == nullptr || n < 1)
                    continue;
                const unsigned char *const first = static_cast<unsigned char *>(right);
                std::vector<unsigned char> entries(first, first + n * m.table->bytes);
                *pointer = entries.data();
                members(*m.table, entries.data(), call);
                *pointer = right;
            }
            for (int k = 0; m.kind == Member::numbers && k < m.count; ++k) {
                const double right = m.get(here + k * m.bytes);
                const bool whole = m.bytes == sizeof(int);
                if (m.set(here + k * m.bytes, 0.5); !whole && m.get(here + k * m.bytes) != 0.5)
                    continue; // size_t
                for (const double value : wrong(whole))
                    if (!m.may.checked || !m.may.holds(value)) {
                        m.set(here + k * m.bytes, value);
                        call(m.name != nullptr ? m.name : "", value);
                    }
                m.set(here + k * m.bytes, right);
            }
        }
    }
    std::string name_;
    std::vector<std::string> parameters_;
};

std::set<std::string> declared() {
    std::set<std::string> names;
    for (const auto &file : std::filesystem::directory_iterator("milc_glue/api")) {
        const std::string name = file.path().filename();
        if (name.rfind("milcgpu", 0) != 0 || file.path().extension() != ".h" || name == "milcgpu_mpi.h" ||
            name == "milcgpu_milc.h") // both are compiled by the caller
            continue;
        names.merge(names_in(text_of(file.path()), a_function));
    }
    return names;
}

// Handles with what they need, and fields.
struct World {
    reference::Lattice lattice{{4, 4, 4, 4}};
    Session<double> session;
    milcgpu_wilson *wilson = nullptr;
    milcgpu_meson_links *meson = nullptr;
    milcgpu_vectors *vectors = nullptr;
    milcgpu_gauge *gauge = nullptr, *copy = nullptr;
    std::vector<double> u, without_phases, colour, dirac, sites, momenta;
    milcgpu_field links, plain, b, psi, numbers, h; // links: with phases
    explicit World(milcgpu::Backend backend) : session(lattice, backend, 0, 0) {
        const AsqtadLinks made = asqtad_links(lattice, 921);
        REQUIRE(session.load(made.fat, made.lng) == MILCGPU_OK);
        auto gauge_links = reference::near_unit_gauge(lattice, 0.2, 922);
        without_phases = reference::links_to_milc<double>(lattice, gauge_links);
        plain = session.field(without_phases);
        reference::apply_phases(lattice, gauge_links);
        u = reference::links_to_milc<double>(lattice, gauge_links);
        colour = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 923));
        dirac.assign(24 * size_t(lattice.volume()), 0.1), sites.assign(32 * size_t(lattice.volume()), 0);
        momenta.assign(40 * size_t(lattice.volume()), 0.01);
        links = session.field(u), b = session.field(colour), psi = session.field(dirac);
        numbers = session.field(sites), h = session.field(momenta);
        REQUIRE(milcgpu_wilson_create(session.context, &wilson) == MILCGPU_OK);
        REQUIRE(milcgpu_wilson_load(wilson, &plain) == MILCGPU_OK);
        REQUIRE(milcgpu_meson_links_create(session.context, MILCGPU_DOUBLE, &meson) == MILCGPU_OK);
        auto as_they_are = sized<milcgpu_meson_links_spec>();
        as_they_are.signs = MILCGPU_SIGNS_OUT;
        REQUIRE(milcgpu_meson_links_load(meson, &as_they_are, &plain) == MILCGPU_OK);
        REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, 4, &vectors) == MILCGPU_OK);
        for (int k = 0; k < 4; ++k)
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                REQUIRE(milcgpu_vectors_load(vectors, k, parity, &b) == MILCGPU_OK);
        for (milcgpu_gauge **made_here : {&gauge, &copy}) {
            REQUIRE(milcgpu_gauge_create(session.context, MILCGPU_DOUBLE, made_here) == MILCGPU_OK);
            REQUIRE(milcgpu_gauge_load(*made_here, &links, 0) == MILCGPU_OK);
            REQUIRE(milcgpu_momenta_load(*made_here, &h) == MILCGPU_OK);
        }
    }
    World(const World &) = delete;
    ~World() {
        milcgpu_gauge_destroy(gauge);
        milcgpu_gauge_destroy(copy);
        milcgpu_vectors_destroy(vectors);
        milcgpu_meson_links_destroy(meson);
        milcgpu_wilson_destroy(wilson);
    }
};

} // namespace

TEST_CASE("every function of the C interface takes NULL for each pointer: refused in words, or as its header says",
          "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        milcgpu_context *const c = w.session.context;
        milcgpu_links *const k = w.session.links;
        Walk walk;
        walk.walked = {"milcgpu_version", "milcgpu_last_error", "milcgpu_status_name"}; // of no pointer
        // milcgpu.h
        const milcgpu_layout layout = layout_of(w.lattice);
        auto options = sized<milcgpu_options>();
        options.device = -1;
        int integer = 0;
        size_t bytes = 0;
        char text[100];
        double value = 0, other = 0;
        milcgpu_context *made = nullptr;
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        const milcgpu_pole shift{0.2, 1e-6, 0};
        auto masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN, masses.n_shifts = 1, masses.shifts = &shift;
        masses.max_iterations = 100, masses.max_restarts = 2, masses.shared.precision = MILCGPU_DOUBLE;
        const milcgpu_storage in_double{MILCGPU_DOUBLE, 18};
        auto report = sized<milcgpu_solve_report>();
        auto of_masses = sized<milcgpu_multi_mass_report>();
        milcgpu_fatlink_spec fat_links;
        milcgpu_asqtad_defaults(0.9, &fat_links, sizeof fat_links);
        fat_links.signs = 0;
        milcgpu_links *made_links = nullptr;
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &made_links};
        const milcgpu_hisq_links no_hisq{};
        auto of_links = sized<milcgpu_fatlink_report>();
        std::vector<double> out = w.colour, dirac_out = w.dirac;
        const milcgpu_field x = w.session.field(out), dirac_x = w.session.field(dirac_out);
        walk("milcgpu_context_create", milcgpu_context_create, {1}, &layout, &options, &made);
        milcgpu_context_destroy(made);
        for (int milcgpu_options::*const member : {&milcgpu_options::backend, &milcgpu_options::block_size})
            for (const int wrong : {-5, 99}) {
                milcgpu_options other = options;
                other.*member = wrong;
                CHECK(milcgpu_context_create(&layout, &other, &made) == MILCGPU_BAD_ARGUMENT);
                CHECK(says_word(milcgpu_last_error(), member == &milcgpu_options::backend ? "backend" : "block_size"));
            }
        walk("milcgpu_context_destroy", milcgpu_context_destroy, {}, nullptr);
        walk("milcgpu_context_device_name", milcgpu_context_device_name, {}, c);
        walk("milcgpu_context_backend", milcgpu_context_backend, {}, c, &integer);
        walk("milcgpu_memory_pin", milcgpu_memory_pin, {}, c, w.u.data(), size_t(64));
        walk("milcgpu_memory_unpin", milcgpu_memory_unpin, {}, c, w.u.data());
        walk("milcgpu_links_create", milcgpu_links_create, {}, c, &w.links, &w.links, &made_links);
        walk("milcgpu_links_update", milcgpu_links_update, {3}, k, &w.links, &w.links, &integer);
        milcgpu_links *sum = nullptr;
        walk("milcgpu_links_add", milcgpu_links_add, {}, k, 0.5, k, &sum);
        milcgpu_links_destroy(sum);
        walk("milcgpu_links_version", milcgpu_links_version, {}, k);
        walk("milcgpu_links_destroy", milcgpu_links_destroy, {}, nullptr);
        walk("milcgpu_staggered_dslash", milcgpu_staggered_dslash, {}, k, &in_double, MILCGPU_EVEN, &w.b, &x);
        walk("milcgpu_staggered_residual", milcgpu_staggered_residual, {}, k, MILCGPU_EVEN, 0.1, &w.b, &x, &value);
        walk("milcgpu_staggered_solve", milcgpu_staggered_solve, {4}, k, &how, &w.b, &x, &report);
        walk("milcgpu_staggered_solve_sources", milcgpu_staggered_solve_sources, {6}, k, &how, MILCGPU_BLOCK, 1, &w.b,
             &x, &report);
        walk("milcgpu_staggered_multi_mass", milcgpu_staggered_multi_mass, {4}, k, &masses, &w.b, &x, &of_masses);
        walk("milcgpu_links_make", milcgpu_links_make, {5, 6}, c, &fat_links, &w.links, &set, 1, &no_hisq, &of_links);
        walk("milcgpu_memory_plan", milcgpu_memory_plan, {3, 5}, c, MILCGPU_DOUBLE, &how, text, sizeof text, &bytes);
        walk("milcgpu_sources_plan", milcgpu_sources_plan, {5, 7}, c, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, 2, text,
             sizeof text, &bytes);
        walk("milcgpu_multi_mass_plan", milcgpu_multi_mass_plan, {3, 5}, c, MILCGPU_DOUBLE, &masses, text, sizeof text,
             &bytes);
        walk(
            "milcgpu_kernels_list", milcgpu_kernels_list, {}, [](void *, const char *) {}, nullptr);
        // Functions _defaults.
        walk("milcgpu_asqtad_defaults", milcgpu_asqtad_defaults, {}, 0.9, nullptr, size_t(0));
        walk("milcgpu_hisq_defaults", milcgpu_hisq_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_solve_defaults", milcgpu_solve_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_multi_mass_defaults", milcgpu_multi_mass_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_fatlink_defaults", milcgpu_fatlink_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_force_defaults", milcgpu_force_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_eigen_defaults", milcgpu_eigen_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_gauge_fix_defaults", milcgpu_gauge_fix_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_ape_defaults", milcgpu_ape_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_hyp_defaults", milcgpu_hyp_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_flow_defaults", milcgpu_flow_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_stout_defaults", milcgpu_stout_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_meson_links_defaults", milcgpu_meson_links_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_meson_defaults", milcgpu_meson_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_dirac_defaults", milcgpu_dirac_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_dirac_meson_defaults", milcgpu_dirac_meson_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_laplace_defaults", milcgpu_laplace_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_laplace_solve_defaults", milcgpu_laplace_solve_defaults, {}, nullptr, size_t(0));
        walk("milcgpu_wilson_defaults", milcgpu_wilson_defaults, {}, nullptr, size_t(0));
        // milcgpu_md.h
        milcgpu_gauge *gauge = nullptr;
        milcgpu_vectors *vectors = nullptr;
        const double residue = 1;
        milcgpu_fatlink_spec asqtad;
        milcgpu_asqtad_defaults(1, &asqtad, sizeof asqtad);
        auto force = sized<milcgpu_force_spec>();
        force.links = &asqtad, force.eps = 0.01, force.n_terms = 1, force.residues = &residue;
        auto of_force = sized<milcgpu_force_report>();
        auto of_unitary = sized<milcgpu_reunitarize_report>();
        const milcgpu_loops loops{1, -0.05, 0.01, 0};
        const milcgpu_vector source{w.vectors, 0}, solution{w.vectors, 1};
        walk("milcgpu_gauge_create", milcgpu_gauge_create, {}, c, MILCGPU_DOUBLE, &gauge);
        walk("milcgpu_gauge_destroy", milcgpu_gauge_destroy, {}, nullptr);
        walk("milcgpu_gauge_load", milcgpu_gauge_load, {}, w.copy, &w.links, 0.0);
        walk("milcgpu_gauge_save", milcgpu_gauge_save, {}, w.gauge, &w.links);
        walk("milcgpu_momenta_load", milcgpu_momenta_load, {}, w.copy, &w.h);
        walk("milcgpu_momenta_save", milcgpu_momenta_save, {}, w.gauge, &w.h);
        walk("milcgpu_gauge_version", milcgpu_gauge_version, {}, w.gauge);
        walk("milcgpu_momenta_version", milcgpu_momenta_version, {}, w.gauge);
        walk("milcgpu_gauge_make_links", milcgpu_gauge_make_links, {4, 5}, w.gauge, &fat_links, &set, 1, &no_hisq,
             &of_links);
        walk("milcgpu_vectors_create", milcgpu_vectors_create, {}, c, MILCGPU_DOUBLE, 1, &vectors);
        walk("milcgpu_vectors_destroy", milcgpu_vectors_destroy, {}, nullptr);
        walk("milcgpu_vectors_load", milcgpu_vectors_load, {}, w.vectors, 0, MILCGPU_EVEN, &w.b);
        walk("milcgpu_vectors_save", milcgpu_vectors_save, {}, w.vectors, 0, MILCGPU_EVEN, &x);
        walk("milcgpu_vectors_dslash", milcgpu_vectors_dslash, {}, w.vectors, 0, k, MILCGPU_ODD);
        walk("milcgpu_vectors_minus_dslash", milcgpu_vectors_minus_dslash, {}, k, MILCGPU_EVEN, 1.0, 0.2, source,
             solution, milcgpu_vector{w.vectors, 2});
        walk("milcgpu_vectors_sum", milcgpu_vectors_sum, {}, w.vectors, 0, 1, &residue, MILCGPU_EVEN, &x);
        walk("milcgpu_staggered_multi_mass_vectors", milcgpu_staggered_multi_mass_vectors, {5}, k, &masses, &w.b,
             w.vectors, 2, &of_masses);
        walk("milcgpu_staggered_solve_vectors", milcgpu_staggered_solve_vectors, {6}, k, &how, MILCGPU_BLOCK, 1,
             &source, &solution, &report);
        walk("milcgpu_momenta_add_fermion_force", milcgpu_momenta_add_fermion_force, {3}, w.copy, &force, &w.b,
             &of_force);
        walk("milcgpu_momenta_add_force_of_vectors", milcgpu_momenta_add_force_of_vectors, {3}, w.copy, &force,
             w.vectors, &of_force);
        walk("milcgpu_momenta_add_gauge_force", milcgpu_momenta_add_gauge_force, {4}, w.copy, &loops, 6.0, 0.01,
             &of_force);
        walk("milcgpu_gauge_update", milcgpu_gauge_update, {3}, w.copy, 0.01, 6, &of_force);
        REQUIRE(milcgpu_gauge_load(w.copy, &w.plain, 0) == MILCGPU_OK);
        std::vector<uint32_t> generators(15 * w.lattice.volume(), 1), drawn(w.lattice.volume());
        walk("milcgpu_gauge_overrelax", milcgpu_gauge_overrelax, {}, w.copy, 0);
        walk("milcgpu_gauge_heat_bath", milcgpu_gauge_heat_bath, {}, w.copy, 6.0, 0, generators.data(), drawn.data());
        REQUIRE(milcgpu_gauge_load(w.copy, &w.links, 0) == MILCGPU_OK);
        walk("milcgpu_gauge_reunitarize", milcgpu_gauge_reunitarize, {}, w.copy, 0.0, &of_unitary);
        walk("milcgpu_gauge_action", milcgpu_gauge_action, {}, w.gauge, &loops, &value);
        walk("milcgpu_momenta_action", milcgpu_momenta_action, {}, w.gauge, &value);
        walk("milcgpu_gauge_plaquettes", milcgpu_gauge_plaquettes, {}, w.gauge, &value, &other);
        walk("milcgpu_gauge_polyakov_loop", milcgpu_gauge_polyakov_loop, {}, w.gauge, &value, &other);
        const int length = 4, plaquette[4] = {0, 1, 7, 6};
        double trace[2];
        walk("milcgpu_gauge_loop_traces", milcgpu_gauge_loop_traces, {}, w.gauge, 0, 1, &length, plaquette, trace);
        // milcgpu_eigen.h
        milcgpu_eigen_spec lowest;
        milcgpu_eigen_defaults(&lowest, sizeof lowest);
        lowest.count = 1;
        auto of_eigen = sized<milcgpu_eigen_report>();
        milcgpu_eigenvectors *vectors_made = nullptr, *eigen = nullptr;
        walk("milcgpu_eigenvectors_compute", milcgpu_eigenvectors_compute, {3}, k, &lowest, &vectors_made, &of_eigen);
        milcgpu_eigenvectors_destroy(vectors_made);
        walk("milcgpu_eigenvectors_plan", milcgpu_eigenvectors_plan, {}, c, &lowest, &bytes);
        walk("milcgpu_eigenvectors_create", milcgpu_eigenvectors_create, {}, k, MILCGPU_EVEN, 0, 1, &vectors_made);
        REQUIRE(milcgpu_eigenvectors_create(k, MILCGPU_EVEN, 0, 1, &eigen) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_load(eigen, k, 0, &w.b) == MILCGPU_OK);
        walk("milcgpu_eigenvectors_load", milcgpu_eigenvectors_load, {}, eigen, k, 0, &w.b);
        walk("milcgpu_eigenvectors_save", milcgpu_eigenvectors_save, {}, eigen, 0, &x);
        walk("milcgpu_eigenvectors_count", milcgpu_eigenvectors_count, {}, eigen);
        walk("milcgpu_eigenvectors_values", milcgpu_eigenvectors_values, {1, 2}, eigen, &value, &other);
        const Folder folder;
        const std::string path = (folder.path / "vectors").string();
        walk("milcgpu_eigenvectors_write", milcgpu_eigenvectors_write, {3}, eigen, path.c_str(), MILCGPU_SINGLE, "now");
        walk("milcgpu_eigenvectors_read", milcgpu_eigenvectors_read, {}, k, path.c_str(), 0, 0, &vectors_made);
        walk("milcgpu_eigenvectors_destroy", milcgpu_eigenvectors_destroy, {}, nullptr);
        // milcgpu_file.h
        const std::string lattice = (folder.path / "lattice").string();
        auto of_file = sized<milcgpu_gauge_file>();
        walk("milcgpu_gauge_file_write", milcgpu_gauge_file_write, {3, 4}, c, lattice.c_str(), &w.plain, "now",
             &of_file);
        for (const size_t length : {63, 64}) {
            const std::string time(length, 'x');
            CHECK((milcgpu_gauge_file_write(c, lattice.c_str(), &w.plain, time.c_str(), &of_file) == MILCGPU_OK) ==
                  (length < 64));
            CHECK(of_file.time == std::string(63, 'x'));
            CHECK((milcgpu_eigenvectors_write(eigen, path.c_str(), MILCGPU_SINGLE, time.c_str()) == MILCGPU_OK) ==
                  (length < 64));
        }
        CHECK(says_word(milcgpu_last_error(), "time"));
        milcgpu_eigenvectors_destroy(eigen);
        walk("milcgpu_gauge_file_look", milcgpu_gauge_file_look, {}, lattice.c_str(), &of_file);
        walk("milcgpu_gauge_file_read", milcgpu_gauge_file_read, {3}, c, lattice.c_str(), &w.plain, &of_file);
        // milcgpu_flow.h, milcgpu_gauge.h
        milcgpu_flow_spec flow;
        milcgpu_flow_defaults(&flow, sizeof flow);
        flow.stop = 0;
        const milcgpu_flow_callback goes_on = [](void *, const milcgpu_flow_point *) { return 0; };
        auto of_flow = sized<milcgpu_flow_report>();
        milcgpu_observables observables{};
        auto stout = sized<milcgpu_stout_spec>();
        stout.rho = 0.1, stout.times = 1, stout.directions = 4;
        auto fix = sized<milcgpu_gauge_fix_spec>();
        fix.direction = 3, fix.most_steps = 1, fix.tolerance = -1;
        auto of_fixing = sized<milcgpu_gauge_fix_report>();
        auto ape = sized<milcgpu_ape_spec>();
        ape.weight = 0.1, ape.times = 1;
        uint64_t number = 0;
        auto hyp = sized<milcgpu_hyp_spec>();
        hyp.alpha1 = hyp.alpha2 = hyp.alpha3 = 0.3, hyp.times = 1, hyp.directions = 4;
        walk("milcgpu_gauge_flow", milcgpu_gauge_flow, {2, 3, 4}, w.copy, &flow, goes_on, &value, &of_flow);
        walk("milcgpu_gauge_measure", milcgpu_gauge_measure, {}, w.gauge, 0, &observables);
        walk("milcgpu_gauge_stout_smear", milcgpu_gauge_stout_smear, {2}, w.copy, &stout, &of_force);
        walk("milcgpu_gauge_copy", milcgpu_gauge_copy, {}, w.gauge, w.copy);
        walk("milcgpu_gauge_fix", milcgpu_gauge_fix, {2}, w.copy, &fix, &of_fixing);
        walk("milcgpu_gauge_ape_smear", milcgpu_gauge_ape_smear, {2, 3}, w.copy, &ape, &number, &of_force);
        walk("milcgpu_gauge_hyp_smear", milcgpu_gauge_hyp_smear, {2}, w.copy, &hyp, &of_force);
        // milcgpu_mesons.h
        milcgpu_meson_links *meson = nullptr;
        auto as_they_are = sized<milcgpu_meson_links_spec>();
        as_they_are.signs = MILCGPU_SIGNS_OUT;
        const int origin[4] = {0, 0, 0, 0};
        const milcgpu_quarks from{&w.b, nullptr, 0}, to{&x, nullptr, 0};
        const milcgpu_momentum still{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
        const milcgpu_meson_term term{0, 0, 0, 1, 0};
        auto contraction = sized<milcgpu_meson_spec>();
        contraction.n_momenta = contraction.n_terms = contraction.n_correlators = 1;
        contraction.momenta = &still, contraction.terms = &term;
        std::vector<double> correlators(2 * 4 * 144 * 16);
        walk("milcgpu_meson_links_create", milcgpu_meson_links_create, {}, c, MILCGPU_DOUBLE, &meson);
        walk("milcgpu_meson_links_destroy", milcgpu_meson_links_destroy, {}, nullptr);
        auto from_gauge = sized<milcgpu_meson_links_spec>();
        from_gauge.signs = MILCGPU_SIGNS_IN;
        walk("milcgpu_meson_links_load", milcgpu_meson_links_load, {}, w.meson, &as_they_are, &w.plain);
        walk("milcgpu_meson_links_load_gauge", milcgpu_meson_links_load_gauge, {}, w.meson, &from_gauge, w.gauge);
        walk("milcgpu_quarks_shift", milcgpu_quarks_shift, {3}, w.meson, 0, MILCGPU_FORWARD, origin, 1, &from, &to);
        walk("milcgpu_spin_taste_index", milcgpu_spin_taste_index, {}, "pion5");
        walk("milcgpu_spin_taste_label", milcgpu_spin_taste_label, {}, 0, text, sizeof text);
        walk("milcgpu_quarks_spin_taste", milcgpu_quarks_spin_taste, {1}, w.meson, k, 0, origin, 1, &from, &to);
        walk("milcgpu_quarks_gauss_smear", milcgpu_quarks_gauss_smear, {}, w.meson, 1, 0.5, 1, -1, 1, &to);
        walk("milcgpu_quarks_laplacian", milcgpu_quarks_laplacian, {}, w.meson, 1, -1, 1, &to);
        walk("milcgpu_quarks_contract", milcgpu_quarks_contract, {2, 3}, w.meson, &contraction, k, k, 1, &from, &from,
             correlators.data());
        // milcgpu_dirac.h
        int column[4], power[4];
        auto slices = sized<milcgpu_dirac_spec>();
        slices.n_momenta = 1, slices.momenta = &still;
        const milcgpu_dirac_term pion{3, 3, 0, 0, 1, 0};
        auto mesons = sized<milcgpu_dirac_meson_spec>();
        mesons.n_momenta = mesons.n_terms = mesons.n_correlators = 1;
        mesons.momenta = &still, mesons.terms = &pion;
        std::vector<double> propagator(96 * size_t(w.lattice.volume()), 0.1);
        const milcgpu_field quark = w.session.field(propagator);
        walk("milcgpu_gamma_index", milcgpu_gamma_index, {}, MILCGPU_GAMMAS_MILC, "G5");
        walk("milcgpu_gamma_label", milcgpu_gamma_label, {}, MILCGPU_GAMMAS_MILC, 0, text, sizeof text);
        walk("milcgpu_gamma_matrix", milcgpu_gamma_matrix, {}, MILCGPU_GAMMAS_MILC, 0, column, power);
        walk("milcgpu_dirac_sites", milcgpu_dirac_sites, {}, c, MILCGPU_OPEN_SPIN, &w.psi, &w.psi, &w.numbers);
        walk("milcgpu_dirac_slices", milcgpu_dirac_slices, {}, c, &slices, &w.psi, &w.psi, correlators.data());
        walk("milcgpu_dirac_mesons", milcgpu_dirac_mesons, {}, c, &mesons, 1, &quark, &quark, correlators.data());
        walk("milcgpu_dirac_open_mesons", milcgpu_dirac_open_mesons, {}, c, &mesons, 1, &quark, &quark,
             correlators.data());
        // milcgpu_laplace.h, milcgpu_wilson.h
        auto laplace = sized<milcgpu_laplace_spec>();
        laplace.directions = 3, laplace.kappa = 0.1, laplace.what = in_double;
        auto laplace_solve = sized<milcgpu_laplace_solve_spec>();
        laplace_solve.directions = 3, laplace_solve.kappa = 0.1, laplace_solve.tolerance = 1e-6;
        laplace_solve.max_iterations = 100, laplace_solve.max_restarts = 2, laplace_solve.precise = in_double;
        const milcgpu_wilson_spec wilson_spec{sizeof wilson_spec, 0.1, 1, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        milcgpu_wilson *wilson = nullptr;
        walk("milcgpu_laplace_apply", milcgpu_laplace_apply, {}, w.meson, &laplace, MILCGPU_LAPLACE_M, 3, 1, &from,
             &to);
        walk("milcgpu_laplace_solve", milcgpu_laplace_solve, {5}, w.meson, &laplace_solve, 1, &from, &to, &report);
        size_t bytes_of_plan = 0;
        walk("milcgpu_laplace_plan", milcgpu_laplace_plan, {3, 5}, w.meson, &laplace_solve, 1, text, sizeof text,
             &bytes_of_plan);
        walk("milcgpu_wilson_create", milcgpu_wilson_create, {}, c, &wilson);
        walk("milcgpu_wilson_destroy", milcgpu_wilson_destroy, {}, nullptr);
        walk("milcgpu_wilson_load", milcgpu_wilson_load, {}, w.wilson, &w.plain);
        walk("milcgpu_wilson_load_gauge", milcgpu_wilson_load_gauge, {}, w.wilson, 0, w.gauge);
        walk("milcgpu_wilson_dslash", milcgpu_wilson_dslash, {}, w.wilson, &in_double, 1, MILCGPU_EVEN, &w.psi,
             &dirac_x);
        walk("milcgpu_wilson_matrix", milcgpu_wilson_matrix, {}, w.wilson, &wilson_spec, &in_double, 1, MILCGPU_EVEN,
             &w.psi, &dirac_x);
        walk("milcgpu_wilson_solve", milcgpu_wilson_solve, {5}, w.wilson, &wilson_spec, &wilson_how, &w.psi, &dirac_x,
             &report);
        walk("milcgpu_wilson_solve_sources", milcgpu_wilson_solve_sources, {7}, w.wilson, &wilson_spec, &wilson_how,
             MILCGPU_BLOCK, 1, &w.psi, &dirac_x, &report);
        walk("milcgpu_wilson_residual", milcgpu_wilson_residual, {}, w.wilson, &wilson_spec, MILCGPU_EVEN, &w.psi,
             &dirac_x, &value);
        walk("milcgpu_wilson_multi_mass", milcgpu_wilson_multi_mass, {5}, w.wilson, &wilson_spec, &masses, &w.psi,
             &dirac_x, &of_masses);
        milcgpu_links_destroy(made_links);
        CHECK(walk.walked == declared());
        CHECK(walk.refusals > 1700);
    }
}

TEST_CASE("no shifts: nothing to do; a mass, a source or a solution that is no number; plans in half; counts, pitches",
          "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        milcgpu_context *const c = w.session.context;
        milcgpu_links *const k = w.session.links;
        const auto says = [](const char *part) {
            return std::string(milcgpu_last_error()).find(part) != std::string::npos;
        };
        std::vector<double> out = w.colour;
        const milcgpu_field x = w.session.field(out);

        auto none = sized<milcgpu_multi_mass_spec>();
        none.parity = MILCGPU_EVEN, none.max_iterations = 10, none.max_restarts = 1;
        none.shared.precision = MILCGPU_DOUBLE;
        auto of_none = sized<milcgpu_multi_mass_report>();
        of_none.status = -1;
        CHECK(milcgpu_staggered_multi_mass(k, &none, &w.b, nullptr, &of_none) == MILCGPU_OK);
        CHECK(of_none.status == MILCGPU_OK);
        CHECK(of_none.links_version == milcgpu_links_version(k));
        CHECK(milcgpu_staggered_multi_mass_vectors(k, &none, &w.b, w.vectors, 0, nullptr) == MILCGPU_OK);
        size_t bytes = 0;
        CHECK(milcgpu_multi_mass_plan(c, MILCGPU_DOUBLE, &none, nullptr, 0, &bytes) == MILCGPU_OK);

        // Scalars.
        double residual = -1;
        auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        for (const double mass : {not_a_number, double(INFINITY), 1e200}) {
            CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, mass, &w.b, &x, &residual) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("must be finite, with a finite 4 m^2 (zero is legal)"));
            how.mass = mass;
            CHECK(milcgpu_staggered_solve(k, &how, &w.b, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("must be finite, with a finite 4 m^2 (zero is legal)"));
        }
        how.mass = 0.2;
        CHECK(milcgpu_vectors_sum(w.vectors, 0, 1, &not_a_number, MILCGPU_EVEN, &x) == MILCGPU_NAN_OR_INF);
        CHECK(says("weights[0] is nan"));
        milcgpu_fatlink_spec hisq;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        hisq.eps_naik = not_a_number;
        milcgpu_links *made = nullptr;
        const milcgpu_fatlink_set set{0.1, nullptr, nullptr, &made};
        CHECK(milcgpu_links_make(c, &hisq, &w.links, &set, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(made == nullptr);
        const double residue = 1;
        auto force = sized<milcgpu_force_spec>();
        force.links = &hisq, force.eps = 0.01, force.n_terms = 1, force.residues = &residue;
        CHECK(milcgpu_momenta_add_fermion_force(w.gauge, &force, &w.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("spec.links.eps_naik is nan"));

        // NaN in fields: what is named, and nothing is written.
        std::vector<double> bad = w.colour;
        const size_t first_odd = 3 * size_t(w.lattice.volume());
        bad[0] = bad[first_odd] = not_a_number;
        const milcgpu_field nan = w.session.field(bad);
        CHECK(milcgpu_staggered_residual(k, MILCGPU_EVEN, 0.1, &w.b, &nan, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(says("solution: site 0 of the even sites"));
        CHECK(milcgpu_staggered_residual(k, MILCGPU_ODD, 0.1, &nan, &x, &residual) == MILCGPU_NAN_OR_INF);
        CHECK(says("source: site 0 of the odd sites"));
        CHECK(residual == -1);
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            const milcgpu_storage what{precision, 18};
            CHECK(milcgpu_staggered_dslash(k, &what, MILCGPU_EVEN, &nan, &x) == MILCGPU_NAN_OR_INF);
            CHECK(says("source: site 0 of the odd sites"));
        }
        REQUIRE(milcgpu_vectors_load(w.vectors, 3, MILCGPU_ODD, &nan) == MILCGPU_OK); // values are not tested
        CHECK(milcgpu_vectors_dslash(w.vectors, 3, k, MILCGPU_EVEN) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_save(w.vectors, 3, MILCGPU_EVEN, &x) == MILCGPU_BAD_ARGUMENT); // empty
        const milcgpu_vector right{w.vectors, 0}, wrong{w.vectors, 3}, to{w.vectors, 2};
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_EVEN, 1, 1, right, wrong, to) == MILCGPU_NAN_OR_INF);
        CHECK(milcgpu_vectors_minus_dslash(k, MILCGPU_ODD, 1, 1, wrong, right, to) == MILCGPU_NAN_OR_INF);
        CHECK(out == w.colour);

        // Plans of fields that no host has.
        CHECK(milcgpu_memory_plan(c, MILCGPU_HALF, &how, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("host_precision is half"));
        CHECK(milcgpu_sources_plan(c, MILCGPU_HALF, &how, MILCGPU_BLOCK, 2, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_multi_mass_plan(c, MILCGPU_HALF, &none, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);

        // Counts that no array has, and pitches whose product with the sites is no address.
        constexpr int many = 1 << 30;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);
        force.n_terms = many;
        CHECK(milcgpu_momenta_add_fermion_force(w.gauge, &force, &w.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("spec.n_terms is 1073741824: must be 0 to"));
        CHECK(milcgpu_momenta_add_force_of_vectors(w.gauge, &force, w.vectors, nullptr) == MILCGPU_BAD_ARGUMENT);
        force.n_terms = 1, force.n_sets = many;
        CHECK(milcgpu_momenta_add_fermion_force(w.gauge, &force, &w.b, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_make(c, &hisq, &w.links, &set, many, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_BLOCK, many, &w.b, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_sources_plan(c, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, many, nullptr, 0, &bytes) ==
              MILCGPU_BAD_ARGUMENT);
        const milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 0, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        CHECK(milcgpu_wilson_solve_sources(w.wilson, &wilson, &wilson_how, MILCGPU_BLOCK, many, &w.psi, &w.psi,
                                           nullptr) == MILCGPU_BAD_ARGUMENT);
        const milcgpu_momentum still{{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
        const milcgpu_quarks quarks{&w.b, nullptr, 0};
        double sums[2 * 16 * 4];
        for (int which = 0; which < 3; ++which) {
            auto mesons = sized<milcgpu_meson_spec>();
            auto dirac = sized<milcgpu_dirac_meson_spec>();
            mesons.momenta = dirac.momenta = &still;
            mesons.n_momenta = dirac.n_momenta = which == 0 ? many : 1;
            mesons.n_terms = dirac.n_terms = which == 1 ? many : 0;
            mesons.n_correlators = dirac.n_correlators = which == 2 ? many : 1;
            CHECK(milcgpu_quarks_contract(w.meson, &mesons, nullptr, nullptr, 1, &quarks, &quarks, sums) ==
                  MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_dirac_mesons(c, &dirac, 1, &w.psi, &w.psi, sums) == MILCGPU_BAD_ARGUMENT);
        }
        auto slices = sized<milcgpu_dirac_spec>();
        slices.n_momenta = many, slices.momenta = &still;
        CHECK(milcgpu_dirac_slices(c, &slices, &w.psi, &w.psi, sums) == MILCGPU_BAD_ARGUMENT);
        for (const size_t pitch : {size_t(1) << 63, size_t(1) << 60, size_t(1) << 40}) {
            milcgpu_field far = w.b;
            far.pitch_bytes = pitch;
            CHECK(milcgpu_staggered_solve(k, &how, &far, &x, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("source: pitch of"));
        }
        CHECK(out == w.colour);
        CHECK(milcgpu_staggered_solve(k, &how, &w.b, &x, nullptr) == MILCGPU_OK);
    }
}

TEST_CASE("outputs that share memory with another output or a source are refused", "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        milcgpu_links *const k = w.session.links;
        milcgpu_context *const c = w.session.context;
        const std::vector<double> colour = w.colour, dirac = w.dirac;
        std::vector<double> room(4 * w.u.size(), 0.5);
        const std::vector<double> before = room;
        const size_t sites = size_t(w.lattice.volume());
        const auto at = [&](size_t real, size_t pitch = 0) { // in `room`
            return milcgpu_field{room.data() + real, MILCGPU_DOUBLE, 8 * pitch};
        };
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        const milcgpu_wilson_spec wilson{sizeof wilson, 0.1, 0, 0, MILCGPU_WILSON_CG};
        const auto wilson_how = solve_spec(0, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        milcgpu_laplace_solve_spec poisson;
        milcgpu_laplace_solve_defaults(&poisson, sizeof poisson);
        poisson.kappa = 0.1, poisson.tolerance = 1e-6;
        const milcgpu_laplace_spec laplace{sizeof laplace, 3, 0.1, {MILCGPU_DOUBLE, 0}};
        const milcgpu_pole poles[] = {{1, 1e-6, 0}, {2, 1e-6, 0}};
        auto masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN, masses.max_iterations = 500, masses.max_restarts = 1;
        masses.shared.precision = MILCGPU_DOUBLE, masses.n_shifts = 2, masses.shifts = poles;
        milcgpu_fatlink_spec hisq;
        milcgpu_hisq_defaults(&hisq, sizeof hisq);

        // A call with two outputs; refused if these overlap: one more real at a time.
        const auto apart = [&](const char *name, const char *other, size_t reals,
                               const std::function<milcgpu_status(const milcgpu_field *)> &call) {
            CAPTURE(name);
            const size_t size = reals * sites, far = 2 * size;
            const auto refused = [&](const milcgpu_field &a, const milcgpu_field &b, const char *first,
                                     const char *second) {
                const milcgpu_field two[] = {a, b};
                CHECK(call(two) == MILCGPU_BAD_ARGUMENT);
                CHECK(has(milcgpu_last_error(), std::string(first) + " overlaps " + second + ": give it memory of"));
                CHECK(room == before);
            };
            for (const size_t shift : {size_t(0), size_t(2), reals, size / 2 - reals})
                refused(at(far), at(far + shift), name, other), refused(at(far + shift), at(far), name, other);
            refused(at(0, 2 * reals), at(reals - 2, 2 * reals), name, other);
            refused(at(0, 3 * reals), at(3 * reals + 2, reals), name, other);      // inside
            const milcgpu_field good[] = {at(0, 2 * reals), at(reals, 2 * reals)}; // members of a site
            CHECK(call(good) == MILCGPU_OK);
            room = before;
        };
        const milcgpu_field of_both[] = {w.b, w.b}, of_psi[] = {w.psi, w.psi};
        const milcgpu_quarks sources{of_both, nullptr, 0};
        for (const int together : {MILCGPU_TOGETHER_AUTO, MILCGPU_BLOCK, MILCGPU_ONE_BY_ONE, MILCGPU_LOCK_STEP})
            apart("solutions[1]", "solutions[0]", 6, [&](const milcgpu_field *x) {
                return milcgpu_staggered_solve_sources(k, &how, together, 2, of_both, x, nullptr);
            });
        apart("solutions[1]", "solutions[0]", 24, [&](const milcgpu_field *x) {
            return milcgpu_wilson_solve_sources(w.wilson, &wilson, &wilson_how, MILCGPU_BLOCK, 2, of_psi, x, nullptr);
        });
        apart("solutions[1]", "solutions[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_laplace_solve(w.meson, &poisson, 2, &sources, &to, nullptr);
        });
        apart("solutions[1]", "solutions[0]", 6,
              [&](const milcgpu_field *x) { return milcgpu_staggered_multi_mass(k, &masses, &w.b, x, nullptr); });
        apart("solutions[1]", "solutions[0]", 24, [&](const milcgpu_field *x) {
            return milcgpu_wilson_multi_mass(w.wilson, &wilson, &masses, &w.psi, x, nullptr);
        });
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_laplace_apply(w.meson, &laplace, MILCGPU_LAPLACE_M, 3, 2, &sources, &to);
        });
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_quarks_shift(w.meson, 0, MILCGPU_FORWARD, nullptr, 2, &sources, &to);
        });
        const int origin[4] = {};
        apart("to[1]", "to[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks to{x, nullptr, 0};
            return milcgpu_quarks_spin_taste(w.meson, nullptr, milcgpu_spin_taste_index("pion5"), origin, 2, &sources,
                                             &to);
        });
        apart("quarks[1]", "quarks[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks both{x, nullptr, 0};
            return milcgpu_quarks_gauss_smear(w.meson, 2, 1, 1, -1, 2, &both);
        });
        apart("quarks[1]", "quarks[0]", 6, [&](const milcgpu_field *x) {
            const milcgpu_quarks both{x, nullptr, 0};
            return milcgpu_quarks_laplacian(w.meson, 2, -1, 2, &both);
        });
        apart("sets[0].lng", "sets[0].fat", 72, [&](const milcgpu_field *x) {
            const milcgpu_fatlink_set set{0, x, x + 1, nullptr};
            return milcgpu_links_make(c, &hisq, &w.links, &set, 1, nullptr, nullptr);
        });
        apart("hisq.w", "hisq.v", 72, [&](const milcgpu_field *x) {
            const milcgpu_hisq_links made{x, nullptr, x + 1};
            return milcgpu_links_make(c, &hisq, &w.links, nullptr, 0, &made, nullptr);
        });
        apart("hisq.y", "sets[0].fat", 72, [&](const milcgpu_field *x) {
            const milcgpu_fatlink_set set{0, x, nullptr, nullptr};
            const milcgpu_hisq_links made{nullptr, x + 1, nullptr};
            return milcgpu_gauge_make_links(w.gauge, &hisq, &set, 1, &made, nullptr);
        });

        // Sources: one of them is read while another solution is written.
        const milcgpu_field in[] = {at(0), at(6 * sites)}, out[] = {at(6 * sites + 6), at(24 * sites)};
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_ONE_BY_ONE, 2, in, out, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "solutions[0] overlaps sources[1]: give it memory of its own"));
        CHECK(room == before);
        // The even halves of fields, one behind the other: odd sites are not touched.
        const milcgpu_field halves[] = {at(0), at(3 * sites)};
        CHECK(milcgpu_staggered_solve_sources(k, &how, MILCGPU_ONE_BY_ONE, 2, of_both, halves, nullptr) == MILCGPU_OK);
        CHECK(std::equal(room.begin() + 3 * sites, room.begin() + 6 * sites, room.begin()));
        CHECK((w.colour == colour && w.dirac == dirac));
        milcgpu_eigen_spec lowest;
        milcgpu_eigen_defaults(&lowest, sizeof lowest);
        lowest.count = 2, lowest.precision = MILCGPU_SINGLE;
        milcgpu_eigenvectors *made = nullptr;
        REQUIRE(milcgpu_eigenvectors_compute(k, &lowest, &made, nullptr) == MILCGPU_OK);
        double values[3] = {-1, -1, -1};
        CHECK(milcgpu_eigenvectors_values(made, values, values + 1) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "residuals overlaps values"));
        CHECK((values[0] == -1 && values[1] == -1 && values[2] == -1));
        milcgpu_eigenvectors_destroy(made);
    }
}

TEST_CASE("fields overlap exactly where they share a byte", "[errors]") {
    std::mt19937 random(3);
    const auto below = [&](unsigned n) { return random() % n; };
    int together = 0;
    for (int trial = 0; trial < 4000; ++trial) {
        std::vector<milcgpu::Occupied> two;
        std::set<size_t> bytes[2];
        for (std::set<size_t> &of : bytes) {
            const size_t first = below(40), size = 1 + below(4), pitch = size + below(5), records = below(6);
            two.push_back({&of == bytes ? "a" : "b", true, first, size, pitch, records});
            for (size_t k = 0; k < records; ++k)
                for (size_t j = 0; j < size; ++j)
                    of.insert(first + k * pitch + j);
        }
        const bool share =
            std::any_of(bytes[0].begin(), bytes[0].end(), [&](size_t byte) { return bytes[1].count(byte) > 0; });
        together += share;
        CAPTURE(trial);
        const std::string said = thrown_by([&] { milcgpu::require_apart(two); });
        CHECK(said == (share ? "b overlaps a: give it memory of its own" : ""));
        two[1].written = false;
        CHECK(thrown_by([&] { milcgpu::require_apart(two); }) ==
              (share ? "a overlaps b: give it memory of its own" : ""));
        two[0].written = false;
        CHECK(thrown_by([&] { milcgpu::require_apart(two); }).empty());
    }
    CHECK((together > 1000 && together < 3000));
}

TEST_CASE("addresses between numbers; beta and verbosity out of range", "[errors][null]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        milcgpu_links *const k = w.session.links;
        const auto says = [](const char *part) { return has(milcgpu_last_error(), part); };
        const std::vector<double> colour = w.colour;
        std::vector<double> out = colour;
        const milcgpu_field x = w.session.field(out);
        const auto how = solve_spec(0.2, 1e-6, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        milcgpu_field between = x;
        between.data = static_cast<char *>(x.data) + 4;
        CHECK(milcgpu_staggered_solve(k, &how, &w.b, &between, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("the address must be a multiple of 8"));
        for (const double beta : {0., -1., 1e-300})
            CHECK(milcgpu_gauge_heat_bath(w.copy, beta, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(says("beta is 1e-300"));
        CHECK(out == colour);
        CHECK(w.colour == colour);
        for (const int verbosity : {-2, 3, 1000}) {
            auto options = sized<milcgpu_options>();
            options.verbosity = verbosity;
            const milcgpu_layout layout = layout_of(w.lattice);
            milcgpu_context *made = nullptr;
            CHECK(milcgpu_context_create(&layout, &options, &made) == MILCGPU_BAD_ARGUMENT);
            CHECK(says("options.verbosity is "));
            CHECK(made == nullptr);
        }
    }
}
