#include "gpu_kernels/measure/tie_blocks.h"
#include <unordered_map>

namespace milcgpu {

namespace {

constexpr int most_trials = 512; // for one tie-up of a list that has few fours

class Grouping {
  public:
    explicit Grouping(const std::vector<Three> &list) : list_(list), is_left_(list.size(), true) {
        for (int k = 0; k < static_cast<int>(list.size()); ++k) {
            const auto &[p, q, r] = list[k];
            place_.try_emplace(key(p, q, r), k);
            with_third_[r].items.push_back(k);
            thirds_[key(p, q, 0)].push_back(r);
        }
    }
    bool is_left(int k) const { return is_left_[k]; }
    void take(int k) { is_left_[k] = false; }
    // The four with tie-up k that has the most of those that are left. False: it has less than three.
    bool find_four(int k, TieBlock<2> &best) {
        const auto &[p, q, r] = list_[k];
        int most = 2, trials = 0;
        Candidates &candidates = with_third_[r];
        while (candidates.first < candidates.items.size() && !is_left_[candidates.items[candidates.first]])
            ++candidates.first;
        for (size_t at = candidates.first; at < candidates.items.size(); ++at) {
            const int other = candidates.items[at];
            const auto &[p1, q1, same] = list_[other];
            if (!is_left_[other] || p1 == p || q1 == q)
                continue;
            const auto thirds = thirds_.find(key(p, q1, 0));
            for (size_t i = 0; thirds != thirds_.end() && i < thirds->second.size(); ++i) {
                const uint16_t r1 = thirds->second[i];
                const int places[4] = {k, left(p, q1, r1), left(p1, q, r1), other};
                const int found = 2 + (places[1] >= 0) + (places[2] >= 0);
                ++trials;
                if (found > most && r1 != r) {
                    most = found;
                    best = {{p, p1}, {q, q1}, {r, r1}, {places[0], places[1], places[2], places[3]}};
                }
                if (most == 4 || trials >= most_trials)
                    return most > 2;
            }
        }
        return most > 2;
    }

  private:
    struct Candidates {
        std::vector<int> items;
        size_t first = 0; // none before it is left
    };
    static uint64_t key(uint64_t p, uint64_t q, uint64_t r) { return p << 32 | q << 16 | r; }
    int left(int p, int q, int r) const {
        const auto found = place_.find(key(p, q, r));
        return found != place_.end() && is_left_[found->second] ? found->second : -1;
    }
    const std::vector<Three> &list_;
    std::vector<char> is_left_;
    std::unordered_map<uint64_t, int> place_;
    std::unordered_map<uint16_t, Candidates> with_third_;
    std::unordered_map<uint64_t, std::vector<uint16_t>> thirds_;
};

} // namespace

TieBlocks::TieBlocks(const std::vector<Three> &list) {
    Grouping grouping(list);
    for (int k = 0; k < static_cast<int>(list.size()); ++k) {
        if (!grouping.is_left(k))
            continue;
        TieBlock<2> four;
        if (grouping.find_four(k, four)) {
            for (const int item : four.item)
                if (item >= 0)
                    grouping.take(item);
            fours.push_back(four);
        } else {
            grouping.take(k);
            ones.push_back({{list[k][0]}, {list[k][1]}, {list[k][2]}, {k}});
        }
    }
}

} // namespace milcgpu
