// Message passing by the caller's table, and the limit of waits for it.
#include "milc_glue/api/sized.h"
#include "milc_glue/api/start_context.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace milcgpu {

namespace {

class LentMessages : public Messenger {
  public:
    LentMessages(const milcgpu_messages &table, size_t most_bytes) : table_(table), most_bytes_(most_bytes) {}
    int start(const Message *messages, int count, void *&handle) override {
        std::vector<milcgpu_message> list; // in pieces, which arrive in order
        for (const Message *m = messages; m != messages + count; ++m)
            for (size_t at = 0; at < m->bytes; at += most_bytes_)
                list.push_back({m->peer, m->send != nullptr ? static_cast<const char *>(m->send) + at : nullptr,
                                m->receive != nullptr ? static_cast<char *>(m->receive) + at : nullptr,
                                std::min(m->bytes - at, most_bytes_), m->tag});
        try {
            return table_.start(table_.user, static_cast<int>(list.size()), list.data(), &handle);
        } catch (...) { // an exception does not pass through C
            return threw;
        }
    }
    OnDevice on_device() const override {
        return {table_.gpu_memory != 0, table_.gpu_memory_by != nullptr ? table_.gpu_memory_by : ""};
    }
    int test(void *handle, bool &done) override {
        int is_done = 0;
        try {
            const int code = table_.test(table_.user, handle, &is_done);
            done = is_done != 0;
            return code;
        } catch (...) {
            return threw;
        }
    }

  private:
    static constexpr int threw = -1; // a code of the table's functions that is not 0
    milcgpu_messages table_;
    size_t most_bytes_;
};

} // namespace

std::optional<double> seconds_of(const std::string &text) {
    const CLocale with_points;
    char *end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    if (*end != '\0' || !std::isfinite(seconds) || seconds <= 0)
        return {};
    return seconds;
}

double time_limit() {
    const char *text = std::getenv("MILCGPU_TIMEOUT");
    return seconds_of(text != nullptr ? text : "").value_or(Ranks::default_time_limit);
}

milcgpu_messages whole_table(const milcgpu_messages *given) { return full_copy(given); }

std::unique_ptr<Ranks> ranks_of(const milcgpu_messages *given, size_t most_bytes) {
    if (given == nullptr)
        return std::make_unique<Ranks>();
    const milcgpu_messages whole = whole_table(given), *const table = &whole;
    if (table->size < 1 || table->rank < 0 || table->rank >= table->size)
        refuse(format("layout.messages: rank %d of %d: ranks are 0 to size - 1", table->rank, table->size));
    if (table->node_rank < 0 || table->node_rank >= table->node_size)
        refuse(format("layout.messages of rank %d of %d: node_rank %d of node_size %d: must be 0 to node_size - 1",
                      table->rank, table->size, table->node_rank, table->node_size));
    if (table->size > 1 && (table->start == nullptr || table->test == nullptr))
        refuse(format("layout.messages of rank %d of %d: %s is NULL", table->rank, table->size,
                      table->start == nullptr ? "start" : "test"));
    if (table->gpu_memory != 0 && table->gpu_memory != 1)
        refuse(format("layout.messages of rank %d of %d: gpu_memory is %d: must be 0 or 1", table->rank, table->size,
                      table->gpu_memory));
    return std::make_unique<Ranks>(table->rank, table->size, std::make_unique<LentMessages>(*table, most_bytes));
}

} // namespace milcgpu
