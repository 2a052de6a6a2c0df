#include "milc_glue/residency/deferred.h"
#include "gpu_kernels/machine/error.h"
#include <algorithm>

namespace milcgpu {

namespace {

bool has_field(const DeferredValues::Value &value, const void *field) {
    return std::find(value.fields.begin(), value.fields.end(), field) != value.fields.end();
}

bool has_input(const DeferredValues::Value &value, const void *input) {
    return std::any_of(value.inputs.begin(), value.inputs.end(), [&](const auto &one) { return one.field == input; });
}

bool is_one(const DeferredValues::Value &value, int kinds, const void *field) {
    return (value.kind & kinds) != 0 && (field == nullptr || has_field(value, field));
}

} // namespace

void DeferredValues::add(Value value) {
    for (const void *field : value.fields)
        drop(value.kind, field);
    values_.push_back(std::move(value));
}

void DeferredValues::add(int kind, const std::vector<const void *> &fields, const std::vector<Input> &inputs,
                         const std::shared_ptr<Maker> &maker) {
    std::vector<std::vector<Input>> copies(fields.size(), inputs);
    std::list<Value> added;
    for (const void *field : fields)
        if (find(kind, field) == nullptr)
            added.push_back({kind, {field}});
    values_.splice(values_.end(), added);
    for (size_t k = 0; k < fields.size(); ++k) {
        Value &value = *find(kind, fields[k]);
        value.inputs.swap(copies[k]);
        value.maker = maker;
    }
}

DeferredValues::Value *DeferredValues::find(int kinds, const void *field) {
    const auto found = std::find_if(values_.begin(), values_.end(), [&](const Value &value) {
        return (value.kind & kinds) != 0 && has_field(value, field);
    });
    return found != values_.end() ? &*found : nullptr;
}

bool DeferredValues::has(int kinds) const {
    return std::any_of(values_.begin(), values_.end(), [&](const Value &value) { return (value.kind & kinds) != 0; });
}

bool DeferredValues::is_being_made(const void *field) const {
    for (const Making *making = making_; making != nullptr; making = making->before)
        for (const Value &value : making->values)
            if (has_field(value, field))
                return true;
    return false;
}

// Allocates nothing, and keeps values whose maker throws: no value is lost if memory is short. A maker may defer other
// values, but not without end.
bool DeferredValues::fulfil_all(const Which &which) {
    bool any = false;
    for (size_t passes = 0, most = 8 * (values_.size() + 1);; ++passes) {
        const auto first = std::find_if(values_.begin(), values_.end(),
                                        [&](const Value &value) { return value.maker != nullptr && which(value); });
        if (first == values_.end())
            return any;
        if (passes == most)
            throw Error(Status::corrupted, "deferred fields are deferred again each time that they are made");
        any = true;
        const std::shared_ptr<Maker> maker = first->maker;
        struct Scope {
            const Making *&innermost;
            Making making;
            ~Scope() { innermost = making.before; }
        } scope{making_, {{}, making_}};
        for (auto value = values_.begin(); value != values_.end();) {
            const auto next = std::next(value);
            if (value->maker == maker)
                scope.making.values.splice(scope.making.values.end(), values_, value);
            value = next;
        }
        making_ = &scope.making;
        try {
            maker->make(scope.making.values.front());
        } catch (...) {
            values_.splice(values_.begin(), scope.making.values);
            throw;
        }
    }
}

bool DeferredValues::fulfil(int kinds, const void *field) {
    return fulfil_all([&](const Value &value) { return is_one(value, kinds, field); });
}

// To fill a field with its own value is no change.
bool DeferredValues::before_change(const void *input) {
    return !is_being_made(input) && fulfil_all([&](const Value &value) { return has_input(value, input); });
}

void DeferredValues::drop_all(const Which &which, const void *field) {
    for (auto value = values_.begin(); value != values_.end();) {
        const auto next = std::next(value);
        if (which(*value)) {
            if (value->maker != nullptr && value->maker->drop)
                value->maker->drop(field != nullptr ? field : value->fields.front());
            values_.erase(value);
        }
        value = next;
    }
}

void DeferredValues::drop(int kinds, const void *field) {
    drop_all([&](const Value &value) { return is_one(value, kinds, field); }, field);
}

void DeferredValues::drop_without_maker() {
    drop_all([](const Value &value) { return value.maker == nullptr; }, nullptr);
}

} // namespace milcgpu
