#include "milc_glue/residency/collective.h"
#include "milc_glue/api/context.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

namespace milcgpu {

void Collective::join(std::unique_ptr<Ranks> ranks, double time_limit_seconds) {
    ranks_ = std::move(ranks);
    time_limit_seconds_ = time_limit_seconds;
    call_ = 0;
    at_head_ = true;
    broken_ = others_gave_up_ = false;
}

void Collective::begin_call() {
    ++call_;
    at_head_ = true;
    has_failed_ = others_gave_up_ = false;
}

double Collective::limit() {
    const double limits = std::exchange(at_head_, false) ? patience : has_failed_ ? patience_after_failure : 1;
    return limits * time_limit_seconds_;
}

std::vector<Collective::Word> Collective::passed(const Word &mine) {
    const std::vector<Word> all = passed_on(mine);
    for (const Word &word : all)
        if (word.call != mine.call) {
            broken_ = true;
            throw Error(Status::comm, "the ranks are no longer in the same call. All must end");
        }
    return all;
}

std::vector<Collective::Word> Collective::answers(int64_t number, const Words &bits) {
    const Word mine{number, bits, call_, 0, ""};
    const std::vector<Word> all = passed(mine);
    for (int rank = 0; rank < size(); ++rank)
        if (all[rank].gave_up != 0) {
            others_gave_up_ = true;
            throw Error(Status::comm, name(rank) + ": " + all[rank].why);
        }
    return all;
}

void Collective::give_up(const char *why) noexcept {
    if (size() == 1 || broken_ || others_gave_up_)
        return;
    try {
        Word word{0, {}, call_, 1, ""};
        std::snprintf(word.why, sizeof word.why, "%s", why);
        at_head_ = true; // the others may wait for something else first
        passed(word);
        others_gave_up_ = true;
    } catch (...) { // ask() has set broken_
    }
}

int64_t Collective::largest(int64_t mine) {
    int64_t found = mine;
    for (const Word &word : answers(mine, {}))
        found = std::max(found, word.number);
    return found;
}

Collective::Words Collective::on_all_ranks(const Words &bits) {
    Words all = bits;
    if (size() == 1)
        return all;
    for (const Word &word : answers(0, bits))
        for (size_t k = 0; k < all.size(); ++k)
            all[k] &= word.bits[k];
    return all;
}

namespace {

struct Text {
    char text[400];
};

Text text_of(const std::string &words) {
    Text text{};
    std::snprintf(text.text, sizeof text.text, "%s", words.c_str());
    return text;
}

} // namespace

milcgpu_status Collective::operator()(milcgpu_status mine) {
    if (size() == 1)
        return mine;
    has_failed_ = mine != MILCGPU_OK;
    const std::vector<Word> all = answers(mine, {});
    has_failed_ = false;
    const auto waited = [&](int rank) {
        return all[rank].number == MILCGPU_TIMED_OUT || all[rank].number == MILCGPU_COMM;
    };
    int64_t worst = all[0].number;
    int speaks = 0;
    bool alike = true;
    for (int rank = 1; rank < size(); ++rank) {
        const int64_t number = all[rank].number, spoken = all[speaks].number;
        alike = alike && number == all[0].number;
        worst = std::max(worst, number);
        if (number != MILCGPU_OK && (spoken == MILCGPU_OK || (waited(speaks) && !waited(rank)) ||
                                     (number > spoken && waited(speaks) == waited(rank))))
            speaks = rank;
    }
    if (!alike) {
        const std::vector<Text> texts = passed_on(text_of(milcgpu_last_error()));
        set_last_error(name(speaks).c_str(), texts[speaks].text);
    }
    return static_cast<milcgpu_status>(worst);
}

std::string Collective::words(const std::string &mine) {
    if (size() == 1 || (*this)(!mine.empty()) == false)
        return mine;
    const std::vector<Text> texts = passed_on(text_of(mine));
    const auto same = [&](const Text &text) { return std::strcmp(text.text, texts[0].text) == 0; };
    if (std::all_of(texts.begin(), texts.end(), same))
        return texts[0].text;
    int rank = 0;
    while (texts[rank].text[0] == '\0')
        ++rank;
    return name(rank) + ": " + texts[rank].text;
}

std::string Collective::of_rank_0(const std::string &mine) {
    if (size() == 1)
        return mine;
    const int64_t length = largest(rank() == 0 ? static_cast<int64_t>(mine.size()) : 0);
    std::vector<char> text(length), all(length * size());
    if (length == 0)
        return "";
    if (rank() == 0)
        std::copy(mine.begin(), mine.end(), text.begin());
    ranks_->set_time_limit(limit());
    ask([&] {
        ranks_->all_gather(phase, text.data(), all.data(), text.size());
        return 0;
    });
    return std::string(all.data(), length);
}

void Collective::add(double *values, int count) {
    if (size() == 1)
        return;
    answers(0, {});
    ranks_->set_time_limit(limit());
    ask([&] {
        ranks_->add_in_rank_order(phase, values, count);
        return 0;
    });
}

double Collective::worst(double mine) {
    if (size() == 1)
        return mine;
    for (const double one : gathered(mine))
        mine = one > mine || !(one == one) ? one : mine;
    return mine;
}

} // namespace milcgpu
