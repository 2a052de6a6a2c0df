// Walkers over the table of all calls of the C interface (calls_support.h): pointers that are NULL, numbers out of
// range, links of the wrong signs, ranks that differ in one argument or member. And docs/headers.md, which is made of
// it.
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
    bool is_whole = true;
    for (const auto &table : matches(text_of("milc_glue/api/members.h"), "\nTABLE\\(([a-z0-9_]+),")) {
        CAPTURE(table[1]);
        const bool walked = tables[0].erase(table[1]) == 1;
        CHECK(walked);
        is_whole = is_whole && walked;
    }
    CHECK(tables[0].empty());
    const bool on_page = text_of("docs/headers.md") == page;
    CHECK(on_page);
    if (!on_page && is_whole) {
        std::ofstream("build/headers.md") << page;
        std::printf("docs/headers.md is to be build/headers.md: make reference\n");
    }
}
