// The handle of eigenvectors.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_eigen.h"

struct milcgpu_eigenvectors {
    milcgpu_context *context;
    std::unique_ptr<milcgpu::Eigenvectors> set; // nullptr: empty
    std::vector<bool> loaded;                   // for each vector
    // Links of other content that were tested, and why they cannot use the vectors; empty: they can.
    uint64_t tested = 0;
    std::string wrong;
    std::string none;     // why the loaded vectors are no eigenvectors of their own links; empty: they are
    uint64_t said = 0;    // links for which the log already says that the vectors are not used
    int next_checked = 0; // vector whose checksum is compared next
};

namespace milcgpu {

// The precision of kept vectors from the interface's number. Throws if the number is invalid.
Precision stored_as(int precision);
constexpr const char *empty_eigenvectors = "the eigenvectors are empty: compute, load or read them";
bool are_loaded(const milcgpu_eigenvectors &); // whether all are
// Throws if a call on this parity cannot use them. name: of the argument; what: "the solve is on".
void need_eigenvectors(const milcgpu_eigenvectors &, const milcgpu_context &, int parity,
                       const char *name = "spec.eigenvectors", const char *what = "the solve is on");
struct LanczosLimits;
struct LanczosReport;
// A for lowest_eigenvectors.
Operator for_lanczos(milcgpu_links &, int parity, Precision stored);
// Computes the eigenvectors of these links into a handle, by lowest_eigenvectors. Checks the links afterwards.
std::unique_ptr<milcgpu_eigenvectors> lowest_of(milcgpu_links &, int parity, const LanczosLimits &,
                                                const std::function<void(int done, int of)> &progress, LanczosReport &);
// Called when a program makes its own eigenvectors: the context then makes none itself (learning.h).
void stop_learning(milcgpu_context &);
// Throws if a parity has fewer modes.
void need_room_for(int count, const milcgpu_context &);
// Throws if the vectors are not orthogonal, and notes whether they are eigenvectors. All must be loaded, with values
// and residuals on their links. name: of their origin, for messages.
void look_at_loaded(milcgpu_eigenvectors &, const std::string &name, const NormalOperator &A);
// Why these links cannot use the vectors; empty: they can. Tests some vectors if the links have other content.
std::string why_not_of(milcgpu_eigenvectors &, milcgpu_links &);
constexpr const char *changed_eigenvectors =
    "the eigenvectors are no longer what was made or loaded: a bit flipped, or "
    "other code wrote there. They are empty now";
// Whether `count` vectors from `first` on still have their checksums on all ranks. If not, empties the handle.
bool are_whole(milcgpu_eigenvectors &, int first, int count);
// The same after a deflated call: for all vectors if they did harm, else for a few, other ones each time.
bool are_whole_after(milcgpu_eigenvectors &, bool did_harm);
// |B v - l v| / |v| and |v| of the first `count` vectors, in double, with l from `values`. parity: MILCGPU_EVEN or
// MILCGPU_ODD; on the parity that the vectors do not have, D v / |D v| with `links_of_other`.
milcgpu_status look_at_eigenvectors(milcgpu_eigenvectors *, milcgpu_links *, milcgpu_links *links_of_other, int parity,
                                    int count, const double *values, double *residuals, double *norms);
// Creates a handle with D v / |D v| for each vector, on the other parity.
milcgpu_status other_parity_of(milcgpu_eigenvectors *, milcgpu_links *, milcgpu_eigenvectors **made);
// Copies D v / |D v| of the first `count` vectors to fields of the host, computed in double.
milcgpu_status other_parity_to_host(milcgpu_eigenvectors *, milcgpu_links *, int count, const milcgpu_field *fields);

} // namespace milcgpu
