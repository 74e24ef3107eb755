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
    kept += at != kNowhere && owner.owns(at);
  }
  block.n = kept;
}

inline bool scatter(const Plan& plan, Store store, const Owner& owner) noexcept {
  const Offsets offsets = pick_offsets(plan);
  const Size step = plan.position[plan.position_rank - 1].near;
  const bool ahead = plan.reach() > kNear;
  const Size most = block_size(plan);
  Cursor cursor(plan, 0);
  Size left = plan.positions;
  Block blocks[2];
  Size listed[2][kBlock];
  bool all[2] = {true, true};

  const auto next = [&](int which) {
    Block& block = blocks[which];
    fill_block(block, cursor, offsets, std::min(left, most));
    left -= block.n;
    if (!block.good && plan.mode != Mode::fill) return false;
    all[which] = block.good && owner.owners == 1;
    if (!all[which]) keep_owned(block, listed[which], step, owner);
    if (ahead) prefetch_block<true>(plan, block);
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
template <class Rule, class Index>
bool scatter_bands_of(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                      char* buffer) noexcept {
  const Size most = kBandBytes / plan.width;
  const Position& along = plan.position[plan.position_rank - 2];
  const Position& across = plan.position[plan.position_rank - 1];
  const Column column = plan.column[0];
  for (Size unit = begin; unit < end; ++unit) {
    Band band = band_of(plan, bands, unit);
    const Size columns = std::min(most, across.size - band.first);
    pack(band.far, column, columns * plan.width, buffer);
    for (Size row = 0; row < along.size; ++row) {
      Size at[kBandBytes];
      Size listed[kBandBytes];
      Size kept = 0;
      for (Size c = 0; c < columns; ++c) {
        std::uint64_t place = 0;
        const bool inside = Rule::place(load<Index>(band.index + c * Size{sizeof(Index)}), column,
                                        place);
        if (!inside && !Rule::fills) return false;
        at[kept] = static_cast<Size>(place * std::uint64_t{kBandBytes}) + c * plan.width;
        listed[kept] = c * plan.width;
        kept += inside;
      }
      store(plan, buffer, at, {band.near, plan.width, kept == columns ? nullptr : listed}, kept);
      band.index += along.index;
      band.near += along.near;
    }
    for (Size e = 0; e < column.extent; ++e) {
      std::memcpy(band.far + e * column.stride, buffer + e * kBandBytes,
                  static_cast<std::size_t>(columns * plan.width));
    }
  }
  return true;
}

inline bool scatter_bands(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                          char* buffer) noexcept {
  return with_rule(plan.mode, [&](auto rule) {
    return with_index_type(plan.index_type, [&](auto index) {
      return scatter_bands_of<decltype(rule), decltype(index)>(plan, store, bands, begin, end,
                                                               buffer);
    });
  });
}

}  // namespace ndgather::NDGATHER_ISA
