// tiles.h - gathering where the result lies in another order than the indices: index values that follow each
// other belong to places a row apart.
//
// One position after the other would touch a line of the result, or of the indices, for every element. Instead
// the offsets of a tile are computed along the indices, and what they name is copied along the result.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "bands.h"

namespace ndgather::NDGATHER_ISA {

// How far ahead of their use indices are asked for, in rows: the hardware does not follow so many columns.
inline constexpr Size kRowsAhead = 2 * kTileRows;

// Copies a tile of n rows, whose place in row r of column c is at[c * pitch + r].
template <int Width, class Pitch>
void copy_tile(const Plan& plan, const Size* at, Pitch pitch, Size columns, Size n, char* near) noexcept {
  constexpr Size kColumns = tile_columns(Width);
  const char* const far = plan.far;
  const Size step = plan.position[plan.position_rank - 1].near;
  for (Size r = 0; r < n; ++r) {
    char* const to = near + r * step;
    if (columns == kColumns) {
#pragma GCC unroll 16
      for (Size c = 0; c < kColumns; ++c) std::memcpy(to + c * Width, far + at[c * pitch + r], Width);
    } else {
      for (Size c = 0; c < columns; ++c) std::memcpy(to + c * Width, far + at[c * pitch + r], Width);
    }
  }
}

// The parts [begin, end) of the bands of a plan.
template <int Width>
bool gather_tiles_of(const Plan& plan, const Bands& bands, Size begin, Size end) noexcept {
  constexpr Size kColumns = tile_columns(Width);
  const Position& along = plan.position[plan.position_rank - 1];
  const Position& across = plan.position[plan.position_rank - 2];
  const Offsets<Size> offsets = pick_offsets(plan);
  const Bases bases(plan);
  const Size parts = (along.size + bands.rows - 1) / bands.rows;
  const Size of_line = std::max<Size>(kLine / std::max<Size>(std::abs(along.index), 1), 1);
  // Where columns of indices are short and follow each other, those of a tile are looked at in one go.
  const bool joined = bands.rows == along.size && columns_join(along, across, Width);
  const Size pitch = joined ? along.size : kTileRows;
  static_assert(kColumns * kTileRows <= kJoinedPlaces);
  alignas(kLine) Size at[kJoinedPlaces], base[kJoinedPlaces];
  for (Size c = 0; joined && c < std::min(kColumns, across.size); ++c) {
    for (Size r = 0; r < pitch; ++r) base[c * pitch + r] = c * across.far + r * along.far;
  }
  for (Size unit = begin; unit < end; ++unit) {
    const Band band = band_of(plan, bands, unit / parts);
    const Size far = band.far - plan.far;
    const Size first = unit % parts * bands.rows, last = std::min(first + bands.rows, along.size);
    for (Size row = first, n; row < last; row += n) {
      n = joined ? along.size : std::min(kTileRows, last - row);
      bool good = true;
      if (joined) {
        prefetch_ahead(plan, band.index, along.index, band.columns * n);
        good = offsets(plan, band.index, far, base, band.columns * n, at);
      }
      for (Size c = 0; !joined && c < band.columns; ++c) {
        const char* const index = band.index + c * across.index + row * along.index;
        for (Size i = 0; i < kTileRows; i += of_line) prefetch(index + (kRowsAhead + i) * along.index);
        good &= offsets(plan, index, far + c * across.far + row * along.far, bases.far, n, at + c * pitch);
      }
      char* const near = band.near + row * along.near;
      if (!good) {
        if (plan.mode != Mode::fill) return false;
        for (Size c = 0; c < band.columns; ++c) {
          copy_or_fill(plan, at + c * pitch, n, near + c * Width, along.near);
        }
      } else if (joined) {
        copy_tile<Width>(plan, at, pitch, band.columns, n, near);
      } else {
        copy_tile<Width>(plan, at, std::integral_constant<Size, kTileRows>{}, band.columns, n, near);
      }
    }
  }
  return true;
}

inline bool gather_tiles(const Plan& plan, const Bands& bands, Size begin, Size end) noexcept {
  switch (plan.width) {
    case 1: return gather_tiles_of<1>(plan, bands, begin, end);
    case 2: return gather_tiles_of<2>(plan, bands, begin, end);
    case 4: return gather_tiles_of<4>(plan, bands, begin, end);
    case 8: return gather_tiles_of<8>(plan, bands, begin, end);
    default: return gather_tiles_of<16>(plan, bands, begin, end);
  }
}

}  // namespace ndgather::NDGATHER_ISA
