// panels.h - a plan in panels of columns, each with a copy in a buffer that stays in the cache.
//
// Lookups along an axis that is not the last, where neighbouring positions read neighbouring columns of the data, each
// at a row of its own: those rows lie far apart, and where their stride is a power of two they compete for the same few
// cache sets. There the panel of the *data* is packed, and walked as a plan of its own; a scatter copies it back.
// Where indices and data lie in another order than the dense array, the panel is walked in their order, and its part of
// the *dense* array is turned while it is in the cache.
#pragma once

#include <utility>

#include "gather.h"
#include "scatter.h"

namespace ndgather::NDGATHER_ISA {

// The part of a plan that lies in one panel.
inline Plan panel_of(const Plan& plan, const Panels& panels, Size number) noexcept {
  Plan panel = plan;
  panel.loop_rank = 2;
  const Dim* const inner = &plan.inner();
  panel.loop[0] = inner[panels.swapped ? 0 : -1];
  panel.loop[1] = inner[panels.swapped ? -1 : 0];
  Size plane = number / panels.per_plane;
  for (int d = plan.loop_rank - 3; d >= 0; --d) {
    const Dim& dim = plan.loop[d];
    const Size at = plane % dim.size;
    plane /= dim.size;
    panel.indices += at * dim.index;
    panel.indexed += at * dim.indexed;
    panel.dense += at * dim.dense;
  }
  panel.positions = panel.loop[0].size * panel.loop[1].size;
  panel.dense_linear = false;
  const Size first = number % panels.per_plane * panels.columns;
  keep_range(panel, 1, first, std::min(first + panels.columns, panel.loop[1].size));
  return panel;
}

// Copies `bytes` of each of `rows` rows.
inline void copy_panel(char* to, Size to_stride, const char* from, Size from_stride, Size rows, Size bytes) noexcept {
  constexpr Size kAhead = kTuning.index_ahead / kTuning.panel_bytes;  // rows
  const Size lines = bytes / kLine * kLine;
  for (Size row = 0; row < rows; ++row, to += to_stride, from += from_stride) {
    prefetch_lines(from + kAhead * from_stride, bytes);
    for (Size b = 0; b < lines; b += kLine) std::memcpy(to + b, from + b, kLine);
    if (lines < bytes) std::memcpy(to + lines, from + lines, static_cast<std::size_t>(bytes - lines));
  }
}

// Copies a grid of elements whose rows and columns lie any number of bytes apart, some columns at a time.
template <int Width>
void copy_grid(char* to, Size to_row, Size to_column, const char* from, Size from_row, Size from_column, Size rows,
               Size columns) noexcept {
  constexpr Size kColumns = kLine / Width;
  for (Size first = 0; first < columns; first += kColumns) {
    const Size count = std::min(kColumns, columns - first);
    for (Size row = 0; row < rows; ++row) {
      char* const out = to + row * to_row + first * to_column;
      const char* const in = from + row * from_row + first * from_column;
      if (count == kColumns) {
#pragma GCC unroll 64
        for (Size c = 0; c < kColumns; ++c) std::memcpy(out + c * to_column, in + c * from_column, Width);
      } else {
        for (Size c = 0; c < count; ++c) std::memcpy(out + c * to_column, in + c * from_column, Width);
      }
    }
  }
}

using CopyGrid = void (*)(char*, Size, Size, const char*, Size, Size, Size, Size) noexcept;

inline CopyGrid pick_grid(Size width) noexcept {
  switch (width) {
    case 1: return copy_grid<1>;
    case 2: return copy_grid<2>;
    case 4: return copy_grid<4>;
    case 8: return copy_grid<8>;
    case 16: return copy_grid<16>;
    default: return nullptr;
  }
}

// Runs one panel of a scatter, or of a gather where the store is null.
inline bool run_panel(const Plan& plan, const Schedule& schedule, Store store, Size number, char* buffer) noexcept {
  const Panels& panels = schedule.panels;
  const bool scatters = store != nullptr;
  Schedule within;  // what a panel is looked up in is in the cache; the indices need not be
  within.prefetch_indices = schedule.prefetch_indices;
  const auto run = [&](const Plan& part) {
    return scatters ? scatter(part, within, store, 0, part.positions) : gather(part, within, 0, part.positions);
  };
  Plan panel = panel_of(plan, panels, number);
  if (panels.packed) {
    char* const columns = panel.indexed;
    IndexColumn& column = panel.column[0];
    const Size stride = column.stride, bytes = panel.inner().size * panel.width;
    copy_panel(buffer, panels.pitch, columns, stride, column.extent, bytes);
    panel.indexed = buffer;
    column.stride = panels.pitch;
    if (!run(panel)) return false;
    if (scatters) copy_panel(columns, stride, buffer, panels.pitch, column.extent, bytes);
    return true;
  }
  // Parts that walk column after column, and whose dense array is `buffer`: it is copied from the real one before, or to
  // it afterwards.
  const CopyGrid copy = pick_grid(panel.width);
  const Size all = panel.loop[0].size, columns = panel.loop[1].size, width = panel.width;
  for (Size row = 0; row < all; row += panels.rows) {
    Plan part = panel;
    const Size size = std::min(panels.rows, all - row);
    keep_range(part, 0, row, row + size);
    std::swap(part.loop[0], part.loop[1]);
    char* const dense = part.dense;
    Dim& rows = part.loop[1];
    const Size next_row = rows.dense;
    if (scatters) copy(buffer, width, panels.pitch, dense, next_row, width, size, columns);
    part.dense = buffer;
    part.loop[0].dense = panels.pitch;
    rows.dense = width;
    part.dense_linear = panels.pitch == size * width;
    join_runs(part, kTuning.short_run);
    if (!run(part)) return false;
    if (!scatters) copy(dense, next_row, width, buffer, width, panels.pitch, size, columns);
  }
  return true;
}

}  // namespace ndgather::NDGATHER_ISA
