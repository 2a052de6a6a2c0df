// Eigenvectors of -D^2 that no fields of MILC's have, on the device: a set for links of each content and each parity.
// Solves of these links are deflated with them.
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/plugin/link_cache.h"
#include <memory>
#include <vector>

namespace milcgpu {

class KeptEigenvectors {
  public:
    struct Set {
        uint64_t content; // of the links, on this rank
        int parity;
        bool exact;                   // to a tolerance, not as deflation needs them
        milcgpu_eigenvectors *handle; // nullptr: they could not be made
        long used;
        bool said; // that they are not taken
    };

    KeptEigenvectors(Collective &collective, milcgpu_context *context) : collective_(collective), context_(context) {}
    ~KeptEigenvectors() { drop_all(); }
    KeptEigenvectors(const KeptEigenvectors &) = delete;
    KeptEigenvectors &operator=(const KeptEigenvectors &) = delete;

    // What was made, or tried, for links of this content on this parity, on all ranks; nullptr: nothing. All ranks call
    // it.
    Set *of(const LinkSet &links, int parity);
    // l of the last vector of the newest set on this parity; 0: there is none.
    double last_value(int parity) const;
    // Puts a set in place of what these links had.
    Set &keep(const LinkSet &links, int parity, bool exact, milcgpu_eigenvectors *handle);
    // Sets of other links go, the oldest first, until so many bytes are free.
    void make_room(size_t bytes, const LinkSet &links);
    bool drop_others();            // than those that were asked for last. Whether there were any
    void forget_vectors(Set &set); // they are not made again
    void drop_all();

  private:
    static constexpr size_t most_sets = 2 * most_link_sets; // both parities
    bool drop_oldest(long last_used_until);
    void erase(const Set &set);
    Collective &collective_;
    milcgpu_context *context_;
    std::vector<std::unique_ptr<Set>> sets_;
    long clock_ = 0;
};

} // namespace milcgpu
