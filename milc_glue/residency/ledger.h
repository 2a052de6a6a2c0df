// What the plugin did, routine by routine, for the tables that a MILC run prints, and the comparison of CPU and GPU.
#pragma once
#include "milc_glue/api/plugin.h"
#include <cstdint>
#include <string>
#include <vector>

namespace milcgpu {

const char *routine_name(milcgpu_routine routine); // MILC's

struct RoutineAccount {
    long calls = 0, known = 0; // known: an earlier call had the answer
    double seconds = 0, flops = 0;
    uint64_t to_device = 0, to_host = 0;
    long safer = 0;     // retries in a safer precision
    long cpu_calls = 0; // by MILC's own routine: after an error, or to compare
    double cpu_seconds = 0;
    long compared = 0, beyond = 0; // beyond tolerance
    double worst = 0;              // difference, relative to what is allowed
    double compared_gpu_seconds = 0, compared_cpu_seconds = 0;
};

class Ledger {
  public:
    RoutineAccount &operator[](milcgpu_routine routine) { return accounts_[routine]; }
    const RoutineAccount &operator[](milcgpu_routine routine) const { return accounts_[routine]; }
    std::string comparison() const; // empty if nothing was compared

  private:
    RoutineAccount accounts_[MILCGPU_ROUTINES];
};

// For all ranks: flops and bytes are sums; seconds are taken from the rank that needed most, which is named.
std::string table_of(const std::vector<Ledger> &ranks, double run_seconds);

// The same table for programs to read: one row for each routine that was called, with the comparisons of rank 0. The
// last row has the seconds outside of milcgpu, so that all rows add up to the run.
enum class TableKind { csv, json };
std::string table_file_of(const std::vector<Ledger> &ranks, double run_seconds, TableKind kind,
                          const std::string &device, const std::string &date);

} // namespace milcgpu
