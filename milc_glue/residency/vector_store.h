// Vectors that stay on the device between MILC's calls, in one table. A row has a field of MILC's, the hash of its
// content (mirror.h), the device's vector, and what the field is a solution of:
//
//   copies     A routine has read or made this field. The next routine that reads the same content, at whatever
//              address, uses the device's vector. MILC's field is always filled, so nothing is lost with the row.
//   deferred   From begin() to end() solutions stay on the device on their way to a sum, to D, the fermion force or
//              M^dag. MILC's fields are not filled: the table of deferred values (deferred.h) says on which parities.
//              Until end() all readers are known. Any other reader calls to_host() first.
//   solutions  A multi-mass call has refined this field. MILC asks for it again, by a solve of one mass. The vector is
//              a deferred one, or the host alone has the solution.
//
// A field of 21 MB (24^3 x 32) takes a core 1.1 ms to hash, and the bus 0.4 ms to copy: copies pay with several cores.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/residency/deferred.h"
#include "milc_glue/residency/milc_side.h"
#include "milc_glue/residency/mirror.h"
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace milcgpu {

// One vector on the device, or several that belong together, on both parities.
class DeviceVectors {
  public:
    DeviceVectors(milcgpu_context *context, int real, int count) : count_(count) { allocate(context, real); }
    ~DeviceVectors() { release(); }
    DeviceVectors(const DeviceVectors &) = delete;
    DeviceVectors &operator=(const DeviceVectors &) = delete;
    milcgpu_status allocate(milcgpu_context *context, int real) { // also after release()
        return status_ = milcgpu_vectors_create(context, real, count_, &handle_);
    }
    milcgpu_status status() const { return status_; } // of the allocation
    int count() const { return count_; }
    milcgpu_vector vector() const { return {handle_, 0}; }                       // of nullptr: the context has gone
    void release() { milcgpu_vectors_destroy(std::exchange(handle_, nullptr)); } // before its context goes

  private:
    milcgpu_vectors *handle_ = nullptr;
    int count_;
    milcgpu_status status_ = MILCGPU_OK;
};

class VectorStore {
  public:
    using Vectors = std::shared_ptr<DeviceVectors>;
    // What a field is the solution of.
    struct Solution {
        Mirror source; // the sites of `parity`
        int parity;
        double mass;
        uint64_t links; // LinkSet::content()
        bool zero_source;
        milcgpu_shift_report report;
    };

    explicit VectorStore(DeferredValues &deferred) : table_(deferred) {}
    VectorStore(const VectorStore &) = delete;
    VectorStore &operator=(const VectorStore &) = delete;
    void open(const MilcSide &milc, milcgpu_context *context, bool keeps_copies);
    void close(); // frees all vectors, including those in use

    // Creates vectors that no row has.
    milcgpu_status empty(Vectors &made, int count = 1);
    // Vectors that one call of a routine fills and its next calls read, by number.
    Vectors &slot(int number) { return slots_[number]; }
    void free_slots();

    bool keeps_copies() const { return keeps_copies_; } // else every call loads what it reads
    // Finds or loads a vector with the content of the host's field, without the other ranks. Adds the bytes that it
    // copies to `moved`.
    milcgpu_status with_content(const void *field, Vectors &found, uint64_t &moved);
    // A vector with the content that a field had at hold(), whatever becomes of the field.
    struct Held {
        Vectors vectors;
        Mirror field;                          // MILC's, or `copy`
        std::unique_ptr<unsigned char[]> copy; // made when the vector left the device
        // True if the device still has the vector.
        bool is_there() const { return vectors != nullptr && vectors->vector().of != nullptr; }
        // True if the field still has the content. MILC may have changed or freed its own.
        bool is_on_host() const;
    };
    milcgpu_status hold(const void *field, Held &held, uint64_t &moved);
    // Takes one vector that no call works with from the device; the host has its content then. all: all that are held.
    // Returns false if it found no such vector.
    bool leave_to_host(const std::vector<Held *> &all);
    // Loads a vector that the caller may change in place: it is not kept.
    milcgpu_status loaded(const void *field, Vectors &made, uint64_t &moved);
    // Copies the vector to the host's field and keeps it: the caller must not change it any more.
    milcgpu_status deliver(const Vectors &made, const milcgpu_field &to, uint64_t &moved);
    // Drops the copy that was used longest ago, among those that no call works with. Returns false if it found no such
    // copy.
    bool drop_oldest();
    void drop_copies();
    size_t copies() const;

    void begin(int most); // deferred solutions, at a time
    void end();
    void free_deferred(); // the memory, too
    void free_unused();   // the memory of deferred solutions while there are none; not while a call solves for some
    bool defers() const { return most_deferred_ > 0; } // the same on all ranks between calls
    milcgpu_vectors *deferred() const { return block_ != nullptr ? block_->vector().of : nullptr; }
    // Returns the first of the successive numbers that these fields have, or now get. -1: their solutions go to the
    // host, because there are too many, or because memory is short.
    int take(const milcgpu_field *fields, int n);
    // The first number, if the device alone has all of these fields on these parities; else -1.
    int held(const milcgpu_field *fields, int n, int parities);
    void now_holds(const milcgpu_field &field, int parity, bool poison); // poison: MILC's becomes NaN there, for tests
    // MILC's field is filled there, or the device is about to write the vector.
    void holds_no_more(const milcgpu_field &field, int parities);
    // Fills MILC's field with a solution that the device alone has. Throws Error if that fails; it stays deferred then.
    void to_host(const void *field) { table_.fulfil(MILCGPU_SOLUTIONS, field); }
    void all_to_host() { table_.fulfil(MILCGPU_SOLUTIONS); }

    // Notes the solutions of this call, and forgets those of the call before.
    void remember(const milcgpu_plugin_multi_mass_call &call, uint64_t links, bool zero_source,
                  const milcgpu_shift_report *shifts);
    // The solution that the call asks for, if source and solution are at the same places with the same contents. The
    // caller compares the links. nullptr: not known.
    const Solution *solved(const milcgpu_plugin_solve_call &call) const;
    void forget_solutions();

  private:
    struct Row {
        milcgpu_field field;
        Mirror mirror{};   // of a copy, or of a solution that the host has, on its parity
        Vectors vectors{}; // nullptr: a solution that the host alone has
        int number = 0;    // of a deferred solution in block_
        long used = 0;     // of a copy
        std::optional<Solution> solution{};
    };
    bool is_deferred(const Row &row) const { return row.vectors != nullptr && row.vectors == block_; }
    bool is_copy(const Row &row) const { return row.vectors != nullptr && row.vectors != block_; }
    Row *deferred_row(const milcgpu_field &field);
    int number_of(const milcgpu_field &field); // in block_; -1: not a deferred solution
    int held_parities(const void *field) const;
    size_t field_bytes() const { return milc_->sites * milc_->bytes_of(6); }
    Mirror mirror_of(const void *field) const {
        const size_t bytes = milc_->bytes_of(6);
        return {{field, static_cast<size_t>(milc_->sites), bytes, bytes}, Mirror::Look::whole};
    }
    Mirror part_of(const milcgpu_field &field, int parity) const {
        return {milc_->parity_of(field, parity), Mirror::Look::whole};
    }
    milcgpu_status with_tag(const Mirror &here, const Mirror::Tag &tag, Vectors &found, uint64_t &moved);
    void keep(const Vectors &vectors, Mirror mirror, const Mirror::Tag &tag);
    void copy_to_host(const milcgpu_field &field, int parities);
    bool has_on_host(Held &held) const;

    DeferredValues &table_;
    const MilcSide *milc_ = nullptr;
    milcgpu_context *context_ = nullptr;
    std::list<Row> rows_;
    bool keeps_copies_ = false;
    size_t most_copies_ = 0; // 0: not known yet
    long clock_ = 0;
    int most_deferred_ = 0;
    Vectors block_; // of all deferred solutions
    Vectors slots_[4];
    std::list<std::weak_ptr<DeviceVectors>> all_; // in use or kept
};

} // namespace milcgpu
