// index_policy.h - from an index value to a position on its axis: the policies.
//
// resolve() gets one value that was read once, and returns whether it lies on the axis; only then may `at` be used.
// Nothing else in the engine decides whether an index is allowed.
#pragma once

#include <cstdint>
#include <type_traits>

#include "plan.h"

namespace ndgather::NDGATHER_ISA {

template <class Index>
inline constexpr bool is_u64 = std::is_same_v<Index, std::uint64_t>;

// Negative values count from the end where the column allows them. A uint64 is compared as it is:
// 2**63 and more is out of bounds, never negative.
struct Raise {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
    if constexpr (is_u64<Index>) {
      at = value;
    } else {
      const std::int64_t wide = value;
      at = static_cast<std::uint64_t>(wide + ((wide >> 63) & column.wrap));
    }
    return at < static_cast<std::uint64_t>(column.extent);
  }
};

// As Raise; a value outside the axis leaves the fill value instead of refusing the call.
struct Fill : Raise {
  static constexpr bool fills = true;
};

// The value modulo the size of the axis, as numpy.take(mode="wrap") has it.
struct Wrap {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
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

// The nearest position, negative values being below the first, as numpy.take(mode="clip") has it.
struct Clip {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
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

}  // namespace ndgather::NDGATHER_ISA
