// Entries of the C interface that work on the device, of each kind, each as one step with its outputs, for faults on
// the way.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include <functional>
#include <vector>

using Field = std::vector<double>;

struct Session {
    milcgpu_context *context = nullptr;
    milcgpu_links *links = nullptr;
    milcgpu_status open();
    milcgpu_status load();
    void close();
};

struct Step {
    const char *name;
    int prepared; // 0: nothing, 1: a context, 2: links in it
    std::vector<size_t> outputs;
    std::function<milcgpu_status(Session &, std::vector<Field> &)> run;
};

std::vector<Step> steps();
