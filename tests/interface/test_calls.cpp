// Walkers over the table of all calls of the C interface (calls_support.h): pointers that are NULL, numbers out of
// range, links of the wrong signs, ranks that differ in one argument or member, bits that flip, lattices that are cut.
#include "milc_glue/api/context.h"
#include "tests/calls_whole.h"
#include "tests/cut_support.h"
#include "tests/reference_page.h"
#include "tests/source_text.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

using namespace tests;
using milcgpu::Backend;
using milcgpu::Member;
using milcgpu::Table;

namespace {

std::string headers() {
    std::string all;
    for (const auto &file : std::filesystem::directory_iterator("milc_glue/api")) {
        const std::string name = file.path().filename();
        if (name.rfind("milcgpu", 0) == 0 && file.path().extension() == ".h" && name != "milcgpu_mpi.h" &&
            name != "milcgpu_milc.h") // both are compiled by the caller
            all += text_of(file.path());
    }
    return all;
}

// The names of a function's parameters, from its declaration in the headers.
std::vector<std::string> parameters_of(const std::string &function) {
    static const std::string all = headers();
    size_t at = all.find(function + "(");
    while (at != std::string::npos && !(all[at - 1] == ' ' || all[at - 1] == '*'))
        at = all.find(function + "(", at + 1);
    REQUIRE(at != std::string::npos);
    std::vector<std::string> names(1);
    int depth = 0;
    for (at += function.size();; ++at) {
        const char c = all[at];
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

// Visits each number of a struct, of those in it and of its entries, and each pointer that ranks must have alike:
// visit(member, its address, its name). at: the caller's struct; entries are where it points to.
using milcgpu::Name;
using Visit = std::function<void(const Member &, unsigned char *at, const Name &name)>;
std::string last_of(const Name &name) { return name.parts[name.last]; }
void visit_members(const Table &table, void *at, const Visit &visit, const Name &of,
                   std::map<std::string, const Table *> *visited = nullptr) {
    if (visited != nullptr)
        visited->insert({table.name, &table});
    for (const Member &m : table) {
        unsigned char *const here = static_cast<unsigned char *>(at) + m.offset;
        Name name = of;
        if (m.name != nullptr)
            name.parts[++name.last] = m.name;
        const auto indexed = [&](int k) {
            Name entry = name;
            entry.index[entry.last] = k;
            return entry;
        };
        if (m.kind == Member::inside)
            visit_members(*m.table, here, visit, name, visited);
        if (m.kind == Member::entries || m.kind == Member::some) {
            auto *const entries = *reinterpret_cast<unsigned char **>(here);
            const int n = *reinterpret_cast<int *>(static_cast<unsigned char *>(at) + m.how_many);
            for (int k = 0; entries != nullptr && k < n; ++k)
                visit_members(*m.table, entries + k * m.table->bytes, visit, indexed(k), visited);
        }
        if (m.kind == Member::numbers)
            for (int k = 0; k < m.count; ++k)
                visit(m, here + k * m.bytes, m.count > 1 ? indexed(k) : name);
        name.pointer = true;
        if (m.kind == Member::alike || m.kind == Member::some)
            visit(m, here, name);
    }
}

// The structs of an argument; an argument n_NAME says how many.
void visit_structs(const BoundCall &call, size_t k, const std::vector<std::string> &names, const Visit &visit,
                   std::map<std::string, const Table *> *visited = nullptr) {
    const Argument &a = call.arguments[k];
    if (a.table == nullptr)
        return;
    auto *const first = static_cast<unsigned char *>(a.kind == Argument::structure ? a.at : a.pointer_value());
    const auto count = std::find(names.begin(), names.end(), "n_" + names[k]);
    const int n = count == names.end() ? 1 : *static_cast<int *>(call.arguments[count - names.begin()].at);
    for (int i = 0; first != nullptr && i < n; ++i) {
        Name name(names[k].c_str());
        name.index[0] = count == names.end() ? -1 : i;
        visit_members(*a.table, first + i * a.table->bytes, visit, name, visited);
    }
}

std::vector<std::string> names_of(const Call &call, const BoundCall &with) {
    return with.arguments.empty() ? std::vector<std::string>() : parameters_of(call.function);
}

} // namespace

TEST_CASE("the table of calls has every function of the C headers", "[errors][calls]") {
    std::set<std::string> in_table;
    for (const Call &call : calls())
        in_table.insert(call.function);
    CHECK(in_table == names_in(headers(), a_function));
}

namespace {

// What a call says of an argument that is wrong: its own name in front and nowhere else, and the name of the argument.
void check_refusal(const Call &call, const std::string &name, const std::string &other = "") {
    const std::string words = milcgpu_last_error(), front = call.function + std::string(": ");
    if (words.rfind(front, 0) != 0 ||
        !names_in(words.substr(front.size()), "\\b(" + std::string(call.function) + ")\\b").empty() ||
        !(says_word(words, name) || (!other.empty() && says_word(words.substr(front.size()), other))))
        FAIL_CHECK(call.name() << ", " << name << ": " << words);
}

} // namespace

TEST_CASE("calls: NULL for each pointer is refused by the pointer's name, or is legal as the header says",
          "[errors][null][calls]") {
    for (const Backend backend : backends()) {
        Whole whole(backend);
        for (const Call &call : calls()) {
            if (*call.variant != '\0')
                continue;
            whole.world.refill();
            const BoundCall with = call.with(whole.world);
            const auto names = names_of(call, with);
            for (size_t k = 0; k < with.arguments.size(); ++k) {
                const Argument &a = with.arguments[k];
                if (a.kind != Argument::pointer)
                    continue;
                void *const right = std::exchange(a.pointer_value(), nullptr);
                const milcgpu_status status = with.run();
                a.pointer_value() = right;
                CAPTURE(call.function, names.at(k), milcgpu_last_error());
                CHECK(status == (a.optional || !with.has_status ? MILCGPU_OK : MILCGPU_BAD_ARGUMENT));
                if (status == MILCGPU_OK)
                    continue;
                check_refusal(call, names[k]);
                const std::string words = milcgpu_last_error();
                CHECK(has(words, "NULL"));
                CHECK(words.find("milcgpu_", std::strlen(call.function)) == std::string::npos); // no other function
            }
        }
    }
}

TEST_CASE("calls: a number that no call takes is refused by the name of the argument or member",
          "[errors][null][calls]") {
    const auto wrong_for = [](bool whole) {
        return whole ? std::vector<double>{-5, double(std::numeric_limits<int>::max()),
                                           double(std::numeric_limits<int>::min())}
                     : std::vector<double>{NAN, HUGE_VAL, -HUGE_VAL};
    };
    for (const Backend backend : backends()) {
        Whole whole(backend);
        int refusals = 0;
        for (const Call &call : calls()) {
            if (*call.variant != '\0')
                continue;
            whole.world.refill();
            const BoundCall with = call.with(whole.world);
            if (!with.has_status)
                continue;
            const auto names = names_of(call, with);
            const auto judge = [&](const std::string &name, const std::string &other, bool must = false) {
                const milcgpu_status status = with.run();
                if (status != MILCGPU_BAD_ARGUMENT && status != MILCGPU_NOT_BUILT) { // as the call says
                    if (must)
                        FAIL_CHECK(call.name() << ", " << name << " is not finite: status " << status);
                    return;
                }
                ++refusals;
                check_refusal(call, name, other);
            };
            for (size_t k = 0; k < with.arguments.size(); ++k) {
                const Argument &a = with.arguments[k];
                if (a.kind == Argument::integer || a.kind == Argument::real) {
                    const bool integer = a.kind == Argument::integer;
                    const int right_int = integer ? *static_cast<int *>(a.at) : 0;
                    const double right = integer ? 0 : *static_cast<double *>(a.at);
                    for (const double value : wrong_for(integer))
                        if ((names[k] != "steps" && names[k] != "sweeps") || value < 0) { // as many as are asked for
                            integer ? void(*static_cast<int *>(a.at) = int(value))
                                    : void(*static_cast<double *>(a.at) = value);
                            judge(names[k], "");
                        }
                    integer ? void(*static_cast<int *>(a.at) = right_int) : void(*static_cast<double *>(a.at) = right);
                } else if (a.to_field) {
                    void *const place = a.pointer_value();
                    const milcgpu_field right = *static_cast<milcgpu_field *>(place);
                    milcgpu_field field;
                    a.pointer_value() = &field;
                    const auto try_field = [&](void *data, int precision, size_t pitch) {
                        field = {data, precision, pitch};
                        judge(names[k], "");
                    };
                    for (const int precision : {-5, 0, 3, 99})
                        try_field(right.data, precision, right.pitch_bytes);
                    for (const size_t pitch : {size_t(7), size_t(8), ~size_t(0)})
                        try_field(right.data, right.precision, pitch);
                    try_field(static_cast<char *>(right.data) + 1, right.precision, right.pitch_bytes);
                    try_field(nullptr, right.precision, right.pitch_bytes);
                    a.pointer_value() = place;
                } else {
                    visit_structs(with, k, names, [&](const Member &m, unsigned char *at, const Name &name) {
                        if (m.kind != Member::numbers)
                            return;
                        const double right = m.get(at);
                        const bool integer = m.bytes == sizeof(int);
                        if (m.set(at, 0.5); !integer && m.get(at) != 0.5)
                            return m.set(at, right); // size_t
                        for (const double value : wrong_for(integer))
                            if (!m.may.checked || !m.may.holds(value)) {
                                m.set(at, value);
                                judge(last_of(name), names[k], m.real);
                            }
                        m.set(at, right);
                    });
                }
            }
        }
        CHECK(refusals > 1700);
    }
}

namespace {

// Sets the argument `signs`, or the member of that name of a struct, and returns whether the call has it.
bool set_signs(const BoundCall &call, const std::vector<std::string> &names, int signs) {
    bool found = false;
    for (size_t k = 0; k < call.arguments.size(); ++k) {
        if (names[k] == "signs")
            *static_cast<int *>(call.arguments[k].at) = signs, found = true;
        visit_structs(call, k, names, [&](const Member &m, unsigned char *at, const Name &name) {
            if (last_of(name) == "signs")
                m.set(at, signs), found = true;
        });
    }
    return found;
}

} // namespace

TEST_CASE("calls: links with phases and without, and links of the other kind, which are refused",
          "[md][signs][calls]") {
    struct Kind {
        double roughness;
        bool single;
    };
    for (const Backend backend : backends())
        for (const Kind &kind : {Kind{0, false}, Kind{2, false}, Kind{2, true}}) // unit links, random ones
            for (const bool phased : {true, false}) {
                Whole whole(backend, {2, 4, 4, 6}, kind.roughness, phased, kind.single);
                World &w = whole.world;
                int refusals = 0;
                for (const Call &call : calls()) {
                    if (call.traits & Call::alone)
                        continue;
                    w.start_again();
                    const BoundCall with = call.with(w);
                    const auto names = names_of(call, with);
                    const bool told = set_signs(with, names, w.signs), takes_phases = call.traits & Call::takes_phases;
                    if (!told && !takes_phases)
                        continue;
                    CAPTURE(name(backend), call.name(), phased, kind.roughness, kind.single);
                    const auto refused = [&] {
                        const bool loads = has(call.function, "_load"); // the handle is empty afterwards
                        const auto versions = [&] {
                            return std::pair(milcgpu_gauge_version(w.gauge()), milcgpu_momenta_version(w.gauge()));
                        };
                        w.drop_made();
                        const auto version = versions();
                        const State before = w.state();
                        CHECK(with.run() == MILCGPU_BAD_ARGUMENT);
                        const std::string words = milcgpu_last_error();
                        CAPTURE(words);
                        CHECK(says_word(words, "signs"));
                        // Of the links along x, y and z, the phases turn half; the first of these.
                        CHECK(has(words, " 576 "));
                        CHECK(has(words, " 288 "));
                        CHECK(has(words, " 1 1 0 0, direction Y"));
                        CHECK((loads || same_state(w.state(), before)));
                        CHECK((loads || versions() == version));
                    };
                    if (takes_phases && !phased) {
                        w.hisq.signs = w.asqtad.signs = 0;
                        refused();
                        w.hisq.signs = w.asqtad.signs = w.signs;
                        CHECK(with.run() == MILCGPU_BAD_ARGUMENT);
                        continue;
                    }
                    if (!takes_phases) {
                        set_signs(with, names, 1 - w.signs);
                        refused();
                        set_signs(with, names, w.signs);
                        ++refusals;
                    }
                    const milcgpu_status status = with.run();
                    CAPTURE(milcgpu_last_error());
                    CHECK(status == MILCGPU_OK);
                }
                CHECK(refusals > 12);
            }
}

namespace {

// On rank 1 of two, each argument and each member in turn becomes another one.
class OneByOne {
  public:
    std::string &wrong; // is there also if a call breaks the message passing, and the next one throws
    std::map<std::string, const Table *> tables; // that were walked
    int compared = 0;
    OneByOne(bool changes, std::string &wrong_calls) : wrong(wrong_calls), changes_(changes) {}

    void walk(const World &w, const Call &call, const BoundCall &with) {
        const auto names = names_of(call, with);
        name_ = call.name(), run_ = with.run;
        if (const milcgpu_status status = run_(); status != MILCGPU_OK) {
            wrong += name_ + " as it is: " + milcgpu_last_error() + "\n";
            return;
        }
        for (size_t k = 0; k < with.arguments.size(); ++k) {
            const Argument &a = with.arguments[k];
            if (a.kind == Argument::integer || a.to_integers)
                numbers(names[k],
                        a.kind == Argument::pointer ? static_cast<int *>(a.pointer_value()) : static_cast<int *>(a.at));
            if (a.kind == Argument::real || a.to_reals)
                numbers(names[k], a.kind == Argument::pointer ? static_cast<double *>(a.pointer_value())
                                                              : static_cast<double *>(a.at));
            if (a.kind == Argument::pointer && k > 0) // without the first argument a call has no ranks
                left_out(names[k], a.pointer_value(), a.optional);
            visit_structs(
                with, k, names,
                [&](const Member &m, unsigned char *at, const Name &name) {
                    if (not_read(call, m, at, last_of(name)))
                        return;
                    if (m.kind == Member::numbers)
                        member(m, at, name);
                    else
                        pointer(name, *reinterpret_cast<void **>(at));
                },
                &tables);
        }
        for (size_t k = 0; k < with.arguments.size(); ++k) // last, because a handle may then hold these numbers
            if (with.arguments[k].to_field)
                in_single(w, names[k], *static_cast<milcgpu_field *>(with.arguments[k].pointer_value()));
    }

    std::set<std::string> no_other;   // of which rank 1 has no other value that it does not refuse by itself
    std::vector<std::string> answers; // to fields in single precision

  private:
    // Members that a call does not read: `first` of quark fields of the host; the signs of links that must have phases.
    static bool not_read(const Call &call, const Member &m, const unsigned char *at, const std::string &name) {
        if (name == "first")
            return reinterpret_cast<const milcgpu_quarks *>(at - m.offset)->device == nullptr;
        return name == "signs" && call.traits & Call::takes_phases;
    }
    // One call with rank 1's change: whether all ranks refuse it, because ranks differ.
    enum Answer { agreed, refused, taken };
    Answer answer(const Name &name, double value) {
        const milcgpu_status status = run_();
        const std::string words = status == MILCGPU_OK ? "OK" : milcgpu_last_error();
        tried_ += milcgpu::format("\n    %.10g: ", value) + words;
        Name first = name; // of an array
        first.index[0] = 0;
        if (has(words, "all ranks must pass the same") &&
            (has(words, name.text() + " is ") || has(words, first.text() + " is ")))
            return status == MILCGPU_BAD_ARGUMENT ? agreed : taken;
        return has(words, "rank 1 of 2: ") ? refused : taken;
    }
    // set(value) for one value after the other until the ranks are compared; the value before comes back.
    template <class Get, class Set> void change(const Name &name, double zero_is, const Get &get, const Set &set) {
        const double before = get(), meant = before == 0 ? zero_is : before;
        Answer last = refused;
        tried_.clear();
        for (const double value : {meant + 1, meant - 1, meant / 2, meant * 1.5, -meant, 0., 1., 2., 12., 13., 1e-3}) {
            set(value);
            const double other = get();
            if (!changes_)
                set(before);
            if (other == before || other == meant || (other == 0 && zero_is == meant)) {
                set(before);
                continue;
            }
            last = answer(name, value);
            set(before);
            if (last != refused)
                break;
        }
        finish(name, last);
    }
    void finish(const Name &name, Answer last) {
        ++compared;
        if (last == taken)
            wrong += name_ + ", " + name.text() + ":" + tried_ + "\n";
        if (last == refused && last_of(name) != "host" && last_of(name) != "device") // one of them is given
            no_other.insert(name_ + ", " + name.text());
    }
    template <class Number> void numbers(const std::string &name, Number *at) {
        if (at != nullptr)
            change(
                name.c_str(), 0, [at] { return double(*at); }, [at](double value) { *at = Number(value); });
    }
    void member(const Member &m, unsigned char *at, const Name &name) {
        change(
            name, m.may.zero_is, [&] { return m.get(at); }, [&](double value) { m.set(at, value); });
    }
    void pointer(const Name &name, void *&at) {
        void *const before = at;
        if (changes_)
            at = before == nullptr ? somewhere_ : nullptr;
        tried_.clear();
        finish(name, answer(name, 0));
        at = before;
    }
    // NULL is refused on all ranks by the pointer's name; if it may be NULL on all ranks, it may be legal on one.
    void left_out(const std::string &name, void *&at, bool optional) {
        void *const before = at;
        if (changes_)
            at = nullptr;
        const milcgpu_status status = run_();
        at = before;
        if (!(status == MILCGPU_OK && optional) &&
            !(status == MILCGPU_BAD_ARGUMENT && says_word(milcgpu_last_error(), name)))
            wrong += name_ + ", " + name + " left out: " + (status == MILCGPU_OK ? "OK" : milcgpu_last_error()) + "\n";
    }
    // A precision that differs is refused on all ranks or on none.
    void in_single(const World &w, const std::string &name, milcgpu_field &field) {
        const Reals content = w.content_of(field);
        std::vector<float> single(content.begin(), content.end());
        const milcgpu_field before = field;
        if (changes_)
            field = {single.data(), MILCGPU_SINGLE, 0};
        const milcgpu_status status = run_();
        field = before;
        answers.push_back(name_ + ", " + name + ": " + milcgpu_status_name(status));
    }
    bool changes_;
    std::string name_, tried_;
    std::function<milcgpu_status()> run_;
    void *somewhere_[16] = {};
};

} // namespace

TEST_CASE("calls over ranks: an argument or member that differs on one of them is refused on all by its name",
          "[ranks][cut][errors][calls]") {
    const Cut two{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Fields fields = fields_on(two.whole, false);
    const WholeFields &whole = fields_of(two.whole);
    std::vector<std::string> wrong(2);
    std::map<std::string, const Table *> tables[2];
    std::set<std::string> no_other[2];
    std::vector<std::string> answers[2];
    int compared[2];
    const auto endings = on_cut(fields, two, Backend::host, [&](Here &here, Ending &) {
        World w(here.context, whole, here.places);
        OneByOne walk(here.rank() == 1, wrong[here.rank()]);
        for (const Call &call : calls())
            if (!(call.traits & Call::alone) && *call.variant == '\0') {
                w.refill();
                walk.walk(w, call, call.with(w));
            }
        no_other[here.rank()] = walk.no_other, answers[here.rank()] = walk.answers;
        tables[here.rank()] = walk.tables, compared[here.rank()] = walk.compared;
    });
    CHECK(all_well(endings));
    CHECK(wrong == std::vector<std::string>(2));
    CHECK(compared[0] > 250);
    CHECK(answers[0] == answers[1]);
    CHECK(no_other[0] ==
          std::set<std::string>{
              "milcgpu_gauge_loop_traces, lengths", "milcgpu_gauge_loop_traces, steps",
              "milcgpu_gauge_make_links, spec.reconstruct", "milcgpu_momenta_add_fermion_force, spec.n_terms",
              "milcgpu_momenta_add_fermion_force, spec.sets[0].n_terms",
              "milcgpu_momenta_add_fermion_force, spec.sets[1].n_terms",
              "milcgpu_momenta_add_force_of_vectors, spec.n_terms",
              "milcgpu_momenta_add_force_of_vectors, spec.sets[0].n_terms",
              "milcgpu_momenta_add_force_of_vectors, spec.sets[1].n_terms",
              "milcgpu_wilson_multi_mass, how.shifts[0].relative_tolerance",
              "milcgpu_wilson_multi_mass, how.shifts[1].relative_tolerance", "milcgpu_wilson_solve, how.mass",
              "milcgpu_wilson_solve_sources, how.mass", "milcgpu_wilson_solve_sources, spec.method"});
    // Every table was walked, and docs/headers.md is made from them and the headers.
    const std::string page = tests::reference_page(tables[0]);
    tables[0].erase("double");
    for (const auto &table : matches(text_of("milc_glue/api/members.h"), "\nTABLE\\(([a-z0-9_]+),")) {
        CAPTURE(table[1]);
        CHECK(tables[0].erase(table[1]) == 1);
    }
    CHECK(tables[0].empty());
    const bool on_page = text_of("docs/headers.md") == page;
    CHECK(on_page);
    if (!on_page) {
        std::ofstream("build/headers.md") << page;
        std::printf("docs/headers.md is to be build/headers.md: make reference\n");
    }
}

namespace {

// What the headers say is not checked: room within a call (staples, pieces of loops), vectors of forces, quark fields
// that are smeared in place, numbers of sites, factors of momenta, results of measurements, derivatives in the stages
// of an adaptive flow, which are momenta by their kind; a solution after its last true residual, in the last tenth of a
// call; a source, and a field that is contracted, until its checksum is taken; vectors that an operator is applied to
// once, after the comparison at the beginning; for D alone also the links. part_of_call: below 0: before the call.
bool is_checked(const std::string &owner, const Call &call, double part_of_call) {
    const auto is = [&](std::initializer_list<const char *> owners) {
        return std::find(owners.begin(), owners.end(), owner) != owners.end();
    };
    const std::string name = call.name();
    const bool within = part_of_call >= 0, solves = call.traits & Call::solves;
    if (is({"staples", "derivatives of staples", "gauge force", "vectors of the force", "results of a measurement",
            "room for smearing", "raw copy of a host spinor", "partial sums", "sum of vectors", "sums over time slices",
            "contraction", "numbers of sites", "factors of momenta"}))
        return false;
    if (has(owner, "links as handed over") &&
        (has(name, "_dslash") || has(name, "eigenvectors_load") || has(name, "eigenvectors_read")))
        return false;
    if (within && !solves &&
        (is({"vectors", "dslash vectors", "Laplace vectors", "Wilson vectors"}) ||
         (has(name, "_residual") && is({"vectors of a residual", "Wilson source", "Wilson solution"}))))
        return false;
    if (owner == "quark fields" && (has(name, "smear") || has(name, "laplacian")))
        return false;
    if (within && part_of_call < 0.55 && is({"Laplace sources", "Wilson source", "quark fields", "Dirac fields"}))
        return false;
    if (part_of_call > 0.9 && (has(owner, " vectors") || is({"vectors", "vectors of several sources"})))
        return false;
    return owner != "momenta" || !has(name, "adaptive");
}

struct FlippedRun {
    milcgpu_status status = MILCGPU_OK;
    double residual = 0; // of a solve in half precision, by the reference
    State state;
    int looks = 0;                // launches and copies
    std::string owner, at;        // where the bit was, and before what it flipped
    std::set<std::string> owners; // of arrays before the call
};

constexpr int before_call = -1, never = -2;

// |b - A x| / |b| on even sites by the reference, of x[0] and b[0].
double residual_of(const WholeFields &whole, double mass, const Reals &x) {
    const auto vector = [&](const Reals &from) { return reference::vector_from_milc<double>(whole.lattice, from); };
    const auto links = [&](const Reals &from) { return reference::links_from_milc<double>(whole.lattice, from); };
    const reference::Fermion b = vector(whole.colour[0]),
                             ax = reference::normal_operator(whole.lattice, links(whole.fat), links(whole.lng), mass, 0,
                                                             vector(x));
    return parity_difference(whole.lattice, ax, b, 0);
}

// Owners of the arrays that are on the device, each with a bit of the size of a number. least: of this many bytes.
std::map<std::string, size_t> bits_of_owners(milcgpu::Device &device, size_t least = 0) {
    constexpr size_t apart = 2048;
    const auto owner_of = [&](size_t byte) {
        device.flip_bit(8 * byte);
        return device.flip_bit(8 * byte); // as it was
    };
    std::map<std::string, std::vector<size_t>> bits;
    std::string before;
    size_t begin = 0; // of the array: numbers are counted from here
    for (size_t at = 0; at < device.used_bytes(); at += apart) {
        const std::string owner = owner_of(at);
        if (at > 0 && owner != before) {
            size_t low = at - apart, high = at;
            while (low + 1 < high) {
                const size_t middle = (low + high) / 2;
                (owner_of(middle) == owner ? high : low) = middle;
            }
            begin = high;
        }
        before = owner;
        const size_t byte = begin + (at - begin) / 8 * 8 + 6;
        if (owner_of(byte) == owner)
            bits[owner].push_back(8 * byte + 2);
    }
    std::map<std::string, size_t> one;
    for (const auto &[owner, all] : bits)
        if (all.size() * apart >= least)
            one[owner] = all[all.size() / 2];
    return one;
}

// owner: whose array has the bit; "": `bit` counts all.
FlippedRun run_with_flip(const Call &call, Backend backend, const std::array<int, 4> &n, int flip_at,
                         const std::string &owner, size_t bit) {
    Whole whole(backend, n);
    World &w = whole.world;
    const BoundCall with = call.with(w);
    FlippedRun r;
    milcgpu::Device &device = *w.context->device;
    for (const auto &one : bits_of_owners(device))
        r.owners.insert(one.first);
    const auto flip = [&](const char *what) {
        r.at = what, r.owner = device.flip_bit(owner.empty() ? bit : bits_of_owners(device)[owner]);
    };
    if (flip_at == before_call)
        flip("the call");
    device.set_observer([&](const char *what) {
        if (r.looks++ == flip_at)
            flip(what);
    });
    r.status = with.run();
    device.set_observer({});
    r.state = w.state();
    if (call.traits & Call::loose && r.status == MILCGPU_OK)
        r.residual = residual_of(fields_of(n), w.solve_half.mass, r.state[0].numbers);
    return r;
}

// Owners of the fields that are on the device at a look of the call.
std::set<std::string> owners_at(const Call &call, Backend backend, const std::array<int, 4> &n, int look) {
    Whole whole(backend, n);
    World &w = whole.world;
    const BoundCall with = call.with(w);
    milcgpu::Device &device = *w.context->device;
    std::set<std::string> owners;
    int looks = 0;
    device.set_observer([&](const char *) {
        if (looks++ == look)
            for (const auto &one : bits_of_owners(device, 16 * w.sites))
                owners.insert(one.first);
    });
    with.run();
    device.set_observer({});
    return owners;
}

} // namespace

TEST_CASE("calls: a bit that flips before a call, or at any launch or copy of it, gives no wrong result called right",
          "[faults][flips][calls]") {
    const char *asked = std::getenv("MILCGPU_FLIPS");
    std::vector<Call> all;
    for (const Call &call : calls())
        if (!(call.traits & Call::alone) && !has(call.function, "_file_") && !has(call.function, "_write"))
            all.push_back(call);
    for (const Backend backend : backends()) {
        const bool gpu = backend == Backend::cuda;
        const std::array<int, 4> n = gpu ? std::array<int, 4>{8, 8, 8, 8} : std::array<int, 4>{4, 4, 4, 4};
        const int of_each = asked != nullptr ? std::atoi(asked) / int(all.size()) + 1 : gpu ? 9 : 4;
        int noticed = 0, wrong = 0, not_checked = 0, harmless = 0;
        for (const Call &call : all) {
            const FlippedRun clean = run_with_flip(call, backend, n, never, "", 0);
            CAPTURE(name(backend), call.name(), milcgpu_last_error());
            REQUIRE(clean.status == MILCGPU_OK);
            CHECK((clean.looks > 0 || has(call.function, "_create")));
            const auto flip = [&](int at, const std::string &owner, size_t bit) {
                const FlippedRun r = run_with_flip(call, backend, n, at, owner, bit);
                if (r.status != MILCGPU_OK) {
                    ++noticed;
                    return;
                }
                std::string part;
                double off = 0;
                for (size_t k = 0; k < r.state.size() && k < clean.state.size(); ++k) {
                    const State &now = r.state;
                    // Two right solutions of a loose tolerance differ: r.residual is looked at.
                    if (now[k].numbers.empty() || now[k].numbers == clean.state[k].numbers ||
                        now[k].name == "residual" || (call.traits & Call::loose && now[k].name == "x[0]"))
                        continue;
                    const double d = largest_difference(now[k].numbers, clean.state[k].numbers);
                    const double allowed = now[k].name == "eigenvalues"  ? 0.1 // as milcgpu_eigen.h says
                                           : is_of_a_solve(call, now[k]) ? 1e-8
                                                                         : 1e-13;
                    if (!(d <= allowed))
                        part = now[k].name, off = d;
                }
                if (!(r.residual <= 1.01e-3))
                    part = "residual", off = r.residual;
                if (part.empty()) {
                    ++harmless;
                    return;
                }
                const bool checked = is_checked(r.owner, call, at < 0 ? -1 : double(at) / clean.looks);
                ++(checked ? wrong : not_checked);
                CAPTURE(r.owner, r.at, at, clean.looks, bit, part, off);
                CHECK_FALSE(checked);
            };
            for (const std::string &owner : clean.owners)
                flip(before_call, owner, 0);
            if (const int late = clean.looks * 3 / 4; !(call.traits & Call::solves)) // the caller's fields have arrived
                for (const std::string &owner : owners_at(call, backend, n, late))
                    if (clean.owners.count(owner) == 0)
                        flip(late, owner, 0);
            for (const std::string &owner :
                 sampled(std::vector<std::string>(clean.owners.begin(), clean.owners.end()), 3))
                flip(clean.looks / 2, owner, 0);
            reference::Rng rng(7 + (&call - all.data()));
            for (int k = 0; k < of_each && clean.looks > 0; ++k) {
                const size_t bit = rng() ^ rng() << 32;
                flip(int(rng() % clean.looks), "", bit);
            }
        }
        std::printf("%s: %d harmless, %d noticed, %d wrong, not checked, %d silent\n", milcgpu::name(backend), harmless,
                    noticed, not_checked, wrong);
        CHECK(noticed > 100);
    }
}

namespace {

// Solves of all kinds, which take far more messages than other calls.
bool iterates(const Call &call) {
    return has(call.function, "_solve") || has(call.function, "multi_mass") || has(call.function, "_compute");
}

// A call on a lattice that is cut: fields of the whole lattice, numbers of rank 0, and counts over all ranks.
struct CutRun {
    State state;
    std::vector<uint64_t> counts;
    std::string wrong;
};

std::vector<CutRun> run_on_cut(const std::vector<Call> &all, const Fields &fields, const WholeFields &whole,
                               const Cut &cut, Backend backend, bool iterate, bool &well) {
    std::vector<CutRun> made(all.size());
    std::vector<std::vector<State>> states(cut.ranks(), std::vector<State>(all.size()));
    std::vector<std::vector<size_t>> places(cut.ranks());
    std::vector<std::vector<std::vector<uint64_t>>> counts(cut.ranks());
    const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
        World w(here.context, whole, here.places);
        places[here.rank()] = here.places;
        for (size_t k = 0; k < all.size(); ++k) {
            if (!iterate && iterates(all[k])) {
                counts[here.rank()].emplace_back();
                continue;
            }
            w.start_again(); // so that state() reads no handle that the call does not take
            const BoundCall with = all[k].with(w);
            const milcgpu_status status = with.run();
            if (status != MILCGPU_OK)
                throw milcgpu::Error(static_cast<milcgpu::Status>(status), milcgpu_last_error());
            states[here.rank()][k] = w.state();
            counts[here.rank()].push_back(w.counts());
        }
    });
    well = all_well(endings);
    for (size_t k = 0; well && k < all.size(); ++k) {
        made[k].state = states[0][k];
        made[k].counts.resize(counts[0][k].size());
        for (int rank = 0; rank < cut.ranks(); ++rank)
            for (size_t i = 0; i < counts[rank][k].size(); ++i)
                made[k].counts[i] += counts[rank][k][i];
        for (size_t p = 0; p < made[k].state.size(); ++p) {
            Part &part = made[k].state[p];
            if (part.reals > 0)
                part.numbers.assign(part.reals * whole.lattice.volume(), -7);
            for (int rank = 0; rank < cut.ranks(); ++rank) {
                const Reals &own = states[rank][k][p].numbers;
                if (part.reals > 0 && own.size() == part.reals * places[rank].size())
                    Fields::put(part.numbers, own, places[rank], part.reals);
                else if (!same_bits(own, part.numbers))
                    made[k].wrong += part.name + " of rank " + std::to_string(rank) + "; ";
            }
        }
    }
    return made;
}

} // namespace

TEST_CASE("calls on lattices that are cut, over ranks and emulated: fields and numbers of the whole lattice",
          "[ranks][cut][calls]") {
    std::vector<Cut> cuts = {{{4, 4, 4, 8}, {1, 1, 1, 2}, 0},
                             {{4, 6, 4, 4}, {1, 1, 1, 1}, 15},
                             {{4, 6, 4, 4}, {1, 1, 1, 1}, 10},
                             {{10, 6, 4, 2}, {2, 2, 1, 1}, 4}}; // 5 and 3 sites, and a cut that is emulated
    constexpr int with_iterations = 2;                          // of them in a short run
    if (long_tests())
        cuts.insert(cuts.end(), {{{4, 4, 4, 12}, {1, 1, 1, 3}, 0},
                                 {{6, 6, 6, 6}, {2, 2, 2, 2}, 0}, // odd in all directions
                                 {{4, 6, 4, 4}, {1, 1, 1, 1}, 5},
                                 {{4, 6, 4, 4}, {1, 1, 1, 1}, 4}});
    std::vector<Call> all;
    for (const Call &call : calls())
        if (!(call.traits & Call::alone))
            all.push_back(call);
    for (const Backend backend : backends()) {
        Extents extents{};
        std::vector<CutRun> one; // on the whole lattice
        for (const Cut &cut : cuts) {
            const WholeFields &whole = fields_of(cut.whole, 2); // rough: some links go by singular values
            const Fields fields = fields_on(cut.whole, false);
            bool well = true;
            const bool iterate = long_tests() || &cut - cuts.data() < with_iterations;
            if (std::exchange(extents, cut.whole) != cut.whole)
                one = run_on_cut(all, fields, whole, {cut.whole, {1, 1, 1, 1}, 0}, backend, iterate, well);
            REQUIRE(well);
            const auto many = run_on_cut(all, fields, whole, cut, backend, iterate, well);
            CAPTURE(text_of(cut), name(backend));
            CHECK(well);
            std::vector<uint64_t> counted(one[0].counts.size());
            for (size_t k = 0; well && k < all.size(); ++k) {
                CAPTURE(all[k].name());
                if (many[k].state.empty())
                    continue;
                CHECK(many[k].wrong.empty());
                CHECK(many[k].counts == one[k].counts);
                for (size_t i = 0; i < counted.size(); ++i)
                    counted[i] += one[k].counts[i];
                REQUIRE(many[k].state.size() == one[k].state.size());
                for (size_t p = 0; p < one[k].state.size(); ++p) {
                    const Part &a = many[k].state[p], &b = one[k].state[p];
                    if (b.name == "residual") // of rounding size
                        continue;
                    const bool rounded =
                        b.reals == 0 || has(b.name, "dirac") || has(b.name, "Wilson") || has(all[k].name(), "laplace");
                    const double allowed = !is_of_a_solve(all[k], b)                         ? (rounded ? 1e-14 : 0)
                                           : all[k].traits & Call::loose && b.name == "x[0]" ? 5e-2
                                                                                             : 1e-7;
                    const double off = same_bits(a.numbers, b.numbers) ? 0 : largest_difference(a.numbers, b.numbers);
                    CAPTURE(b.name, off);
                    CHECK(off <= allowed);
                }
            }
            for (const uint64_t count : counted)
                CHECK(count > 0);
        }
    }
}
