#include "milc_glue/residency/certificate.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/residency/reason.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

namespace {

// A name, and its values as JSON has them: numbers, or words between quotation marks.
struct Fact {
    const char *name;
    std::vector<std::string> values;
    bool is_list = false;
};
using Row = std::vector<Fact>;

std::string word(const std::string &of) {
    std::string text = printable(of);
    for (char &c : text)
        c = c == '"' || c == '\\' ? '\'' : c;
    std::string line; // a table becomes a list
    for (size_t from = 0; from < text.size();) {
        const size_t end = std::min(text.find('\n', from), text.size());
        line += text.substr(from, end - from);
        from = text.find_first_not_of("\n ", end);
        if (from < text.size() && !line.empty())
            line += line.back() == ':' ? " " : ", ";
    }
    return '"' + line + '"';
}

std::string number(double x) { return std::isfinite(x) ? format("%.9g", x) : word(format("%g", x)); }

std::string joined(const std::vector<std::string> &parts, const char *between) {
    std::string text;
    for (const std::string &part : parts)
        text += (text.empty() ? "" : between) + part;
    return text;
}

std::string as_json(const Row &row) {
    std::vector<std::string> members;
    for (const Fact &fact : row)
        members.push_back(format("\"%s\":", fact.name) +
                          (fact.is_list ? "[" + joined(fact.values, ",") + "]" : fact.values[0]));
    return joined(members, ",");
}

std::string as_text(const Row &row) {
    std::string text;
    const auto line = [&](std::string name, const std::string &value) {
        std::replace(name.begin(), name.end(), '_', ' ');
        text += name + ": " + value + "\n";
    };
    for (const Fact &fact : row) {
        if (fact.values.empty())
            continue;
        if (fact.values[0][0] != '"')
            line(fact.name, joined(fact.values, " "));
        else
            for (const std::string &value : fact.values)
                line(fact.name, value.substr(1, value.size() - 2));
    }
    return text;
}

std::vector<Row> rows_of(const std::vector<Ledger> &ranks, double run_seconds, const Certificate &run) {
    std::vector<Row> rows;
    const auto add = [&](const char *name, const RowOfTable &all) {
        const RoutineAccount &a = all.sum;
        rows.push_back({{"routine", {word(name)}},
                        {"calls", {std::to_string(a.calls)}},
                        {"known", {std::to_string(a.known)}},
                        {"seconds", {format("%.6f", a.seconds)}},
                        {"flops", {format("%.0f", a.flops)}},
                        {"bytes_to", {std::to_string(a.to_device)}},
                        {"bytes_from", {std::to_string(a.to_host)}},
                        {"safer", {std::to_string(a.safer)}},
                        {"cpu_calls", {std::to_string(a.cpu_calls)}},
                        {"cpu_seconds", {format("%.6f", a.cpu_seconds)}},
                        {"compared", {std::to_string(a.compared)}},
                        {"beyond", {std::to_string(a.beyond)}},
                        {"slowest_rank", {std::to_string(all.slowest)}},
                        {"ranks", {std::to_string(ranks.size())}},
                        {"device", {word(run.device)}},
                        {"date", {word(run.date)}},
                        {"solutions", {std::to_string(a.solutions)}},
                        {"missed", {std::to_string(a.missed)}},
                        {"residual", {number(a.residual)}},
                        {"asked", {number(a.asked)}},
                        {"failed", {std::to_string(a.failed)}},
                        {"reloaded", {std::to_string(a.reloaded)}}});
    };
    RowOfTable outside{};
    outside.sum.seconds = run_seconds;
    for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
        const auto routine = static_cast<milcgpu_routine>(r);
        const RowOfTable all = row_of(ranks, routine);
        if (all.sum.calls + all.sum.cpu_calls + all.sum.failed == 0)
            continue;
        add(routine_name(routine), all);
        outside.sum.seconds -= all.sum.seconds;
    }
    add("outside of milcgpu", outside);
    return rows;
}

// Sums over the routines.
struct Sums {
    explicit Sums(const Ledger &ledger) {
        for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
            const auto routine = static_cast<milcgpu_routine>(r);
            const RoutineAccount &a = ledger[routine];
            solutions += a.solutions, missed += a.missed, beyond += a.beyond;
            failed += a.failed, reloaded += a.reloaded;
            if (a.is_worse_than(worst != nullptr ? *worst : RoutineAccount())) {
                worst = &a;
                worst_in = routine_name(routine);
            }
        }
    }
    long solutions = 0, missed = 0, beyond = 0, failed = 0, reloaded = 0;
    const RoutineAccount *worst = nullptr; // the one with the worst solution
    const char *worst_in = nullptr;
};

// whole: also what the lines of the log have said before.
Row facts_of(const Certificate &run, const std::vector<Ledger> &ranks, double run_seconds, bool whole) {
    Row facts;
    const auto add = [&](const char *name, std::vector<std::string> values, bool is_list = false) {
        facts.push_back({name, std::move(values), is_list});
    };
    if (whole) {
        add("version", {word(MILCGPU_VERSION)});
        add("program", {word(run.milc)});
        add("device", {word(run.device)});
        add("date", {word(run.date)});
        add("ranks", {std::to_string(ranks.size())});
        add("settings", {word(run.settings)});
    }
    add("lattice", {}, true);
    for (const int extent : run.lattice)
        facts.back().values.push_back(std::to_string(extent));
    for (size_t k = 0; k < run.plaquettes.size(); ++k)
        add(k == 0 ? "first_plaquettes" : "last_plaquettes",
            {number(run.plaquettes[k][0]), number(run.plaquettes[k][1])}, true);
    if (!run.checksum.empty())
        add("checksum", {word(run.checksum)});
    const auto add_words = [&](const char *name, const std::vector<std::string> &words) {
        add(name, {}, true);
        for (const std::string &one : words)
            facts.back().values.push_back(word(one));
    };
    add_words("file", run.files);
    double inside = 0;
    for (int r = 0; r < MILCGPU_ROUTINES; ++r)
        inside += row_of(ranks, static_cast<milcgpu_routine>(r)).sum.seconds;
    add("seconds", {format("%.3f", run_seconds)});
    add("seconds_outside", {format("%.3f", run_seconds - inside)});
    if (run.memory.peak_bytes > 0) {
        add("peak_bytes", {std::to_string(run.memory.peak_bytes)});
        add("peak_bytes_per_site", {format("%.1f", run.memory.per_site(run.memory.peak_bytes))});
        add("shortages_of_memory", {std::to_string(run.memory.shortages)});
    }
    const Sums sums(ranks[0]);
    add("solutions", {std::to_string(sums.solutions)});
    if (sums.worst != nullptr)
        add("worst_solution", {word(format("true residual %.2e, asked %.2e, in %s", sums.worst->residual,
                                           sums.worst->asked, sums.worst_in))});
    std::vector<std::string> remarks, notes;
    for (const auto &[routine, text] : run.remarks)
        remarks.push_back(std::string(routine_name(routine)) + ": " + text);
    for (const auto &[line, times] : run.notes)
        notes.push_back(times > 1 ? format("%s (%ld times)", line.c_str(), times) : line);
    if (whole) {
        add_words("remark", remarks);
        add_words("note", notes);
    }
    if (!run.ended && !run.at.empty())
        add("at", {word(run.at)});
    add("verdict", {word(run.verdict(ranks[0]))});
    return facts;
}

// The memory at its peak: a row for each owner and size of arrays, the largest first; what is below a thousandth of the
// peak is one row.
struct MemoryRow {
    std::string of;
    int arrays;
    size_t bytes, bytes_each; // each: 0 if sizes differ
};
std::vector<MemoryRow> memory_rows(const Certificate::Memory &memory) {
    constexpr int least_part = 1000;
    std::vector<MemoryRow> rows;
    MemoryRow others{"others", 0, 0, 0};
    for (const auto &[kind, count] : memory.at_peak) {
        const MemoryRow row{kind.first, count, kind.second * count, kind.second};
        if (row.bytes * least_part >= memory.peak_bytes)
            rows.push_back(row);
        else
            others.arrays += row.arrays, others.bytes += row.bytes;
    }
    std::sort(rows.begin(), rows.end(), [](const MemoryRow &a, const MemoryRow &b) { return a.bytes > b.bytes; });
    if (others.arrays > 0)
        rows.push_back(others);
    return rows;
}

std::string memory_table(const Certificate::Memory &memory) {
    if (memory.peak_bytes == 0)
        return "";
    std::string text =
        format("memory of the device at its peak, in bytes per site\n%12s %7s %12s\n", "all", "arrays", "each");
    for (const MemoryRow &row : memory_rows(memory))
        text +=
            format("%12.1f %7d %12s  %s\n", memory.per_site(row.bytes), row.arrays,
                   row.bytes_each > 0 ? format("%.1f", memory.per_site(row.bytes_each)).c_str() : "", row.of.c_str());
    return text;
}

std::string memory_json(const Certificate::Memory &memory) {
    std::vector<std::string> rows;
    for (const MemoryRow &row : memory_rows(memory))
        rows.push_back("{" +
                       as_json({{"of", {word(row.of)}},
                                {"arrays", {std::to_string(row.arrays)}},
                                {"bytes", {std::to_string(row.bytes)}},
                                {"bytes_per_site", {format("%.1f", memory.per_site(row.bytes))}}}) +
                       "}");
    return "[" + joined(rows, ",\n ") + "]";
}

} // namespace

void Certificate::used(Device &device) {
    memory.shortages += device.new_shortages();
    if (device.peak_bytes() > memory.peak_bytes)
        memory.peak_bytes = device.peak_bytes(), memory.at_peak = device.at_peak();
}

void Certificate::note(const std::string &line) {
    constexpr size_t most = 50; // lines may differ in their numbers
    const std::string bare = without_sizes(line);
    const auto same =
        std::find_if(notes.begin(), notes.end(), [&](const auto &one) { return without_sizes(one.first) == bare; });
    if (same != notes.end())
        ++same->second;
    else if (notes.size() < most)
        notes.emplace_back(line, 1);
    else if (notes.size() == most)
        notes.emplace_back("more lines of this kind", 1);
    else
        ++notes.back().second;
}

void Certificate::measured(double space, double time) {
    plaquettes.resize(std::min(plaquettes.size(), size_t{1}));
    plaquettes.push_back({space, time});
}

bool Certificate::is_bad(const Ledger &ledger) const {
    const Sums sums(ledger);
    return lost || sums.missed + sums.beyond + not_finite > 0;
}

std::string Certificate::verdict(const Ledger &ledger) const {
    const Sums sums(ledger);
    const std::pair<long, const char *> counts[] = {
        {sums.missed, "solutions without the residual that was asked for"},
        {sums.beyond, "comparisons beyond tolerance"},
        {not_finite, "calls that met NaN or infinity"},
        {lost ? 1 : 0, "losses of values that only the device had"},
        {messages, "messages between ranks that were lost"},
        {sums.reloaded + sources, "loads after data on the device had changed"},
        {sums.failed + thrown, "calls that the device could not do"}};
    std::vector<std::string> parts;
    if (!ended)
        parts.push_back(stopped ? "MILC stopped before its end" : "the run goes on, or was killed");
    if (unread)
        parts.push_back("MILC did not run all of its input");
    for (const auto &[count, name] : counts)
        if (count > 0)
            parts.push_back(format("%s: %ld", name, count));
    const char *const kind = !ended || unread ? "UNFINISHED"
                             : is_bad(ledger) ? "BAD"
                             : parts.empty()  ? "GOOD"
                                              : "MENDED";
    return kind + (parts.empty() ? "" : ": " + joined(parts, "; "));
}

std::string Certificate::text(const std::vector<Ledger> &ranks, double run_seconds) const {
    return memory_table(memory) + as_text(facts_of(*this, ranks, run_seconds, false));
}

std::string Certificate::file(TableKind kind, const std::vector<Ledger> &ranks, double run_seconds) const {
    if (kind == TableKind::txt)
        return table_of(ranks, run_seconds) + memory_table(memory) + as_text(facts_of(*this, ranks, run_seconds, true));
    const std::vector<Row> rows = rows_of(ranks, run_seconds, *this);
    std::vector<std::string> lines;
    if (kind == TableKind::csv) {
        std::vector<std::string> names;
        for (const Fact &fact : rows[0])
            names.push_back(fact.name);
        lines.push_back(joined(names, ","));
    }
    for (const Row &row : rows) {
        std::vector<std::string> cells;
        for (const Fact &fact : row)
            cells.push_back(fact.values[0]);
        lines.push_back(kind == TableKind::csv ? joined(cells, ",") : "{" + as_json(row) + "}");
    }
    return kind == TableKind::csv ? joined(lines, "\n") + "\n"
                                  : "{" + as_json(facts_of(*this, ranks, run_seconds, true)) + ",\n\"routines\":[" +
                                        joined(lines, ",\n ") + "],\n\"memory\":" + memory_json(memory) + "}\n";
}

} // namespace milcgpu
