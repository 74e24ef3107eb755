// offsets.h - a run of index tuples becomes a run of checked byte offsets into the far array.
//
// Every index value is loaded once, into a local; that local is checked and used. The functions
// are called through pointers, so no caller can see the values again.
#pragma once

#include <cstring>
#include <utility>

#include "index_rule.h"

namespace ndgather::NDGATHER_ISA {

inline constexpr Size kBlock = 256;  // offsets that are computed before they are used

// Stands for "no place": what Fill leaves. No real offset is the most negative number.
inline constexpr Size kNowhere = PTRDIFF_MIN;

template <class Index>
inline Index load(const char* at) noexcept {
  Index value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Writes out[0..n) for n positions of the innermost position dim, the first of which reads its
// tuple at `index` and starts at offset `far`. False: one of the values names no place; under Fill
// its offset is kNowhere, under the other rules the offsets must not be used.
//
// Columns > 0 fixes the depth at compile time, Packed says that tuples follow each other without
// gaps; both are only there to let the compiler unroll and vectorise.
template <class Rule, class Index, int Columns, bool Packed>
bool offsets(const Plan& plan, const char* index, Size far, Size n, Size* out) noexcept {
  const Position inner = plan.position[plan.position_rank - 1];
  const int columns = Columns > 0 ? Columns : plan.column_count;
  const Size step = Packed ? Size{Columns} * Size{sizeof(Index)} : inner.index;
  const Size column_step = Packed ? Size{sizeof(Index)} : plan.column_stride;
  Column fixed[Columns > 0 ? Columns : 1];  // a copy that the stores to `out` cannot touch
  for (int c = 0; c < Columns; ++c) fixed[c] = plan.column[c];
  const Column* column = Columns > 0 ? fixed : plan.column;
  std::uint64_t good = 1;  // as wide as the offsets, so that the loop is vectorised
  for (Size i = 0; i < n; ++i) {
    auto at = static_cast<std::uint64_t>(far + i * inner.far);
    std::uint64_t inside = 1;
    for (int c = 0; c < columns; ++c) {
      std::uint64_t place = 0;
      const auto value = load<Index>(index + i * step + c * column_step);
      inside &= std::uint64_t{Rule::place(value, column[c], place)};
      at += place * static_cast<std::uint64_t>(column[c].stride);
    }
    out[i] = inside || !Rule::fills ? static_cast<Size>(at) : kNowhere;
    good &= inside;
  }
  return good != 0;
}

using Offsets = bool (*)(const Plan&, const char*, Size, Size, Size*) noexcept;

// Looks at n positions of the innermost dim; returns how many values name no place, and where the
// first of them stands.
template <class Rule, class Index>
Size outside(const Plan& plan, const char* index, Size n, Size& first, std::uint64_t& value)
    noexcept {
  const Position& inner = plan.position[plan.position_rank - 1];
  Size count = 0;
  for (int c = 0; c < plan.column_count; ++c) {
    const Column column = plan.column[c];
    const char* at = index + c * plan.column_stride;
    if (inner.index == Size{sizeof(Index)}) {  // a packed run: let the compiler vectorise
      for (Size i = 0; i < n; ++i) {
        std::uint64_t place;
        count += !Rule::place(load<Index>(at + i * Size{sizeof(Index)}), column, place);
      }
    } else {
      for (Size i = 0; i < n; ++i) {
        std::uint64_t place;
        count += !Rule::place(load<Index>(at + i * inner.index), column, place);
      }
    }
  }
  if (count == 0) return 0;
  for (Size i = 0; i < n; ++i) {
    for (int c = 0; c < plan.column_count; ++c) {
      std::uint64_t place;
      const auto entry = load<Index>(index + i * inner.index + c * plan.column_stride);
      if (!Rule::place(entry, plan.column[c], place)) {
        first = i * plan.column_count + c;
        value = static_cast<std::uint64_t>(entry);
        return count;
      }
    }
  }
  return 0;  // the indices changed meanwhile
}

using CountOutside = Size (*)(const Plan&, const char*, Size, Size&, std::uint64_t&) noexcept;

}  // namespace ndgather::NDGATHER_ISA
