// Every call of the CUDA runtime failing in turn, in every entry of the C interface that works on the device: no hang,
// no wrong result called right, a message that names the step, outputs untouched unless they were being copied out, the
// next call right after NO_MEMORY, a new context right after DEVICE_LOST. Needs a GPU; prints 'N passed, N failed'.
#include "milc_glue/milcgpu.h"
#include "tests/cuda_faults/wrap.h"
#include "tests/measured_steps.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <unistd.h>

namespace {

using planted::Mode;
using Field = std::vector<double>;

constexpr unsigned patience = 30; // seconds for one trial

// 3072 sites a parity: fields of double are copied by way of pinned buffers, those of float directly.
const reference::Lattice lattice{{8, 8, 8, 12}};
constexpr size_t float_pitch = 40; // bytes a site of a strided field of float

struct Host {
    Field gauge, fat, lng, source, strided_source; // the last of float
    Host() {
        reference::Rng rng(91);
        reference::Gauge links(4 * lattice.volume());
        for (auto &u : links)
            u = reference::random_near_unit_su3(rng, 0.35);
        gauge = reference::links_to_milc<double>(lattice, links);
        reference::apply_phases(lattice, links);
        const auto coefficients = reference::asqtad_coefficients(0.9);
        fat = reference::links_to_milc<double>(lattice, reference::fat_links(lattice, links, coefficients));
        lng = reference::links_to_milc<double>(lattice, reference::long_links(lattice, links, coefficients));
        source = reference::vector_to_milc<double>(lattice, reference::random_fermion(lattice, 92));
        strided_source.resize(source.size());
        for (size_t k = 0; k < source.size(); ++k) {
            const float value = static_cast<float>(source[k]);
            std::memcpy(reinterpret_cast<char *>(strided_source.data()) + k / 6 * float_pitch + k % 6 * sizeof value,
                        &value, sizeof value);
        }
    }
};
Host &host() {
    static Host made;
    return made;
}

milcgpu_field field_of(Field &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }

struct Session {
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    milcgpu_status open() {
        milcgpu_layout layout{};
        layout.struct_size = sizeof layout;
        std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
        milcgpu_options options{};
        options.struct_size = sizeof options;
        options.backend = MILCGPU_CUDA;
        return milcgpu_init(&layout, &options, &context);
    }
    milcgpu_status load() {
        const milcgpu_field fat = field_of(host().fat), lng = field_of(host().lng);
        return milcgpu_links_create(context, &fat, &lng, &links);
    }
    void close() {
        milcgpu_links_destroy(links);
        milcgpu_finalize(context);
        links = nullptr, context = nullptr;
    }
};

milcgpu_status solve(Session &s, Field &x) {
    milcgpu_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = MILCGPU_EVEN;
    spec.mass = 0.1, spec.tolerance = 1e-10;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE;
    spec.sloppy = {MILCGPU_HALF, 0, 13};
    const milcgpu_field from = field_of(host().source), to = field_of(x);
    return milcgpu_solve(s.context, s.links, &spec, &from, &to, nullptr);
}

milcgpu_status solve_several(Session &s, std::vector<Field> &x) {
    const milcgpu_shift shifts[] = {{0.04, 1e-10, 0}, {0.16, 1e-10, 0}, {1, 1e-10, 0}};
    milcgpu_multi_mass_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = MILCGPU_EVEN;
    spec.n_shifts = 3, spec.shifts = shifts;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.shared.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_HALF;
    const milcgpu_field from = field_of(host().source), to[] = {field_of(x[0]), field_of(x[1]), field_of(x[2])};
    return milcgpu_multi_mass(s.context, s.links, &spec, &from, to, nullptr);
}

milcgpu_status solve_together(Session &s, std::vector<Field> &x) {
    milcgpu_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = MILCGPU_EVEN;
    spec.mass = 0.1, spec.tolerance = 1e-10;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE;
    spec.sloppy = {MILCGPU_SINGLE, 0, 13};
    static Field second(host().source.rbegin(), host().source.rend());
    const milcgpu_field from[] = {field_of(host().source), field_of(second)}, to[] = {field_of(x[0]), field_of(x[1])};
    return milcgpu_solve_sources(s.context, s.links, &spec, MILCGPU_BLOCK, 2, from, to, nullptr);
}

// HISQ: V on the host, a set on the host, one more in a handle.
milcgpu_status make_links(Session &s, std::vector<Field> &out) {
    milcgpu_fatlink_spec spec;
    milcgpu_hisq_spec(&spec);
    spec.phases_out = 1;
    milcgpu_links *made = nullptr;
    const milcgpu_field gauge = field_of(host().gauge), fat = field_of(out[0]), lng = field_of(out[1]),
                        second = field_of(out[2]), v = field_of(out[3]);
    const milcgpu_fatlink_set sets[] = {{0, &fat, &lng, nullptr}, {-0.1, &second, nullptr, &made}};
    const milcgpu_hisq_links hisq{&v, nullptr, nullptr};
    const milcgpu_status status = milcgpu_fat_links(s.context, &spec, &gauge, sets, 2, &hisq, nullptr);
    milcgpu_links_destroy(made);
    return status;
}

milcgpu_status apply(Session &s, Field &out) {
    const milcgpu_operator what{MILCGPU_SINGLE, 0, 13};
    const milcgpu_field from{host().strided_source.data(), MILCGPU_SINGLE, float_pitch};
    const milcgpu_field to{out.data(), MILCGPU_SINGLE, float_pitch};
    return milcgpu_dslash(s.context, s.links, &what, MILCGPU_EVEN, &from, &to);
}

milcgpu_status pin(Session &s) {
    const milcgpu_status status = milcgpu_pin(s.context, host().source.data(), host().source.size() * sizeof(double));
    return status != MILCGPU_OK ? status : milcgpu_unpin(s.context, host().source.data());
}

struct Step {
    const char *name;
    int prepared; // 0: nothing, 1: a context, 2: links in it
    std::vector<size_t> outputs;
    std::function<milcgpu_status(Session &, std::vector<Field> &)> run;
};

using measured_steps::OfQuarks;
template <OfQuarks what> milcgpu_status of_quarks(Session &s, std::vector<Field> &out) {
    return measured_steps::measure_quarks(what, s.context, host().gauge, host().source, out[0]);
}

std::vector<Step> steps() {
    const size_t vector = host().source.size(), link = host().gauge.size();
    return {
        {"init", 0, {}, [](Session &s, std::vector<Field> &) { return s.open(); }},
        {"pin", 1, {}, [](Session &s, std::vector<Field> &) { return pin(s); }},
        {"links_create", 1, {}, [](Session &s, std::vector<Field> &) { return s.load(); }},
        {"dslash", 2, {vector}, [](Session &s, std::vector<Field> &out) { return apply(s, out[0]); }},
        {"residual",
         2,
         {1},
         [](Session &s, std::vector<Field> &out) {
             const milcgpu_field b = field_of(host().source);
             return milcgpu_residual(s.context, s.links, MILCGPU_EVEN, 0.1, &b, &b, out[0].data());
         }},
        {"solve", 2, {vector}, [](Session &s, std::vector<Field> &out) { return solve(s, out[0]); }},
        {"multi_mass", 2, {vector, vector, vector}, solve_several},
        {"solve_sources", 2, {vector, vector}, solve_together},
        {"fat_links", 1, {link, link, link, link}, make_links},
        {"spin_taste", 1, {vector}, of_quarks<OfQuarks::four_link_operator>},
        {"gauss_smear", 1, {vector}, of_quarks<OfQuarks::smearing>},
        {"contract", 1, {size_t(2 * measured_steps::correlators * lattice.n[3])}, of_quarks<OfQuarks::contraction>},
        {"gauge fixing, smearing, flow",
         1,
         {link},
         [](Session &s, std::vector<Field> &out) {
             return measured_steps::smooth_links(s.context, host().gauge, out[0]);
         }},
    };
}

[[noreturn]] void stop(const char *why) {
    std::printf("%s: %s\n0 passed, 1 failed\n", why, milcgpu_last_error());
    std::exit(1);
}

void prepare(const Step &step, Session &s) {
    if ((step.prepared > 0 && s.open() != MILCGPU_OK) || (step.prepared > 1 && s.load() != MILCGPU_OK))
        stop("a new context does not work");
}

std::vector<Field> untouched(const Step &step) {
    std::vector<Field> out;
    for (const size_t n : step.outputs)
        out.emplace_back(n, 0.25);
    return out;
}

bool same_bits(const std::vector<Field> &a, const std::vector<Field> &b) {
    for (size_t k = 0; k < a.size(); ++k)
        if (std::memcmp(a[k].data(), b[k].data(), a[k].size() * sizeof(double)) != 0)
            return false;
    return true;
}

bool right(const Step &step, const std::vector<Field> &out, const std::vector<Field> &expected) {
    if (std::strcmp(step.name, "dslash") == 0)
        return same_bits(out, expected); // of float
    for (size_t k = 0; k < out.size(); ++k) {
        double difference = 0, size = 0;
        for (size_t i = 0; i < out[k].size(); ++i) {
            difference += (out[k][i] - expected[k][i]) * (out[k][i] - expected[k][i]);
            size += expected[k][i] * expected[k][i];
        }
        if (!(difference <= 1e-14 * size))
            return false;
    }
    return true;
}

char where[200]; // the trial in progress, for the alarm
void hang(int) {
    static const char end[] = "\n0 passed, 1 failed\n";
    const ssize_t a = write(1, "a hang: ", 8), b = write(1, where, std::strlen(where)),
                  c = write(1, end, sizeof end - 1);
    _exit(a + b + c > 0 ? 1 : 2);
}

struct Table {
    std::map<std::string, std::map<std::string, int>> rows; // call -> status -> times
    int passed = 0, failed = 0;
    void check(bool good, const char *what, milcgpu_status got) {
        ++(good ? passed : failed);
        if (!good)
            std::printf("FAILED: %s: %s; %s: %s\n", where, what, milcgpu_status_name(got), milcgpu_last_error());
    }
    void print() const {
        std::printf("%-26s %s\n", "call that failed", "status of the entry (times)");
        for (const auto &[call, statuses] : rows) {
            std::printf("%-26s", call.c_str());
            for (const auto &[status, times] : statuses)
                std::printf(" %s %d", status.c_str(), times);
            std::printf("\n");
        }
        std::printf("%d passed, %d failed\n", passed, failed);
    }
};

// False when the call is not reached any more.
bool trial(const Step &step, long n, Mode mode, const std::vector<Field> &expected, Table &table) {
    std::snprintf(where, sizeof where, "%s, call %ld fails %s", step.name, n, mode == Mode::once ? "once" : "for good");
    alarm(patience);
    Session session;
    prepare(step, session);
    std::vector<Field> out = untouched(step);
    planted::plant(n, mode);
    std::vector<planted::Output> ranges;
    for (const Field &field : out)
        ranges.push_back({field.data(), field.size() * sizeof(double)});
    planted::set_outputs(ranges);
    const milcgpu_status got = step.run(session, out);
    const std::string message = milcgpu_last_error();
    const bool copying = planted::copied_out(), come = planted::lift();
    if (!come) {
        session.close();
        return false;
    }
    std::snprintf(where + std::strlen(where), sizeof where - std::strlen(where), " (%s)", planted::failed_call());
    ++table.rows[planted::failed_call()][milcgpu_status_name(got)];
    const bool result = same_bits(out, untouched(step));
    if (got == MILCGPU_OK) {
        table.check(right(step, out, expected), "called right, and it is not", got);
    } else {
        const bool refused = got == MILCGPU_NO_MEMORY || got == MILCGPU_DEVICE_LOST ||
                             (got == MILCGPU_BAD_ARGUMENT && step.prepared < 2 && step.outputs.empty());
        table.check(refused, "a status that does not fit", got);
        table.check(message.find("milcgpu_") == 0 && message.size() > 30, "no message", got);
        table.check(result || (copying && got == MILCGPU_DEVICE_LOST), "outputs were written", got);
    }
    if (got == MILCGPU_NO_MEMORY && step.prepared > 0) {
        out = untouched(step);
        const milcgpu_status next = step.run(session, out);
        table.check(next == MILCGPU_OK && right(step, out, expected), "wrong after NO_MEMORY", next);
    }
    if (got == MILCGPU_DEVICE_LOST && step.prepared > 0) {
        out = untouched(step);
        const milcgpu_status next = step.run(session, out);
        table.check(next == MILCGPU_DEVICE_LOST && same_bits(out, untouched(step)), "a lost GPU was used", next);
    }
    session.close();
    return true;
}

} // namespace

int main() {
    if (Session probe; probe.open() != MILCGPU_OK) {
        std::printf("skipped: %s\n0 passed, 0 failed\n", milcgpu_last_error());
        return 0;
    } else {
        probe.close();
    }
    std::signal(SIGALRM, hang);
    Table table;
    for (const Step &step : steps()) {
        Session session;
        prepare(step, session);
        std::vector<Field> expected = untouched(step);
        planted::count_only();
        if (step.run(session, expected) != MILCGPU_OK)
            stop(step.name);
        std::printf("%-14s %ld calls\n", step.name, planted::calls());
        session.close();
        for (const Mode mode : {Mode::once, Mode::ever_after})
            for (long n = 0; trial(step, n, mode, expected, table); ++n)
                ;
    }
    table.print();
    return table.failed > 0;
}
