// scatter.h - the loop behind every scatter: the walk of a gather with the two arrays swapped.
#pragma once

#include <algorithm>

#include "bands.h"
#include "gather.h"
#include "store.h"

namespace ndgather::NDGATHER_ISA {

// Keeps the offsets that `owner` owns of a block, in order, and lists where their updates are. What
// names no place is nobody's.
inline void keep_owned(Block& block, Size* listed, Size step, const Owner& owner) noexcept {
  Size kept = 0;
  for (Size i = 0; i < block.n; ++i) {
    const Size at = block.at[i];
    block.at[kept] = at;
    listed[kept] = i * step;
    kept += Size{at != kNowhere} & Size{owner.owns(at)};
  }
  block.n = kept;
}

inline bool scatter(const Plan& plan, Store store, const Owner& owner, Size begin, Size end)
    noexcept {
  const Offsets offsets = pick_offsets(plan);
  const Size step = plan.position[plan.position_rank - 1].near;
  const Size most = block_size(plan);
  const NextRow next_row(plan);
  Cursor cursor(plan, begin);
  Size left = end - begin;
  Block blocks[2];
  Size listed[2][kBlock];
  bool all[2] = {true, true};

  const auto next = [&](int which) {
    Block& block = blocks[which];
    fill_block<true>(block, cursor, offsets, std::min(left, most), next_row);
    left -= block.n;
    if (!block.good && plan.mode != Mode::fill) return false;
    all[which] = block.good && owner.owners == 1;
    if (!all[which]) keep_owned(block, listed[which], step, owner);
    if (step <= kLine) {
      for (Size b = 0; b < block.n * step; b += kLine) prefetch(block.near + kAhead + b);
    }
    if (plan.ahead) prefetch_block<true>(plan, block);
    return true;
  };

  if (!next(0)) return false;
  for (int current = 0;; current = 1 - current) {
    const bool more = left > 0;
    if (more && !next(1 - current)) return false;
    const Block& block = blocks[current];
    store(plan, plan.far, block.at, {block.near, step, all[current] ? nullptr : listed[current]},
          block.n);
    if (!more) return true;
  }
}

// The bands [begin, end) of a plan: packed, updated, and written back.
template <class Rule, class Index, int Width>
bool scatter_bands_of(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                      char* buffer) noexcept {
  constexpr Size kColumns = kBandBytes / Width;
  const Position& along = plan.position[plan.position_rank - 2];
  const Position& across = plan.position[plan.position_rank - 1];
  const Column column = plan.column[0];
  for (Size unit = begin; unit < end; ++unit) {
    auto [first, index, far, near] = band_of(plan, bands, unit);
    const Size columns = std::min(kColumns, across.size - first);
    pack(far, column, columns * Width, buffer);
    for (Size row = 0; row < along.size; ++row, index += along.index, near += along.near) {
      prefetch_band(index + 4 * along.index, columns * Size{sizeof(Index)});
      prefetch_band(near + 4 * along.near, columns * Width);
      Size at[kColumns];
      if (band_offsets<Rule, Index, Width>(column, index, columns, at)) {
        store(plan, buffer, at, {near, Width, nullptr}, columns);
        continue;
      }
      if (!Rule::fills) return false;
      Size listed[kColumns];
      Size kept = 0;
      for (Size c = 0; c < columns; ++c) {
        const Size place = at[c];
        at[kept] = place;
        listed[kept] = c * Width;
        kept += place != kNowhere;
      }
      store(plan, buffer, at, {near, Width, listed}, kept);
    }
    for (Size e = 0; e < column.extent; ++e) {
      std::memcpy(far + e * column.stride, buffer + e * kBandBytes,
                  static_cast<std::size_t>(columns * Width));
    }
  }
  return true;
}

inline bool scatter_bands(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                          char* buffer) noexcept {
  return with_band(plan, [&](auto rule, auto index, auto width) {
    return scatter_bands_of<decltype(rule), decltype(index), decltype(width)::value>(
        plan, store, bands, begin, end, buffer);
  });
}

}  // namespace ndgather::NDGATHER_ISA
