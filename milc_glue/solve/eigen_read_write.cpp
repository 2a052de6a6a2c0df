// Eigenvectors from files and to files, over ranks: rank 0 has the file and one whole vector, each rank its box of it.
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/api/arguments.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/eigen_file.h"
#include "milc_glue/solve/eigen_handle.h"
#include <cstring>

using namespace milcgpu;

namespace {

// Calls body(place in the file's vector, place in the box, number of sites) for each row along x of the box's sites of
// a parity.
template <class Body> void rows_of(const Box &box, int parity, const Body &body) {
    const auto &n = box.extent, &at = box.origin;
    size_t own = 0;
    for (int t = at[3]; t < at[3] + n[3]; ++t)
        for (int z = at[2]; z < at[2] + n[2]; ++z)
            for (int y = at[1]; y < at[1] + n[1]; ++y) {
                const int first = (at[0] + y + z + t + parity) % 2;
                const size_t row = y + size_t(box.whole[1]) * (z + size_t(box.whole[2]) * t),
                             sites = (n[0] - first + 1) / 2;
                body((at[0] + first + box.whole[0] * row) / 2, own, sites);
                own += sites;
            }
}

// A vector on the host: whole on rank 0, and each rank's box.
class SpreadVector {
  public:
    SpreadVector(milcgpu_context &context, int parity, Precision real)
        : context_(context), ranks_(*context.ranks), parity_(parity), real_(real), record_(6 * real_bytes(real)),
          boxes_(ranks_.gathered("boxes of a vector", context.box)), buffers_(std::make_shared<Buffers>()) {
        context.device->collective("host memory for an eigenvector", [&] {
            buffers_->box.reset(new unsigned char[context.geometry.volume() * record_]);
            if (ranks_.size() == 1 || ranks_.rank() != 0)
                return;
            buffers_->whole.reset(new unsigned char[size_t(context.geometry.global_volume()) / 2 * record_]);
            for (const Box &box : boxes_)
                buffers_->parts.emplace_back(new unsigned char[bytes_of(box)]);
        });
        if (context.map.data() != nullptr) // whose order is not that of the file
            context.device->collective("memory for an eigenvector", [&] {
                straight_ = std::make_unique<SpinorReorder>(*context.device, identity_, context.geometry);
            });
    }
    void *whole() { return ranks_.size() == 1 ? own() : buffers_->whole.get(); } // on rank 0
    void to_device(const SpinorBlock &to) {
        if (ranks_.size() > 1 && ranks_.rank() == 0)
            for (int rank = 0; rank < ranks_.size(); ++rank)
                rows_of(boxes_[rank], parity_, [&](size_t in_whole, size_t in_part, size_t sites) {
                    std::memcpy(part_of(rank) + in_part * record_, buffers_->whole.get() + in_whole * record_,
                                sites * record_);
                });
        exchange(false);
        context_.device->collective("the copy of an eigenvector", [&] { reorder().to_device(box(), parity_, to); });
    }
    void to_host(const SpinorBlock &from) {
        context_.device->collective("the copy of an eigenvector", [&] { reorder().to_host(from, parity_, box()); });
        exchange(true);
        if (ranks_.size() > 1 && ranks_.rank() == 0)
            for (int rank = 0; rank < ranks_.size(); ++rank)
                rows_of(boxes_[rank], parity_, [&](size_t in_whole, size_t in_part, size_t sites) {
                    std::memcpy(buffers_->whole.get() + in_whole * record_, part_of(rank) + in_part * record_,
                                sites * record_);
                });
    }

  private:
    struct Buffers {
        std::unique_ptr<unsigned char[]> box, whole;
        std::vector<std::unique_ptr<unsigned char[]>> parts;
    };
    HostField box() { return {buffers_->box.get(), real_, record_}; }
    SpinorReorder &reorder() { return straight_ ? *straight_ : *context_.reorder; }
    unsigned char *own() { // this rank's sites of the parity
        return buffers_->box.get() + (parity_ == 0 ? 0 : context_.geometry.sites(0) * record_);
    }
    unsigned char *part_of(int rank) { return rank == 0 ? own() : buffers_->parts[rank].get(); }
    size_t bytes_of(const Box &box) const {
        size_t all = 0;
        rows_of(box, parity_, [&](size_t, size_t, size_t sites) { all += sites; });
        return all * record_;
    }
    void exchange(bool to_first) {
        std::vector<Message> messages;
        const auto add = [&](int peer, unsigned char *data, const Box &box, bool sends) {
            messages.push_back({peer, sends ? data : nullptr, sends ? nullptr : data, bytes_of(box), 0, "of the file"});
        };
        if (ranks_.rank() != 0)
            add(0, own(), boxes_[ranks_.rank()], to_first);
        else
            for (int rank = 1; rank < ranks_.size(); ++rank)
                add(rank, part_of(rank), boxes_[rank], !to_first);
        constexpr const char *phase = "eigenvectors of a file";
        Exchange(ranks_, phase, messages, buffers_).finish();
        if (const Message *changed = ranks_.changed_message(phase, messages))
            ranks_.note_lost(changed->peer);
    }

    milcgpu_context &context_;
    Ranks &ranks_;
    int parity_;
    Precision real_;
    size_t record_;
    std::vector<Box> boxes_;
    std::shared_ptr<Buffers> buffers_;
    SiteMap identity_;
    std::unique_ptr<SpinorReorder> straight_;
};

// Runs work() on rank 0, which has the file; if it throws, all ranks throw.
template <class Work> void on_first(milcgpu_context &context, const Work &work) {
    context.device->collective("a file of eigenvectors", [&] {
        if (context.ranks->rank() == 0)
            work();
    });
}

// A vector belongs to the links if its l is the file's, or if it is an eigenvector of them with any l.
constexpr double near_l = 0.01, near_zero = 1e-4, good_vector = 0.1, good_zero = 1e-3;
// If l agrees with the file's to this, the file's l is kept, so that a file that is written again has the same l.
constexpr double same_l = 1e-6;

// of[k]: the vector's number in the file.
void compare_values(const std::string &path, Eigenvectors &set, const std::vector<int> &of,
                    const std::vector<double> &values) {
    for (int k = 0; k < set.count(); ++k) {
        const double l = set.values[k], of_file = values[of[k]], off = std::fabs(of_file - l);
        if (off > near_l * l + near_zero && set.residuals[k] > good_vector * l + good_zero)
            refuse(format("%s: vector %d is not one of these links: l is %.4e with them, |B v - l v| is %.1e, and the "
                          "file says l = %.4e; give links of the same gauge field, action and phases",
                          quoted_name(path).c_str(), of[k], l, set.residuals[k], of_file));
        if (off <= same_l * l)
            set.values[k] = of_file;
    }
}

// The lowest `most` vectors of a file, which may be in any order. of: their numbers in the file.
void load_lowest(milcgpu_context &context, EigenFileReader &file, const EigenFileHead &head, const NormalOperator &full,
                 int most, Eigenvectors &set, std::vector<int> &of) {
    SpinorField vector;
    context.device->collective("memory for an eigenvector",
                               [&] { vector = full.vectors(*context.device, "eigenvector"); });
    SpreadVector on_host(context, parity_index(head.parity), head.real);
    const int room = std::min(most + 1, head.count); // one more for the vector that is being looked at
    int place = 0;
    for (int k = 0; k < head.count; ++k) {
        on_first(context, [&] { file.next(on_host.whole()); });
        // A damaged file may claim more than it has: allocate only for what has been read.
        if (place == set.count())
            context.device->collective("memory for eigenvectors",
                                       [&] { set.grow(std::min(Eigenvectors::group_size(), room - place)); });
        on_host.to_device(vector);
        set.load(place, vector, full);
        of.resize(set.count());
        of[place] = k;
        const auto &l = set.values;
        place = k + 1 < room ? k + 1 : static_cast<int>(std::max_element(l.begin(), l.end()) - l.begin());
    }
    on_first(context, [&] { file.finish(); });
    set.free_scratch();
}

} // namespace

extern "C" {

milcgpu_status milcgpu_eigenvectors_read(milcgpu_links *links, const char *path, int precision, int most,
                                         milcgpu_eigenvectors **eigenvectors) {
    constexpr const char *function = "milcgpu_eigenvectors_read";
    if (eigenvectors != nullptr)
        *eigenvectors = nullptr;
    return with_links(links, function, [&](milcgpu_context &context) {
        Precision stored = Precision::half;
        same_on_all_ranks(context, function, [&](CallArguments &call) {
            call.given("path", path);
            call.given("eigenvectors", eigenvectors);
            resident(*links);
            stored = stored_as(call("precision", precision));
            require_count(call("most", most), 0, "most");
        });
        stop_learning(context);
        EigenFileReader file;
        on_first(context, [&] { file.open(path, context.geometry.global_extents()); });
        const EigenFileHead head = context.ranks->gathered("the head of a file", file.head())[0];
        std::vector<double> values = file.values(), of_all(size_t(head.count) * context.ranks->size());
        values.resize(size_t(head.count));
        context.ranks->all_gather("the values of a file", values.data(), of_all.data(), head.count * sizeof(double));
        const int count = most == 0 ? head.count : std::min(most, head.count), parity = parity_index(head.parity);
        std::unique_ptr<milcgpu_eigenvectors> made(new milcgpu_eigenvectors{&context, {}, {}, 0, {}, {}});
        const Operator full = full_operator(*links, parity);
        context.device->collective("memory for eigenvectors", [&] {
            const size_t bytes = Eigenvectors::bytes(context.geometry, stored, count),
                         free = context.device->free_bytes();
            if (bytes > free)
                throw Error(Status::no_memory, format("%s: %d eigenvectors take %.3g GB, and %.3g are free; read fewer",
                                                      path, count, bytes * 1e-9, free * 1e-9));
            made->set = std::make_unique<Eigenvectors>(
                *context.device, *full, stored, std::min(Eigenvectors::group_size(), std::min(count + 1, head.count)));
        });
        std::vector<int> of;
        load_lowest(context, file, head, *full, count, *made->set, of);
        compare_values(path, *made->set, of, of_all);
        made->set->sort();
        made->set->keep(count);
        made->set->take_checksums();
        look_at_loaded(*made, path, *full);
        made->set->links = links->links->tag();
        made->loaded.assign(count, true);
        *eigenvectors = made.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu_eigenvectors_write(milcgpu_eigenvectors *eigenvectors, const char *path, int precision,
                                          const char *time) {
    constexpr const char *function = "milcgpu_eigenvectors_write";
    milcgpu_context *const context = eigenvectors != nullptr ? eigenvectors->context : nullptr;
    return guarded(context, function, [&] {
        require(eigenvectors, function, "eigenvectors");
        milcgpu_eigenvectors &of = *eigenvectors;
        Precision real = Precision::double_;
        same_on_all_ranks(*context, function, [&](CallArguments &call) {
            call.given("path", path);
            real = host_precision_of(call("precision", precision), "precision");
            require_time(time);
            if (!are_loaded(of))
                refuse(empty_eigenvectors);
        });
        const int parity = of.set->parity();
        const EigenFileHead head{context->geometry.global_extents(), parity == 0 ? MILCGPU_EVEN : MILCGPU_ODD,
                                 of.set->count(), real};
        EigenFileWriter file;
        on_first(*context, [&] { file.open(path, head, of.set->values, time != nullptr ? time : time_stamp()); });
        SpreadVector on_host(*context, parity, real);
        for (int k = 0; k < head.count; ++k) {
            if (!are_whole(of, k, 1))
                throw Error(Status::corrupted, format("%s: compute or load them again", changed_eigenvectors));
            on_host.to_host((*of.set)[k]);
            on_first(*context, [&] { file.next(on_host.whole()); });
        }
        on_first(*context, [&] { file.finish(); });
        return Status::ok;
    });
}

} // extern "C"
