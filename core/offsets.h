// offsets.h - converting a run of index tuples to checked byte offsets into the indexed array.
//
// Every index is loaded from memory exactly once, and the loaded value is both checked and used. Even if another thread
// changes the indices during a call, no access is out of bounds.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "loops.h"

namespace ndgather::NDGATHER_ISA {

// Policies convert an index to a position on its axis. resolve() returns whether the index is in bounds; only then may `at`
// be used. No other code decides whether an index is valid.

template <class Index>
inline constexpr bool is_u64 = std::is_same_v<Index, std::uint64_t>;

// Negative indices count from the end if the column allows them. A uint64 of 2**63 or more is out of bounds.
struct Raise {
  static constexpr bool fills = false;
  template <class Index, class Column, class Position>
  static bool resolve(Index value, const Column& column, Position& at) noexcept {
    if constexpr (std::is_unsigned_v<Index>) {
      at = value;
    } else {
      const std::make_signed_t<Position> wide = value;
      at = static_cast<Position>(wide + ((wide >> (8 * sizeof wide - 1)) & column.wrap));
    }
    return at < static_cast<Position>(column.extent);
  }
};

// Like Raise, except that an out-of-bounds index selects the fill value instead of ending the call.
struct Fill : Raise {
  static constexpr bool fills = true;
};

// The index modulo the size of the axis, as in numpy.take(mode="wrap").
struct Wrap {
  static constexpr bool fills = false;
  template <class Index, class Column>
  static bool resolve(Index value, const Column& column, std::uint64_t& at) noexcept {
    if (Raise::resolve(value, column, at)) return true;
    if (column.extent == 0) return false;
    if constexpr (is_u64<Index>) {
      at = value % static_cast<std::uint64_t>(column.extent);
    } else {
      const std::int64_t rest = static_cast<std::int64_t>(value) % column.extent;
      at = static_cast<std::uint64_t>(rest + ((rest >> 63) & column.extent));
    }
    return true;
  }
};

// The nearest valid index; negative indices become 0, as in numpy.take(mode="clip").
struct Clip {
  static constexpr bool fills = false;
  template <class Index, class Column>
  static bool resolve(Index value, const Column& column, std::uint64_t& at) noexcept {
    if (column.extent == 0) return false;
    const auto last = static_cast<std::uint64_t>(column.extent - 1);
    if constexpr (std::is_signed_v<Index>) {
      at = value < 0 ? 0 : static_cast<std::uint64_t>(value);
    } else {
      at = value;
    }
    at = at < last ? at : last;
    return true;
  }
};

template <class Index>
inline Index load(const char* at) noexcept {
  Index value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Writes out[0..n) for n positions of the innermost loop dim, whose first tuple is at `index`. Position i has the base
// base + bases[i]. Returns false if an index is out of bounds. Then Fill sets its offset to kOutsideAs, and other policies
// leave all offsets invalid. Offsets are 64-bit, or narrow if the range allows it. If Out is void, indices are only checked.
template <class Out>
using Offsets = bool (*)(const Plan&, const char* index, Size base, const Size* bases, Size n, Out* out) noexcept;

template <class Out>
inline constexpr Out kOutsideAs = kOutside;
template <>
inline constexpr Narrow kOutsideAs<Narrow> = kNarrowOutside;

// An index column in the types used to compute offsets.
template <class Number, class At>
struct ColumnOf {
  Number extent, wrap;
  At stride;
};

// The layout of index tuples: contiguous tuples, as in a C-ordered array, or contiguous columns, as in the result of
// numpy.argwhere. Known at compile time, so that the loop can be vectorized.
enum class Layout { tuples, columns };

// Narrow offsets are computed in 32 bits, because a 64-bit product takes several instructions on some processors. Affine
// bases are a constant step apart, so they are computed instead of loaded.
template <class Policy, class Index, int Columns, Layout layout, class At, class Out, bool kAffine>
bool offsets(const Plan& plan, const char* index, Size base, const Size* __restrict bases, Size n,
             Out* __restrict out) noexcept {
  constexpr bool kNarrow = sizeof(At) < sizeof(Size);
  using Number = std::conditional_t<kNarrow, std::int32_t, Size>;
  using Good = std::make_unsigned_t<Number>;  // as wide as Number, so that the loop is vectorized
  using Half = std::conditional_t<std::is_signed_v<Index>, Number, Good>;
  constexpr bool kHalves = kNarrow && sizeof(Index) > sizeof(Half);
  using Value = std::conditional_t<kHalves, Half, Index>;
  constexpr Size kValue{sizeof(Index)};
  constexpr Size kLow = std::endian::native == std::endian::big ? kValue - Size{sizeof(Value)} : 0;
  constexpr Size kStep = layout == Layout::tuples ? Columns * kValue : kValue;
  const Size column_step = layout == Layout::tuples ? kValue : plan.column_stride;
  ColumnOf<Number, At> column[Columns];  // a copy that the stores to `out` cannot touch
  for (int c = 0; c < Columns; ++c) {
    const auto [extent, wrap, stride] = plan.column[c];
    column[c] = {static_cast<Number>(extent), static_cast<Number>(wrap), static_cast<At>(stride)};
  }
  const auto affine_step = static_cast<At>(plan.inner().indexed);
  auto place = static_cast<At>(base);
  Good good = 1;
  for (Size i = 0; i < n; ++i) {
    auto at = kAffine ? place : place + static_cast<At>(bases[i]);
    if constexpr (kAffine) place = static_cast<At>(place + affine_step);
    Good inside = 1;
    for (int c = 0; c < Columns; ++c) {
      Good position = 0;
      const char* const entry = index + i * kStep + c * column_step;
      const auto value = load<Value>(entry + kLow);
      inside &= Good{Policy::resolve(value, column[c], position)};
      // A 64-bit index is valid only if its high half repeats the sign of its low half: 5 is 00000000 00000005 and -1 is
      // FFFFFFFF FFFFFFFF, but 2**32 + 5 is 00000001 00000005. Unsigned values have no sign.
      if constexpr (kHalves) {
        inside &= Good{load<Value>(entry + 4 - kLow) == (std::is_signed_v<Index> ? value >> 31 : 0)};
      }
      at = static_cast<At>(at + static_cast<At>(position) * column[c].stride);
    }
    if constexpr (!std::is_void_v<Out>) out[i] = inside || !Policy::fills ? static_cast<Out>(at) : kOutsideAs<Out>;
    good &= inside;
  }
  return good != 0;
}

// Calls visit with a value of the C++ type of an index type.
template <class Visit>
auto with_index_type(IndexType type, Visit visit) noexcept {
  switch (type) {
    case IndexType::i8: return visit(std::int8_t{});
    case IndexType::i16: return visit(std::int16_t{});
    case IndexType::i32: return visit(std::int32_t{});
    case IndexType::i64: return visit(std::int64_t{});
    case IndexType::u8: return visit(std::uint8_t{});
    case IndexType::u16: return visit(std::uint16_t{});
    case IndexType::u32: return visit(std::uint32_t{});
    default: return visit(std::uint64_t{});
  }
}

// Reads n <= kValues indices of any type that are `step` bytes apart. A uint64 keeps its bits.
inline constexpr Size kValues = std::max(kLimits.block, kTuning.panel_bytes);
inline void read_values(IndexType type, const char* index, Size step, Size n, std::int64_t* __restrict values) noexcept {
  with_index_type(type, [=](auto of_type) {
    using Index = decltype(of_type);
    const auto read = [=](auto apart) {
      for (Size i = 0; i < n; ++i) values[i] = static_cast<std::int64_t>(load<Index>(index + i * apart));
    };
    step == Size{sizeof(Index)} ? read(std::integral_constant<Size, sizeof(Index)>{}) : read(step);
  });
}

// Handles indices of any layout and any number of columns, one column after the other, so that the properties of a column
// stay in registers. Indices of other types are first converted to std::int64_t, so that all index types share this loop.
template <class Policy, class Index, class Out>
bool offsets_by_column(const Plan& plan, const char* index, Size base, const Size* bases, Size n,
                       Out* __restrict out) noexcept {
  constexpr bool kWrites = !std::is_void_v<Out>;
  if constexpr (kWrites) {
    for (Size i = 0; i < n; ++i) out[i] = static_cast<Out>(base + bases[i]);
  }
  std::uint64_t good = 1;
  for (int c = 0; c < plan.column_count; ++c, index += plan.column_stride) {
    const IndexColumn column = plan.column[c];
    std::int64_t values[kValues];
    const bool is_short = index_bytes(plan.index_type) < Size{sizeof(Index)};
    if (is_short) read_values(plan.index_type, index, plan.inner().index, n, values);
    const char* const from = is_short ? reinterpret_cast<const char*>(values) : index;
    const Size apart = is_short ? Size{sizeof(Index)} : plan.inner().index;
    for (Size i = 0; i < n; ++i) {
      std::uint64_t position = 0;
      const bool inside = Policy::resolve(load<Index>(from + i * apart), column, position);
      good &= std::uint64_t{inside};
      if constexpr (kWrites) {
        const auto at = static_cast<Out>(static_cast<std::uint64_t>(out[i]) +
                                         position * static_cast<std::uint64_t>(column.stride));
        const bool outside = Policy::fills && (!inside || out[i] == kOutsideAs<Out>);
        out[i] = outside ? kOutsideAs<Out> : at;
      }
    }
  }
  return good != 0;
}

template <class Visit>
auto with_policy(const Plan& plan, Visit visit) noexcept {
  switch (plan.mode) {
    case Mode::raise: return plan.checked ? visit(Fill{}) : visit(Raise{});
    case Mode::wrap: return visit(Wrap{});
    case Mode::clip: return visit(Clip{});
    default: return visit(Fill{});
  }
}

// A loop, and whether it needs no bases because they are affine.
template <class Out>
struct PickedOffsets {
  Offsets<Out> compute;
  bool affine = false;
};

template <class Policy, class Index, Layout layout, class At, class Out, bool kAffine>
Offsets<Out> pick_count(int columns) noexcept {
  if constexpr (layout == Layout::columns) {
    if (columns == 1) return offsets<Policy, Index, 1, layout, At, Out, kAffine>;
  }
  if constexpr (std::is_signed_v<Index> && sizeof(Index) >= 4) {
    if (columns == 2) return offsets<Policy, Index, 2, layout, At, Out, kAffine>;
    // GCC does not vectorize loads of six halves of three 64-bit indices.
    using Whole = std::conditional_t<layout == Layout::tuples && sizeof(Index) == 8, std::uint64_t, At>;
    if (columns == 3) return offsets<Policy, Index, 3, layout, Whole, Out, kAffine>;
    if (columns == 4) return offsets<Policy, Index, 4, layout, At, Out, kAffine>;
  }
  return nullptr;
}

// Returns the loop for contiguous tuples: one index of any type, or two to four of int32 or int64. Null if there is none.
template <class Policy, class Index, class Out>
PickedOffsets<Out> pick_contiguous(const Plan& plan) noexcept {
  constexpr bool kChecks = std::is_void_v<Out>;
  constexpr Size kValue{sizeof(Index)};
  const int count = plan.column_count;
  const Size step = plan.inner().index;
  const auto pick = [&](auto at, auto affine) -> PickedOffsets<Out> {
    using At = decltype(at);
    if (step == kValue) return {pick_count<Policy, Index, Layout::columns, At, Out, affine()>(count), affine()};
    if (step != kValue * count || plan.column_stride != kValue) return {nullptr};
    return {pick_count<Policy, Index, Layout::tuples, At, Out, affine()>(count), affine()};
  };
  if constexpr (std::is_same_v<Out, Narrow>) {
    if (plan.joined.run == 0) return pick(Narrow{}, std::true_type{});
  } else if constexpr (kChecks && kValue <= 4) {
    if (plan.narrow) return pick(Narrow{}, std::true_type{});
  }
  return pick(std::uint64_t{}, std::bool_constant<kChecks>{});  // a check needs no bases
}

template <class Out = Size>
PickedOffsets<Out> pick_offsets(const Plan& plan) noexcept {
  return with_policy(plan, [&](auto policy) -> PickedOffsets<Out> {
    using Policy = decltype(policy);
    if constexpr (std::is_same_v<Policy, Raise> || (std::is_same_v<Policy, Fill> && !std::is_void_v<Out>)) {
      const auto picked = with_index_type(plan.index_type,
                                          [&](auto index) { return pick_contiguous<Policy, decltype(index), Out>(plan); });
      if (picked.compute != nullptr) return picked;
    }
    const bool is_u64 = plan.index_type == IndexType::u64;
    return {is_u64 ? offsets_by_column<Policy, std::uint64_t, Out> : offsets_by_column<Policy, std::int64_t, Out>};
  });
}

}  // namespace ndgather::NDGATHER_ISA
