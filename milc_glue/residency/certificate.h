// The certificate of a run: what ran where, on which lattice; how far its solutions are from what was asked for; what
// went wrong, and what was done about it; and a verdict. It grows while the run goes on. The table of calls is a part.
#pragma once
#include "gpu_kernels/machine/backend/device.h"
#include "milc_glue/residency/ledger.h"
#include <array>
#include <set>
#include <utility>

namespace milcgpu {

enum class TableKind { csv, json, txt }; // csv: the table alone

struct Certificate {
    std::string milc, device, settings, date;
    std::array<int, 4> lattice{};
    bool ended = false;                              // MILC has announced the end of the run
    bool unread = false;                             // MILC has ended before the end of its input
    bool stopped = false;                            // the program has exited without that
    bool lost = false;                               // values that only the device had
    long thrown = 0;                                 // exceptions that ended a call
    long not_finite = 0;                             // calls that met NaN or infinity, as MILC's own routines will
    long messages = 0;                               // between ranks, that were lost
    long sources = 0;                                // that changed on the device during a solve, and were loaded again
    std::string at;                                  // the last line of a call that takes long
    std::vector<std::array<double, 2>> plaquettes;   // in space and in time, as MILC prints them: the first, the last
    std::string checksum;                            // of the last lattice that MILC checked
    std::vector<std::string> files;                  // lattice files that were read or written
    std::vector<std::pair<std::string, long>> notes; // lines about errors, and how often each came
    std::set<std::pair<milcgpu_routine, std::string>> remarks; // also: why MILC's own routines did calls
    struct Memory {
        size_t sites = 1, peak_bytes = 0;
        Device::ArrayCounts at_peak;
        long shortages = 0; // allocations that did not fit at once
        double per_site(size_t bytes) const { return static_cast<double>(bytes) / static_cast<double>(sites); }
    } memory; // of rank 0's device

    void note(const std::string &line);
    void used(Device &); // keeps the largest peak of all contexts of the run
    void measured(double space, double time);

    // "GOOD"; "MENDED: ..." if all results are right in spite of errors; "BAD: ..." if a result is not what was asked
    // for; "UNFINISHED: ...", with what was found so far.
    std::string verdict(const Ledger &) const;
    bool is_bad(const Ledger &) const;
    // For the end of a log: one fact a line, without what its lines have said before, and the verdict at the end.
    std::string text(const std::vector<Ledger> &ranks, double run_seconds) const;
    // For programs to read. The last row of the table has the seconds outside of milcgpu, so that all rows add up to
    // the run. json: an object with the facts, and the rows in "routines".
    std::string file(TableKind, const std::vector<Ledger> &ranks, double run_seconds) const;
};

} // namespace milcgpu
