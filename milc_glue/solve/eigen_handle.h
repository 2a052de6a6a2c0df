// What stands behind the handle of eigenvectors.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_eigen.h"

struct milcgpu_eigenvectors {
    milcgpu_context *context;
    std::unique_ptr<milcgpu::Eigenvectors> set; // nullptr: empty
    std::vector<bool> loaded;                   // vectors that are there
    // Links of other content that were tested, and what is wrong with them; empty: nothing.
    uint64_t tested = 0;
    std::string wrong;
    std::string none;     // why those that were loaded are no eigenvectors of their own links; empty: they are
    uint64_t said = 0;    // links for which the log says that they are not used
    int next_checked = 0; // vector whose checksum is compared next
};

namespace milcgpu {

// Of vectors that are kept, from the interface's number. Throws where it is none.
Precision stored_as(int precision);
constexpr const char *empty_eigenvectors = "the eigenvectors are empty: compute, load or read them";
bool are_loaded(const milcgpu_eigenvectors &); // all of them
// Throws where a call on this parity cannot take them. name: of the argument; what: "the solve is on".
void need_eigenvectors(const milcgpu_eigenvectors &, const milcgpu_context &, int parity,
                       const char *name = "spec.eigenvectors", const char *what = "the solve is on");
struct LanczosLimits;
struct LanczosReport;
// Computes the eigenvectors of these links into a handle, by lowest_eigenvectors. Checks the links afterwards.
Operator in_single(milcgpu_links &, int parity);
std::unique_ptr<milcgpu_eigenvectors> lowest_of(milcgpu_links &, int parity, const LanczosLimits &,
                                                const std::function<void(int done, int of)> &progress, LanczosReport &);
// A program that has eigenvectors of its own gets none by itself (learning.h).
void stop_learning(milcgpu_context &);
// What a solve of so many sources at once takes for its deflation; 0 without eigenvectors.
size_t deflation_bytes(const milcgpu_context &, const milcgpu_solve_spec &, int sources);
// Throws where so many are more than a parity has.
void need_room_for(int count, const milcgpu_context &);
// Of vectors that all were loaded, whose values and residuals on their links are known: throws where they are not
// orthogonal, and notes whether they are eigenvectors. name: of what they come from.
void look_at_loaded(milcgpu_eigenvectors &, const std::string &name, const NormalOperator &A);
// Why these links cannot take them; empty: they can. Of links of another content some vectors are looked at.
std::string why_not_of(milcgpu_eigenvectors &, milcgpu_links &);
constexpr const char *changed_eigenvectors =
    "the eigenvectors are no longer what was made or loaded: a bit flipped, or "
    "somebody wrote there. They are empty now";
// Whether so many vectors from `first` on still have their checksums, on all ranks. If not, the handle is empty.
bool are_whole(milcgpu_eigenvectors &, int first, int count);
// The same after a deflated call: of all vectors where they did harm, else of a few, others each time.
bool are_whole_after(milcgpu_eigenvectors &, bool did_harm);
// |B v - l v| / |v| and |v| of the first `count` vectors as they are, in double, with l from `values`. parity:
// MILCGPU_EVEN or MILCGPU_ODD; on the other one than the vectors' they are D v / |D v| with `links_of_other`.
milcgpu_status look_at_eigenvectors(milcgpu_eigenvectors *, milcgpu_links *, milcgpu_links *links_of_other, int parity,
                                    int count, const double *values, double *residuals, double *norms);
// Makes a handle with D v / |D v| for each vector, which are of the other parity.
milcgpu_status other_parity_of(milcgpu_eigenvectors *, milcgpu_links *, milcgpu_eigenvectors **made);
// Those of the first `count` vectors to the host's fields, in double on the way.
milcgpu_status other_parity_to_host(milcgpu_eigenvectors *, milcgpu_links *, int count, const milcgpu_field *fields);

} // namespace milcgpu
