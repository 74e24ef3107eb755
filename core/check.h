// check.h - looking at index values without copying anything.
#pragma once

#include <algorithm>

#include "cursor.h"
#include "dispatch.h"
#include "engine.h"

namespace ndgather::NDGATHER_ISA {

inline Outside check(const Plan& plan, Size begin, Size end) noexcept {
  const CountOutside count_outside = pick_outside(plan);
  Outside found;
  Cursor cursor(plan, begin);
  while (begin < end) {
    const Size n = std::min(end - begin, cursor.left);
    Size first;
    std::uint64_t value;
    const Size count = count_outside(plan, cursor.index, n, first, value);
    if (count > 0 && found.count == 0) {
      found.entry = begin * plan.column_count + first;
      found.value = value;
    }
    found.count += count;
    cursor.advance(n);
    begin += n;
  }
  return found;
}

}  // namespace ndgather::NDGATHER_ISA
