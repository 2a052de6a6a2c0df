// What the files of this folder share: the lattice, the start of the plugin, retreat to the host backend, and marks
// after errors. Not installed.
#pragma once
#include "gpu_kernels/machine/comm/ranks.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/host/host_fields.h"
#include "milc_glue/quda_compat/quda_milc_interface.h"
#include <cstdio>
#include <exception>
#include <new>

namespace milcgpu::quda {

// This rank's part of the lattice.
struct Lattice {
    milcgpu_milc_box box{};
    int ranks = 0;             // 0: not known yet
    bool has_messages = false; // of several ranks
    milcgpu_messages messages[MILCGPU_QUDA_TABLES]{};

    int n(int mu) const { return box.extent[mu]; }
    int origin_parity() const { return (box.origin[0] + box.origin[1] + box.origin[2] + box.origin[3]) % 2; }
    size_t sites() const { return static_cast<size_t>(n(0)) * n(1) * n(2) * n(3); } // on this rank
    size_t even_sites() const { return (sites() + 1 - origin_parity()) / 2; }
    double whole_sites() const {
        return static_cast<double>(box.whole[0]) * box.whole[1] * box.whole[2] * box.whole[3];
    }
};

extern Lattice lattice;

// State that calls leave for later calls.
struct State {
    int precision = 0; // of MILC's fields; 0: not started
    bool zero_links_logged = false;
    QudaHisqParams_t hisq{1, 0, 0, 0, 5e-5}; // the last that MILC passed
    struct {
        const void *links[2]{};    // fat, long: of the next eigensolve
        bool twisted = false;      // the links of the next call
        bool size_was_logged[2]{}; // of the arguments of solves, and of loading vectors
    } eigen;
    struct {
        void *links = nullptr; // MILC's
        int precision = 0;
    } flow;
    struct {                     // since qudaMomLoad: on the device, with this memory on the host for them
        void *scratch = nullptr; // nullptr: the momenta in the sites are used, else they are not
        bool lost = false;       // the momenta are lost, or lack a force, until the next qudaMomLoad
    } momenta;
    struct {
        const void *smeared_with = nullptr; // links whose two-link products the next call may use; nullptr: no links
        int origin[4]{};                    // of the next spin-taste operator
        bool has_origin = false, absence_was_logged = false;
    } measurement;
};
extern State state;

constexpr int most_starts = 5; // of one solve. MILC's limit is for all iterations together

void complain(const char *function, const char *what);

// Returns what `work` returns, or false after an exception, which is logged.
template <class Work> bool guarded(const char *function, const Work &work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        const milcgpu_messages &ranks = lattice.messages[0]; // only this rank has the error
        if (ranks.size > 1)
            std::fprintf(stderr, "milcgpu: %s: rank %d of %d: no room in the host's memory\n", function, ranks.rank,
                         ranks.size);
        else
            complain(function, "no room in the host's memory");
    } catch (const std::exception &error) {
        complain(function, error.what());
    }
    return false;
}

// The first call with a precision sets it; MILC uses one for all calls.
bool start(const char *function, int precision);

// Runs `work` on the GPU, or on the host backend if that fails. False: neither could do it.
template <class Work> bool done(const char *function, int precision, const Work &work) noexcept {
    return guarded(function, [&] {
        if (!start(function, precision))
            return false;
        if (milcgpu_plugin_active() != 0 && work())
            return true;
        return milcgpu_plugin_retreat() != 0 && work();
    });
}

inline int real_of(int precision) { return precision == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE; }
inline size_t bytes_of(int precision) { return precision == 1 ? sizeof(float) : sizeof(double); }
inline milcgpu_field packed(void *field, int precision) { return {field, real_of(precision), 0}; }
inline milcgpu_paths paths_of(const double c[6]) { return {c[0], c[1], c[2], c[3], c[4], c[5]}; }

// Links (72 reals a site) and momenta (40) of the argument, packed or inside the sites.
milcgpu_field links_of(const QudaMILCSiteArg_t &arg, int precision);
milcgpu_field momenta_of(const QudaMILCSiteArg_t &arg, int precision);
HostRecords records_of(const milcgpu_field &field, int reals, int precision);

void fill_with_nan(void *field, size_t reals, int precision);

// Whether lattice, precision and argument are valid for an observable; if not, logs why.
bool observable(const char *function, int precision, const QudaMILCSiteArg_t *arg);

// Links of the argument and the momenta in use: after qudaMomLoad the library's, before it those of the argument.
milcgpu_plugin_lattice lattice_of(const QudaMILCSiteArg_t &arg, int precision);
// False, after a line in the log, if the momenta in use are lost.
bool momenta_are_whole(const char *function);

} // namespace milcgpu::quda
