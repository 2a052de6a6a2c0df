#include "milc_glue/residency/vector_store.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/context.h"
#include "milc_glue/host/host_memory.h"
#include "milc_glue/links/vectors.h"
#include <algorithm>
#include <cmath>
#include <new>

namespace milcgpu {

void VectorStore::open(const MilcSide &milc, milcgpu_context *context, bool keeps_copies) {
    milc_ = &milc;
    context_ = context;
    keeps_copies_ = keeps_copies;
    most_copies_ = 0;
}

void VectorStore::close() {
    free_deferred();
    free_slots();
    rows_.clear();
    for (const std::weak_ptr<DeviceVectors> &vectors : all_)
        if (const auto alive = vectors.lock())
            alive->release();
}

milcgpu_status VectorStore::empty(Vectors &made, int count) {
    all_.remove_if([](const std::weak_ptr<DeviceVectors> &vectors) { return vectors.expired(); });
    made = std::make_shared<DeviceVectors>(context_, milc_->real(), count);
    all_.push_back(made);
    return made->status();
}

void VectorStore::free_slots() {
    for (Vectors &slot : slots_)
        slot.reset();
}

milcgpu_status VectorStore::with_content(const void *field, Vectors &found, uint64_t &moved) {
    const Mirror here = mirror_of(field);
    return with_tag(here, keeps_copies_ ? here.tag_now() : Mirror::Tag{}, found, moved);
}

milcgpu_status VectorStore::hold(const void *field, Held &held, uint64_t &moved) {
    held.field = mirror_of(field);
    const Mirror::Tag tag = held.field.tag_now();
    held.field.both_have(tag);
    return with_tag(held.field, tag, held.vectors, moved);
}

bool VectorStore::Held::is_on_host() const {
    const HostRecords &at = field.field();
    return is_mapped(at.data, at.count * at.pitch) && field.is_untouched();
}

// Runs inside any call that allocates: it allocates nothing on the device, and enters no call of the C interface.
// MILC's own field does not count: MILC may change it later.
bool VectorStore::has_on_host(Held &held) const {
    if (held.copy != nullptr && held.is_on_host())
        return true;
    std::unique_ptr<unsigned char[]> copy(new (std::nothrow) unsigned char[field_bytes()]);
    if (copy == nullptr)
        return false;
    const milcgpu_vectors &from = *held.vectors->vector().of;
    const size_t bytes = milc_->bytes_of(6);
    try {
        for (const int parity : {0, 1}) {
            need_filled(from, 0, 1, parity);
            context_->reorder->to_host(from.parity[parity][0], parity,
                                       {copy.get(), from.parity[parity].precision(), bytes});
        }
    } catch (const std::exception &) {
        return false; // whoever needs the vector finds out why
    }
    const HostRecords before = held.field.field();
    held.field.lies_at({copy.get(), before.count, before.bytes, before.pitch});
    if (!held.field.is_untouched()) {
        held.field.lies_at(before);
        return false;
    }
    held.copy = std::move(copy);
    return true;
}

bool VectorStore::leave_to_host(const std::vector<Held *> &all) {
    for (Held *const one : all) {
        const DeviceVectors *const vectors = one->vectors.get();
        const auto same = [&](const Held *held) { return held->vectors.get() == vectors; };
        const auto row_has = [&](const Row &row) { return row.vectors.get() == vectors; };
        if (!one->is_there() || one->vectors.use_count() != std::count_if(all.begin(), all.end(), same) +
                                                                std::count_if(rows_.begin(), rows_.end(), row_has))
            continue;
        if (!std::all_of(all.begin(), all.end(), [&](Held *held) { return !same(held) || has_on_host(*held); }))
            continue;
        rows_.remove_if(row_has);
        for (Held *const held : all)
            if (same(held))
                held->vectors.reset();
        return true;
    }
    return false;
}

milcgpu_status VectorStore::with_tag(const Mirror &here, const Mirror::Tag &tag, Vectors &found, uint64_t &moved) {
    for (Row &row : rows_)
        if (is_copy(row) && row.mirror.has(tag)) {
            row.used = ++clock_;
            found = row.vectors;
            return MILCGPU_OK;
        }
    const milcgpu_status status = loaded(here.field().data, found, moved);
    if (status == MILCGPU_OK)
        keep(found, here, tag);
    return status;
}

milcgpu_status VectorStore::loaded(const void *field, Vectors &made, uint64_t &moved) {
    milcgpu_status status = empty(made);
    const milcgpu_field from = {const_cast<void *>(field), milc_->real(), 0};
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        if (status == MILCGPU_OK)
            status = milcgpu_vectors_load(made->vector().of, 0, parity, &from);
    if (status == MILCGPU_OK)
        moved += field_bytes();
    return status;
}

milcgpu_status VectorStore::deliver(const Vectors &made, const milcgpu_field &to, uint64_t &moved) {
    const milcgpu_status status = milcgpu_vectors_save(made->vector().of, 0, MILCGPU_EVEN + MILCGPU_ODD, &to);
    if (status != MILCGPU_OK)
        return status;
    moved += field_bytes();
    if (keeps_copies_)
        keep(made, mirror_of(to.data), mirror_of(to.data).tag_now());
    return MILCGPU_OK;
}

void VectorStore::keep(const Vectors &vectors, Mirror mirror, const Mirror::Tag &tag) {
    if (!keeps_copies_)
        return;
    constexpr size_t share = 4; // of the memory that is free when the first copy is kept
    if (most_copies_ == 0)
        most_copies_ = std::max<size_t>(1, context_->device->free_bytes() / (share * field_bytes()));
    rows_.remove_if([&](const Row &row) { return is_copy(row) && row.mirror.has(tag); });
    while (copies() >= most_copies_)
        if (!drop_oldest())
            return;
    mirror.both_have(tag);
    rows_.push_back({{}, mirror, vectors, 0, ++clock_});
}

size_t VectorStore::copies() const {
    return std::count_if(rows_.begin(), rows_.end(), [&](const Row &row) { return is_copy(row); });
}

bool VectorStore::drop_oldest() {
    auto oldest = rows_.end();
    for (auto row = rows_.begin(); row != rows_.end(); ++row)
        if (is_copy(*row) && row->vectors.use_count() == 1 && (oldest == rows_.end() || row->used < oldest->used))
            oldest = row;
    if (oldest == rows_.end())
        return false;
    rows_.erase(oldest);
    return true;
}

void VectorStore::drop_copies() {
    rows_.remove_if([&](const Row &row) { return is_copy(row); });
}

void VectorStore::begin(int most) {
    end();
    if (block_ != nullptr && block_->count() < most)
        free_deferred();
    most_deferred_ = most;
}

void VectorStore::end() {
    most_deferred_ = 0;
    table_.drop(MILCGPU_SOLUTIONS);
    rows_.remove_if([&](const Row &row) { return is_deferred(row); });
}

void VectorStore::free_deferred() {
    end();
    block_.reset();
}

// Fields keep their numbers, which are the same on all ranks: another rank may keep its memory.
void VectorStore::free_unused() {
    if (block_ != nullptr && !table_.has(MILCGPU_SOLUTIONS))
        block_->release();
}

VectorStore::Row *VectorStore::deferred_row(const milcgpu_field &field) {
    for (Row &row : rows_)
        if (is_deferred(row) && row.field.data == field.data && field.pitch_bytes == 0)
            return &row;
    return nullptr;
}

int VectorStore::held_parities(const void *field) const {
    const DeferredValues::Value *const value = std::as_const(table_).find(MILCGPU_SOLUTIONS, field);
    return value != nullptr ? value->parities : 0;
}

int VectorStore::number_of(const milcgpu_field &field) {
    const Row *const row = deferred_row(field);
    return row != nullptr ? row->number : -1;
}

int VectorStore::take(const milcgpu_field *fields, int n) {
    const auto rows = std::count_if(rows_.begin(), rows_.end(), [&](const Row &row) { return is_deferred(row); });
    const int size = static_cast<int>(rows), known = number_of(fields[0]), first = known < 0 ? size : known;
    if (first + n > most_deferred_)
        return -1;
    for (int i = 0; i < n; ++i)
        if (fields[i].pitch_bytes != 0 || fields[i].data == nullptr ||
            number_of(fields[i]) != (first + i < size ? first + i : -1))
            return -1;
    const milcgpu_status there = block_ == nullptr                ? empty(block_, most_deferred_)
                                 : block_->vector().of == nullptr ? block_->allocate(context_, milc_->real())
                                                                  : MILCGPU_OK;
    if (there != MILCGPU_OK) {
        free_deferred();
        return -1;
    }
    for (int i = size - first; i < n; ++i)
        rows_.push_back({fields[i], {}, block_, first + i});
    return first;
}

int VectorStore::held(const milcgpu_field *fields, int n, int parities) {
    const int first = n > 0 ? number_of(fields[0]) : -1;
    for (int i = 0; i < n; ++i)
        if (first < 0 || number_of(fields[i]) != first + i || (held_parities(fields[i].data) & parities) != parities)
            return -1;
    return first;
}

void VectorStore::now_holds(const milcgpu_field &field, int parity, bool poison) {
    if (DeferredValues::Value *const known = table_.find(MILCGPU_SOLUTIONS, field.data)) {
        known->parities |= parity;
    } else {
        DeferredValues::Value value{MILCGPU_SOLUTIONS, {field.data}};
        value.parities = parity;
        value.maker = std::make_shared<DeferredValues::Maker>();
        value.maker->make = [this, field](const DeferredValues::Value &made) { copy_to_host(field, made.parities); };
        table_.add(std::move(value));
    }
    if (poison)
        part_of(field, parity).device_wrote(true);
}

void VectorStore::holds_no_more(const milcgpu_field &field, int parities) {
    Row *const row = deferred_row(field);
    if (row != nullptr && row->solution && (row->solution->parity & parities) != 0)
        row->solution.reset();
    DeferredValues::Value *const value = table_.find(MILCGPU_SOLUTIONS, field.data);
    if (value != nullptr && (value->parities &= ~parities) == 0)
        table_.drop(MILCGPU_SOLUTIONS, field.data);
}

void VectorStore::copy_to_host(const milcgpu_field &field, int parities) {
    const int number = number_of(field);
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        if ((parities & parity) != 0)
            if (const milcgpu_status status = milcgpu_vectors_save(deferred(), number, parity, &field);
                status != MILCGPU_OK)
                throw Error(static_cast<Status>(status),
                            format("solutions are on the device and %s: %s",
                                   status == MILCGPU_DEVICE_LOST ? "lost" : "could not be copied",
                                   milcgpu_last_error()));
}

void VectorStore::remember(const milcgpu_plugin_multi_mass_call &call, uint64_t links, bool zero_source,
                           const milcgpu_shift_report *shifts) {
    forget_solutions();
    Mirror source = part_of(call.source, call.parity);
    if (call.source.pitch_bytes != 0) { // a member of MILC's sites: nobody writes it while ks_ratinv refines solutions
        source.both_have(Mirror::Tag{});
        source.look_next(Mirror::Look::none);
    } else {
        source.both_have();
    }
    for (int i = 0; i < call.n_shifts; ++i) {
        if (shifts[i].status != MILCGPU_OK)
            continue;
        const milcgpu_field &field = call.solutions[i];
        Row *row = (held_parities(field.data) & call.parity) != 0 ? deferred_row(field) : nullptr;
        if (row == nullptr) {
            rows_.push_back({field, part_of(field, call.parity)});
            row = &rows_.back();
            row->mirror.both_have();
        }
        row->solution = {source, call.parity, 0.5 * std::sqrt(call.offsets[i]), links, zero_source, shifts[i]};
    }
}

const VectorStore::Solution *VectorStore::solved(const milcgpu_plugin_solve_call &call) const {
    const double rounding = milc_->in_double() ? 1e-13 : 1e-6; // between MILC's offset and its mass
    const void *const source = milc_->parity_of(call.source, call.parity).data;
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row &row) {
        const auto &of = row.solution;
        return of && row.field.data == call.solution.data && row.field.pitch_bytes == call.solution.pitch_bytes &&
               of->source.is_at(source) && of->parity == call.parity &&
               std::fabs(of->mass - call.mass) <= rounding * of->mass &&
               (call.tolerance <= 0 || of->report.true_residual < call.tolerance) &&
               (call.relative_tolerance <= 0 || of->report.relative_residual < call.relative_tolerance);
    });
    const bool is_there =
        found != rows_.end() &&
        (is_deferred(*found) ? (held_parities(call.solution.data) & call.parity) != 0 : found->mirror.is_same());
    return is_there && found->solution->source.is_same() ? &*found->solution : nullptr;
}

void VectorStore::forget_solutions() {
    rows_.remove_if([](const Row &row) { return row.vectors == nullptr; });
    for (Row &row : rows_)
        row.solution.reset();
}

} // namespace milcgpu
