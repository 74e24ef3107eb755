// panels.h - looking along an axis that is not the last, where neighbouring positions read neighbouring columns of
// data, each at a row of its own.
//
// Those rows lie far apart, and where their stride is a power of two they compete for the same few cache sets. A panel
// of columns is therefore packed into a buffer that stays in the cache, and walked there as a plan of its own; a
// scatter copies it back.
#pragma once

#include "gather.h"
#include "scatter.h"

namespace ndgather::NDGATHER_ISA {

// The part of a plan that looks into one panel.
inline Plan panel_of(const Plan& plan, const Panels& panels, Size number) noexcept {
  Plan panel = plan;
  panel.loop_rank = 2;
  panel.loop[0] = plan.loop[plan.loop_rank - 2];
  panel.loop[1] = plan.inner();
  Size plane = number / panels.per_plane;
  for (int d = plan.loop_rank - 3; d >= 0; --d) {
    const LoopDim& dim = plan.loop[d];
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

// Calls use(panel) with the plan of a panel, packed into `buffer` where that is wanted.
template <class Use>
bool in_panel(const Plan& plan, const Panels& panels, Size number, char* buffer, bool write_back, Use use) noexcept {
  Plan panel = panel_of(plan, panels, number);
  if (panels.row_bytes == 0) return use(panel);
  char* const columns = panel.indexed;
  IndexColumn& column = panel.column[0];
  const Size stride = column.stride, bytes = panel.inner().size * panel.width;
  copy_panel(buffer, panels.row_bytes, columns, stride, column.extent, bytes);
  panel.indexed = buffer;
  column.stride = panels.row_bytes;
  if (!use(panel)) return false;
  if (write_back) copy_panel(columns, stride, buffer, panels.row_bytes, column.extent, bytes);
  return true;
}

// The buffer is in cache; the indices are not.
inline Schedule within_panel() noexcept {
  Schedule schedule;
  schedule.prefetch_indices = true;
  return schedule;
}

inline bool gather_panel(const Plan& plan, const Panels& panels, Size number, char* buffer) noexcept {
  return in_panel(plan, panels, number, buffer, false, [&](const Plan& panel) {
    return gather(panel, within_panel(), 0, panel.positions);
  });
}

inline bool scatter_panel(const Plan& plan, const Panels& panels, Store store, Size number, char* buffer) noexcept {
  return in_panel(plan, panels, number, buffer, true, [&](const Plan& panel) {
    return scatter(panel, within_panel(), store, 0, panel.positions);
  });
}

}  // namespace ndgather::NDGATHER_ISA
