// offsets.h - a run of index tuples becomes a run of checked byte offsets into the far array.
//
// Offsets are of type At: Size, or 32 bits where all of them are known to fit.
//
// Every index value is loaded once, into a local; that local is checked and used. The functions
// are called through pointers, so no caller can see the values again.
#pragma once

#include <cstring>
#include <type_traits>

#include "index_rule.h"

namespace ndgather::NDGATHER_ISA {

inline constexpr Size kBlock = 256;  // offsets that are computed before they are used

// Stands for "no place": what Fill leaves. No real offset is the most negative number, or the largest of
// 32 bits.
template <class At>
inline constexpr At kNowhereAs = static_cast<At>(-1);
template <>
inline constexpr Size kNowhereAs<Size> = PTRDIFF_MIN;
inline constexpr Size kNowhere = kNowhereAs<Size>;

template <class Index>
inline Index load(const char* at) noexcept {
  Index value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Writes out[0..n) for n positions of the innermost position dim, the first of which reads its
// tuple at `index`; position i starts at offset far + bases[i]. False: one of the values names no
// place; under Fill its offset is kNowhere, under the other rules the offsets must not be used.
//
// Columns fixes the depth at compile time, and Step how far apart positions are, in values: as many as
// there are columns where tuples follow each other without gaps, 1 where the values of a column do, as
// numpy.argwhere leaves them, and 0 where the plan says. All that is only there to let the compiler
// unroll and vectorise.
template <class Rule, class Index, int Columns, int Step, class At>
bool offsets(const Plan& plan, const char* index, Size far, const Size* __restrict bases, Size n,
             At* __restrict out) noexcept {
  using Sum = std::make_unsigned_t<At>;
  const Size step = Step > 0 ? Size{Step} * Size{sizeof(Index)}
                             : plan.position[plan.position_rank - 1].index;
  const Size column_step = Step == Columns ? Size{sizeof(Index)} : plan.column_stride;
  Column column[Columns];  // a copy that the stores to `out` cannot touch
  for (int c = 0; c < Columns; ++c) column[c] = plan.column[c];
  std::uint64_t good = 1;  // as wide as the offsets, so that the loop is vectorised
  for (Size i = 0; i < n; ++i) {
    auto at = static_cast<Sum>(far + (fault("base-left-out") ? 0 : bases[i]));
    std::uint64_t inside = 1;
    for (int c = 0; c < Columns; ++c) {
      std::uint64_t place = 0;
      const auto value = load<Index>(index + i * step + c * column_step);
      inside &= std::uint64_t{Rule::place(value, column[c], place)};
      at += static_cast<Sum>(place) * static_cast<Sum>(column[c].stride);
    }
    out[i] = inside || !Rule::fills ? static_cast<At>(at) : kNowhereAs<At>;
    good &= inside | std::uint64_t{fault("one-column-inside")};
  }
  return good != 0;
}

// The same for any depth: column after column, so that what is known of a column stays in registers.
template <class Rule, class Index, class At>
bool offsets_by_column(const Plan& plan, const char* index, Size far, const Size* __restrict bases,
                       Size n, At* __restrict out) noexcept {
  using Sum = std::make_unsigned_t<At>;
  const Size step = plan.position[plan.position_rank - 1].index;
  for (Size i = 0; i < n; ++i) out[i] = static_cast<At>(far + bases[i]);
  std::uint64_t good = 1;
  for (int c = 0; c < plan.column_count; ++c, index += plan.column_stride) {
    const Column column = plan.column[c];
    for (Size i = 0; i < n; ++i) {
      std::uint64_t place = 0;
      const auto value = load<Index>(index + i * step);
      const bool inside = Rule::place(value, column, place);
      const auto at = static_cast<At>(static_cast<Sum>(out[i]) +
                                      static_cast<Sum>(place) * static_cast<Sum>(column.stride));
      const bool nowhere = Rule::fills && (!inside || out[i] == kNowhereAs<At>);
      out[i] = nowhere ? kNowhereAs<At> : at;
      good &= std::uint64_t{inside};
    }
  }
  return good != 0;
}

template <class At>
using Offsets = bool (*)(const Plan&, const char*, Size, const Size*, Size, At*) noexcept;

}  // namespace ndgather::NDGATHER_ISA
