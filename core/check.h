// check.h - looking at index values without copying anything.
#pragma once

#include <algorithm>

#include "cursor.h"
#include "dispatch.h"
#include "engine.h"

namespace ndgather::NDGATHER_ISA {

// Looks at n positions of the innermost dim, the first of which reads its tuple at `index`; entries
// are counted from there.
template <class Rule, class Index>
Outside outside(const Plan& plan, const char* index, Size n) noexcept {
  const Position& inner = plan.position[plan.position_rank - 1];
  Outside found;
  for (int c = 0; c < plan.column_count; ++c) {
    const Column column = plan.column[c];
    const char* at = index + c * plan.column_stride;
    std::uint64_t place = 0;
    if (inner.index == Size{sizeof(Index)}) {  // a packed run: let the compiler vectorise
      for (Size i = 0; i < n; ++i) {
        found.count += !Rule::place(load<Index>(at + i * Size{sizeof(Index)}), column, place);
      }
    } else {
      for (Size i = 0; i < n; ++i) {
        found.count += !Rule::place(load<Index>(at + i * inner.index), column, place);
      }
    }
  }
  if (found.count == 0) return found;
  for (Size i = 0; i < n; ++i) {
    for (int c = 0; c < plan.column_count; ++c) {
      std::uint64_t place = 0;
      const auto entry = load<Index>(index + i * inner.index + c * plan.column_stride);
      if (!Rule::place(entry, plan.column[c], place)) {
        found.entry = i * plan.column_count + c;
        found.value = static_cast<std::uint64_t>(entry);
        return found;
      }
    }
  }
  return {};  // the indices changed meanwhile
}

inline Outside check(const Plan& plan, Size begin, Size end) noexcept {
  return with_rule(plan.mode, [&](auto rule) {
    return with_index_type(plan.index_type, [&](auto index) {
      Outside all;
      Cursor cursor(plan, begin);
      for (Size at = begin; at < end;) {
        const Size n = std::min(end - at, cursor.left);
        const auto found = outside<decltype(rule), decltype(index)>(plan, cursor.index, n);
        if (found.count > 0 && all.count == 0) {
          all.entry = at * plan.column_count + found.entry;
          all.value = found.value;
        }
        all.count += found.count;
        cursor.advance(n);
        at += n;
      }
      return all;
    });
  });
}

}  // namespace ndgather::NDGATHER_ISA
