// What fails on the way: each call of the table (tests/calls_support.h), the start of a context, and pinning.
#pragma once
#include "tests/calls_support.h"

struct Step {
    std::string name;
    tests::Call call;
    bool starts; // a context: the World has none
};

const std::vector<Step> &steps();
tests::World &world();
milcgpu_status open(milcgpu_context **context);
