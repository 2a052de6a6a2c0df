// Decisions that all ranks of a job must take alike: whether links are stale, which precision a solve takes, whether to
// fall back, whether a solution is known.
#pragma once

namespace milcgpu {

// `mine` is put such that the larger answer is the more careful one. One rank agrees with itself; many ranks will take
// the largest answer among them, so that all of them load, recompute or fall back together.
template <class Answer> Answer agreed(Answer mine) { return mine; }

} // namespace milcgpu
