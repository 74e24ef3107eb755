// bands.h - gathering along an axis that is not the last, when it is looked at often.
//
// Neighbouring positions then read neighbouring columns of data, each at a row of its own: with
// row strides that are a power of two all those rows fight for the same few cache sets. Instead a
// band of columns is packed into a buffer that stays in the second-level cache, and every row of
// the result within that band is gathered from it.
#pragma once

#include <algorithm>

#include "choose.h"
#include "gather.h"

namespace ndgather::NDGATHER_ISA {

// Where one band begins in each array.
struct Band {
  Size first;  // its first column
  const char* index;
  char* far;
  char* near;
};

inline Band band_of(const Plan& plan, const Bands& bands, Size unit) noexcept {
  const Position& across = plan.position[plan.position_rank - 1];
  const Size first = unit % bands.per_plane * bands.columns;
  Size plane = unit / bands.per_plane;
  Band band{first, plan.indices + first * across.index, plan.far + first * plan.width,
            plan.near + first * plan.width};
  for (int d = plan.position_rank - 3; d >= 0; --d) {
    const Position& dim = plan.position[d];
    const Size at = plane % dim.size;
    plane /= dim.size;
    band.index += at * dim.index;
    band.far += at * dim.far;
    band.near += at * dim.near;
  }
  return band;
}

// Packs `bytes` of every row into a row of kBandBytes.
inline void pack(const char* far, const Column& column, Size bytes, char* buffer) noexcept {
  if (bytes == kBandBytes) {
    for (Size e = 0; e < column.extent; ++e) {
      prefetch(far + (e + 16) * column.stride);
      prefetch(far + (e + 16) * column.stride + kLine);
      std::memcpy(buffer + e * kBandBytes, far + e * column.stride, kBandBytes);
    }
  } else {
    for (Size e = 0; e < column.extent; ++e) {
      std::memcpy(buffer + e * kBandBytes, far + e * column.stride,
                  static_cast<std::size_t>(bytes));
    }
  }
}

[[gnu::always_inline]] inline void prefetch_band(const char* row, Size bytes) noexcept {
  for (Size b = 0; b < bytes; b += kLine) prefetch(row + b);
}

// Writes at[0..columns) for one row of a band: offsets into the buffer. As offsets() in offsets.h.
template <class Rule, class Index, int Width>
bool band_offsets(const Column& column, const char* index, Size columns, Size* at) noexcept {
  const Column of = column;
  std::uint64_t good = 1;  // as wide as the offsets, so that the loop is vectorised
  for (Size c = 0; c < columns; ++c) {
    std::uint64_t place = 0;
    const bool inside = Rule::place(load<Index>(index + c * Size{sizeof(Index)}), of, place);
    const auto offset = static_cast<Size>(place * std::uint64_t{kBandBytes}) + c * Width;
    at[c] = inside || !Rule::fills ? offset : kNowhere;
    good &= std::uint64_t{inside};
  }
  return good != 0;
}

template <class Rule, class Index, int Width>
bool gather_bands_of(const Plan& plan, const Bands& bands, Size begin, Size end, char* buffer)
    noexcept {
  constexpr Size kColumns = kBandBytes / Width;
  const Position& along = plan.position[plan.position_rank - 2];
  const Position& across = plan.position[plan.position_rank - 1];
  const Column column = plan.column[0];
  for (Size unit = begin; unit < end; ++unit) {
    auto [first, index, far, near] = band_of(plan, bands, unit);
    const Size columns = std::min(bands.columns, across.size - first);
    pack(far, column, columns * Width, buffer);
    for (Size row = 0; row < along.size; ++row, index += along.index, near += along.near) {
      prefetch_band(index + 4 * along.index, columns * Size{sizeof(Index)});
      Size at[kColumns];
      if (band_offsets<Rule, Index, Width>(column, index, columns, at)) {
        for (Size c = 0; c < columns; ++c) std::memcpy(near + c * Width, buffer + at[c], Width);
        continue;
      }
      if (!Rule::fills) return false;
      for (Size c = 0; c < columns; ++c) {
        char* to = near + c * Width;
        if (at[c] != kNowhere) {
          std::memcpy(to, buffer + at[c], Width);
        } else {
          fill(plan, to, Width);
        }
      }
    }
  }
  return true;
}

// Calls visit with the policies of a plan that choose_bands has taken.
template <class Visit>
bool with_band(const Plan& plan, Visit visit) noexcept {
  return with_rule(plan.mode, [&](auto rule) {
    return with_index_type(plan.index_type, [&](auto index) {
      switch (plan.width) {
        case 1: return visit(rule, index, std::integral_constant<int, 1>{});
        case 2: return visit(rule, index, std::integral_constant<int, 2>{});
        case 4: return visit(rule, index, std::integral_constant<int, 4>{});
        case 8: return visit(rule, index, std::integral_constant<int, 8>{});
        default: return visit(rule, index, std::integral_constant<int, 16>{});
      }
    });
  });
}

inline bool gather_bands(const Plan& plan, const Bands& bands, Size begin, Size end, char* buffer)
    noexcept {
  return with_band(plan, [&](auto rule, auto index, auto width) {
    return gather_bands_of<decltype(rule), decltype(index), decltype(width)::value>(
        plan, bands, begin, end, buffer);
  });
}

}  // namespace ndgather::NDGATHER_ISA
