// The entries of the table of deferred values (deferred.h). They answer in a child of fork(), too, where MILC's own
// routines make the values.
#include "milc_glue/routines/state.h"
#include <algorithm>

using namespace milcgpu;

namespace {

constexpr const char *name = "deferred fields";

// Returns work(table), or `otherwise`, after a line in the log, if work() throws.
template <class Answer, class Work> Answer with_table(Answer otherwise, const char *after, const Work &work) noexcept {
    try {
        return static_cast<Answer>(work(plugin().deferred));
    } catch (...) {
        say_thrown(name, after);
        return otherwise;
    }
}

constexpr const char *lost = "MILC cannot go on";

// The version of an input that a new value is made of: only the gauge field has one.
unsigned long version_of(const Plugin &p, const void *input) {
    return input == nullptr && p.gauge != nullptr ? p.gauge->links_version() : 0;
}

} // namespace

extern "C" {

int milcgpu_plugin_defer(const milcgpu_plugin_deferral *of) {
    return with_table(0, "It is made now", [&](DeferredValues &table) {
        std::vector<DeferredValues::Input> inputs;
        for (int k = 0; k < of->n_inputs; ++k)
            inputs.push_back({of->inputs[k], version_of(plugin(), of->inputs[k])});
        const auto make = of->make;
        const auto drop = of->drop;
        void *const self = of->self;
        const auto maker = std::make_shared<DeferredValues::Maker>();
        maker->make = [make, self](const DeferredValues::Value &first) {
            make(self, const_cast<void *>(first.fields.front()));
        };
        if (drop != nullptr)
            maker->drop = [drop, self](const void *field) { drop(self, field); };
        maker->self = self;
        const std::vector<const void *> fields(of->fields, of->fields + of->n_fields);
        table.add(of->kind, fields, inputs, maker);
        if (drop != nullptr) // last: until then `self` is the caller's
            maker->end = [drop, self] { drop(self, nullptr); };
        return true;
    });
}

int milcgpu_plugin_is_deferred(int kinds, const void *field) { return plugin().deferred.find(kinds, field) != nullptr; }

void *milcgpu_plugin_deferred_self(int kinds, const void *field) {
    const DeferredValues::Value *const value = plugin().deferred.find(kinds, field);
    return value != nullptr && value->maker != nullptr ? value->maker->self : nullptr;
}

int milcgpu_plugin_fulfil(int kinds, const void *field) {
    return with_table(-1, lost, [&](DeferredValues &table) { return table.fulfil(kinds, field); });
}

int milcgpu_plugin_before_change(const void *field) {
    return with_table(-1, lost, [&](DeferredValues &table) { return table.before_change(field); });
}

int milcgpu_plugin_hand_out(int kinds, const void *field) {
    return with_table(-1, lost, [&](DeferredValues &table) { return table.hand_out(kinds, field); });
}

void milcgpu_plugin_drop_deferred(int kinds, const void *field) {
    if ((kinds & MILCGPU_SOURCE) != 0) // the end of ks_ratinv
        plugin().vectors.forget_solutions();
    with_table(0, lost, [&](DeferredValues &table) { return table.drop(kinds, field), 0; });
}

int milcgpu_plugin_inputs_hold(void) {
    const Plugin &p = plugin();
    const std::list<DeferredValues::Value> *const made = p.deferred.being_made();
    return made == nullptr || p.gauge == nullptr ||
           std::none_of(made->begin(), made->end(), [&](const DeferredValues::Value &value) {
               return std::any_of(value.inputs.begin(), value.inputs.end(), [&](const DeferredValues::Input &input) {
                   return input.field == nullptr && p.gauge->links_changed(input.version);
               });
           });
}

} // extern "C"
