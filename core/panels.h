// panels.h - running a plan in bands of columns, which are packed into panels or processed in tiles.
//
// Panels are for lookups along an axis other than the last. Adjacent positions read adjacent columns of the data, but
// different rows. These rows are far apart, and if their stride is a power of two, they compete for the same few cache sets.
// Therefore a band of the *data* is copied to a panel that stays in the cache, and a separate plan processes the panel; a
// scatter copies it back.
//
// Tiles are for a dense array whose memory order differs from the order of the indices and data. A band is processed in the
// order of the indices, and its part of the *dense* array is transposed in the cache.
#pragma once

#include <utility>

#include "gather.h"
#include "scatter.h"

namespace ndgather::NDGATHER_ISA {

// Returns the part of a plan in one band. With 4 bands per plane, band 9 is band 1 of plane 2.
inline Plan band_of(const Plan& plan, const Bands& bands, Size number) noexcept {
  Plan band = plan;
  band.loop_rank = 2;
  const Dim* const inner = &plan.inner();
  band.loop[0] = inner[bands.swapped ? 0 : -1];
  band.loop[1] = inner[bands.swapped ? -1 : 0];
  Size plane = number / bands.per_plane;
  for (int d = plan.loop_rank - 3; d >= 0; --d) {
    const Dim& dim = plan.loop[d];
    const Size at = plane % dim.size;
    plane /= dim.size;
    band.indices += at * dim.index;
    band.indexed += at * dim.indexed;
    band.dense += at * dim.dense;
  }
  band.positions = band.loop[0].size * band.loop[1].size;
  band.dense_linear = false;
  const Size first = number % bands.per_plane * bands.columns;
  keep_range(band, 1, first, std::min(first + bands.columns, band.loop[1].size));
  return band;
}

// Copies `bytes` bytes of each row.
inline void copy_panel(char* to, Size to_stride, const char* from, Size from_stride, Size rows, Size bytes) noexcept {
  for (Size row = 0; row < rows; ++row, to += to_stride, from += from_stride) {
    prefetch_lines(from + kLimits.rows_ahead * from_stride, bytes);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

// Gathers n rows of a tile. The offset for row r and column c is at[c * n + r].
template <int Width>
void copy_tile(char* to, Size next_row, const char* from, const Size* at, Size n, Size columns) noexcept {
  constexpr Size kColumns = kLine / Width;
  for (Size r = 0; r < n; ++r, to += next_row, ++at) {
    if (columns == kColumns) {
#pragma GCC unroll 16
      for (Size c = 0; c < kColumns; ++c) std::memcpy(to + c * Width, from + at[c * n], Width);
    } else {
      for (Size c = 0; c < columns; ++c) std::memcpy(to + c * Width, from + at[c * n], Width);
    }
  }
}

// Runs a plan of rows and columns in tiles whose width is at most one cache line of the dense array. Offsets are computed
// column by column, and the dense array is read or written row by row. Tiles of float32 have 16 columns and rows.
inline bool run_tiles(const Plan& plan, bool prefetches, Store store) noexcept {
  Plan by_columns = plan;
  std::swap(by_columns.loop[0], by_columns.loop[1]);
  const Dim &across = by_columns.loop[0], &along = by_columns.loop[1];
  const Size most_columns = std::min(kLine / plan.width, kLimits.block);
  const Size most_rows = std::min(kLimits.block / most_columns, along.size);
  const bool joined = most_rows == along.size && across.index == along.size * along.index;
  const PickedOffsets<Size> offsets = pick_offsets(by_columns);
  const auto copy = with_width(plan.width, [](auto width) { return copy_tile<width()>; });
  Size bases[kLimits.block];
  for (Size i = 0; i < most_columns * most_rows; ++i) {
    const Size column = i / most_rows, row = i % most_rows;
    bases[i] = column * across.indexed + row * along.indexed;
  }
  Updates tile;
  Stop::Pace pace;
  for (Size column = 0; column < across.size; column += most_columns) {
    const Size columns = std::min(most_columns, across.size - column);
    for (Size row = 0; row < along.size; row += most_rows) {
      if (plan.stop != nullptr && plan.stop->reached(pace)) return false;
      const Size rows = std::min(most_rows, along.size - row);
      const char* const index = plan.indices + column * across.index + row * along.index;
      const Size base = column * across.indexed + row * along.indexed;
      bool good = true;
      for (Size c = 0; c < columns && !joined; ++c) {
        const char* const first = index + c * across.index;
        if (prefetches) prefetch_lines(first + 2 * rows * along.index, rows * along.index);
        good &= offsets.compute(by_columns, first, base, bases + c * most_rows, rows, tile.at + c * rows);
      }
      tile.n = columns * rows;
      if (joined) {
        if (prefetches) prefetch_lines(index + kTuning.index_ahead, tile.n * along.index);
        good = offsets.compute(by_columns, index, base, bases, tile.n, tile.at);
      }
      if (!good && !plan.fills()) return false;
      const Size dense = column * plan.width + row * along.dense;
      if (store == nullptr && good) {
        copy(plan.dense + dense, along.dense, plan.indexed, tile.at, rows, columns);
        continue;
      }
      for (Size c = 0; c < columns; ++c) {
        const DenseOffsets places{dense + c * plan.width, along.dense, nullptr};
        if (store == nullptr) copy_or_fill(plan, tile.at + c * rows, places, rows);
        for (Size r = 0; r < rows; ++r) tile.listed[c * rows + r] = places.first + r * places.step;
      }
      if (store == nullptr) continue;
      if (!good) drop_outside(tile);
      store(plan, tile.at, {0, 0, tile.listed}, tile.n);
    }
  }
  return true;
}

// Gathers a plan of rows and columns from a panel, row by row, because blocks of several rows took 1.2 times as long. Rows of
// complete cache lines bypass the caches. The cache lines of other rows are prefetched, because a store would wait for each.
template <int Width, class At>
bool gather_rows(const Plan& panel, const Schedule& schedule, auto compute) noexcept {
  const Dim &along = panel.loop[0], &across = panel.loop[1];
  const Size n = across.size;
  const bool follow = across.index > 0 && across.index <= kLine;
  const Size start = static_cast<Size>(reinterpret_cast<std::uintptr_t>(panel.dense) % kLine);
  const bool past = schedule.nontemporal && (start | along.dense | n * Width) % kLine == 0;
  const char* index = panel.indices;
  Size dense = 0;
  alignas(kLine) Size bases[kTuning.panel_bytes];
  for (Size i = 0; i < n; ++i) bases[i] = i * Width;
  Stop::Pace pace;
  for (Size row = 0; row < along.size; ++row, index += along.index, dense += along.dense) {
    if (panel.stop != nullptr && panel.stop->reached(pace)) return false;
    if (follow) prefetch_lines(index + kLimits.rows_ahead * along.index, n * across.index);
    if (!past) prefetch_lines<true>(panel.dense + dense + kLimits.rows_ahead * along.dense, n * Width);
    alignas(kLine) At at[kTuning.panel_bytes];
    if (compute(panel, index, 0, bases, n, at)) {
      copy_elements<Width>(panel, at, dense, n, past);
    } else if (panel.fills()) {
      copy_or_fill(panel, at, {dense, Width, nullptr}, n);
    } else {
      return false;
    }
  }
  if (past) finish_writes();
  return true;
}

// Gathers from a panel. Calls with int32 and int64 indices are compiled separately, because a call of a function through a pointer
// for each row takes 1.05 to 1.1 times as long.
template <int Width, class At>
bool gather_panel(const Plan& panel, const Schedule& schedule) noexcept {
  constexpr bool kNarrow = std::is_same_v<At, Narrow>;
  using Number = std::conditional_t<kNarrow, Narrow, std::uint64_t>;
  constexpr Offsets<At> kInt = offsets<Raise, std::int32_t, 1, Layout::columns, Number, At, kNarrow>;
  constexpr Offsets<At> kLong = offsets<Raise, std::int64_t, 1, Layout::columns, Number, At, kNarrow>;
  const Offsets<At> picked = pick_offsets<At>(panel).compute;
  if (picked == kInt) return gather_rows<Width, At>(panel, schedule, std::integral_constant<Offsets<At>, kInt>{});
  if (picked == kLong) return gather_rows<Width, At>(panel, schedule, std::integral_constant<Offsets<At>, kLong>{});
  return gather_rows<Width, At>(panel, schedule, picked);
}

inline bool run_band(const Plan& plan, const Schedule& schedule, Store store, Size number, char* buffer) noexcept {
  const Bands& bands = schedule.bands;
  Plan panel = band_of(plan, bands, number);
  if (schedule.split == Split::tiles) return run_tiles(panel, schedule.prefetch_indices, store);
  Schedule within;  // the panel is in the cache, so only the indices may need prefetching
  within.prefetch_indices = schedule.prefetch_indices;
  char* const columns = panel.indexed;
  IndexColumn& column = panel.column[0];
  const Size stride = column.stride, bytes = panel.inner().size * panel.width;
  copy_panel(buffer, bands.pitch, columns, stride, column.extent, bytes);
  panel.indexed = buffer;
  column.stride = bands.pitch;
  panel.narrow = is_narrow(panel);
  const bool scatters = store != nullptr;
  const bool good = scatters ? scatter(panel, within, store, 0, panel.positions) : with_width(panel.width, [&](auto width) {
    return (panel.narrow ? gather_panel<width(), Narrow> : gather_panel<width(), Size>)(panel, schedule);
  });
  if (good && scatters) copy_panel(columns, stride, buffer, bands.pitch, column.extent, bytes);
  return good;
}

}  // namespace ndgather::NDGATHER_ISA
