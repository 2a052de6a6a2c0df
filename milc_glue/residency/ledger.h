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
    long failed = 0, reloaded = 0;  // calls that the device could not do; loads after data on it had changed
    long solutions = 0, missed = 0; // missed: those without the residual that was asked for
    double residual = 0, asked = 0; // of the worst solution: its true residual, and what was asked for

    void solved(bool good, double residual_of_it, double asked_for);
    bool is_worse_than(const RoutineAccount &) const; // its worst solution
};

class Ledger {
  public:
    RoutineAccount &operator[](milcgpu_routine routine) { return accounts_[routine]; }
    const RoutineAccount &operator[](milcgpu_routine routine) const { return accounts_[routine]; }
    std::string comparison() const; // empty if nothing was compared

  private:
    RoutineAccount accounts_[MILCGPU_ROUTINES];
};

// A routine's account for all ranks: flops and bytes are sums; seconds are those of the rank that needed most.
struct RowOfTable {
    RoutineAccount sum;
    size_t slowest;
};
RowOfTable row_of(const std::vector<Ledger> &ranks, milcgpu_routine);

// The table at exit.
std::string table_of(const std::vector<Ledger> &ranks, double run_seconds);

} // namespace milcgpu
