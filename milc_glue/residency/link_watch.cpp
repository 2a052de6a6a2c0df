#include "milc_glue/residency/link_watch.h"

namespace milcgpu {

void LinkWatch::begin() {
    if (mirror_.rest_is_unseen())
        threads_.begin(hash_pieces(fat_), [this](size_t k) {
            sum_ += combined(hash_piece(fat_, Share::rest, k), hash_piece(lng_, Share::rest, k));
        });
}

bool LinkWatch::end() {
    if (!mirror_.rest_is_unseen())
        return true;
    if (!threads_.has_begun()) // the solve was too short to start threads: OpenMP's look
        return mirror_.saw_rest(combined(hash_records(fat_, Share::rest), hash_records(lng_, Share::rest)));
    threads_.end();
    return mirror_.saw_rest(sum_);
}

} // namespace milcgpu
