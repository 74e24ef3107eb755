// sample.h - looking at some of the places of a plan, to choose a loop by what they have in common.
#pragma once

#include <algorithm>

#include "cursor.h"
#include "dispatch.h"
#include "engine.h"

namespace ndgather::NDGATHER_ISA {

inline Sample sample(const Plan& plan) noexcept {
  constexpr Size kSamples = 128;
  const Offsets<Size> offsets = pick_offsets(plan);
  const Bases bases(plan);
  Size lines[kSamples];
  Sample found;
  for (Size s = 0; s < kSamples; ++s) {
    const Cursor cursor(plan, plan.positions / kSamples * s);
    Size at[2];
    const Size n = std::min<Size>(cursor.left, 2);
    const auto from = bases.from(cursor);
    if (!offsets(plan, cursor.index, from.first, from.bases, n, at)) continue;
    lines[found.seen++] = at[0] / kLine;
    found.together += n == 2 && at[0] / kLine == at[1] / kLine;
  }
  std::sort(lines, lines + found.seen);
  found.lines = std::unique(lines, lines + found.seen) - lines;
  return found;
}

}  // namespace ndgather::NDGATHER_ISA
