// scatter.h - the loop behind every scatter: the walk of a gather with the two arrays swapped.
#pragma once

#include <algorithm>

#include "bands.h"
#include "gather.h"
#include "store.h"

namespace ndgather::NDGATHER_ISA {

// Keeps of n offsets those that name a place, in order, lists where their updates are, and returns how
// many there are.
inline Size keep_places(Size* offsets, Size n, Size* listed, Size step) noexcept {
  Size kept = 0;
  for (Size i = 0; i < n; ++i) {
    const Size at = offsets[i];
    offsets[kept] = at;
    listed[kept] = i * step;
    kept += Size{at != kNowhere};
  }
  return kept;
}

// A block of updates, some of which may name no place.
struct Placed : Block {
  Size listed[kBlock];
};

// Applies the updates at `left` positions, block by block; fill(block, n) fills one with up to n of them, and
// returns whether it may be used.
template <class Fill>
bool scatter_blocks(const Plan& plan, Store store, Size left, Fill fill) noexcept {
  const Size step = plan.position[plan.position_rank - 1].near;
  const Size most = block_size(plan);
  const auto use = [&](const Placed& block) {
    store(plan, plan.far, block.at, {block.near, step, block.good ? nullptr : block.listed}, block.n);
  };
  Blocks<Placed> blocks(plan.patience);
  while (left > 0) {
    Placed& block = blocks.next();
    if (!fill(block, std::min(left, most))) return false;
    left -= block.n;
    if (!block.good) block.n = keep_places(block.at, block.n, block.listed, step);
    prefetch_ahead(plan, block.near, step, block.n);
    if (blocks.asks() && !plan.streams) prefetch_places<true>(plan.far, plan.width, block.at, block.n);
    blocks.take(use, left > 0);
  }
  blocks.finish(use);
  return true;
}

inline bool scatter(const Plan& plan, Store store, Size begin, Size end) noexcept {
  const Size step = plan.position[plan.position_rank - 1].near;
  const Streaming streaming{plan.streams};
  if (plan.asks_for_rows) {
    return walk_rows<true>(plan, begin, end, [&](Size* at, Size n, const char* near, bool good) {
      Size listed[kShortBlock];
      if (!good) n = keep_places(at, n, listed, step);
      store(plan, plan.far, at, {near, step, good ? nullptr : listed}, n);
    });
  }
  const Walk walk(plan, !plan.near_linear);
  Cursor cursor(plan, begin);
  return scatter_blocks(plan, store, end - begin, [&](Placed& block, Size want) {
    fill_block(block, cursor, walk, want);
    return block.good || plan.mode == Mode::fill;
  });
}

// Writes the packed rows back.
inline void unpack(const char* buffer, const Bands& bands, const Column& column, Size bytes, char* far)
    noexcept {
  const bool lines = bands.streams && column.stride % kLine == 0 && bytes_after(far, kLine) == 0 &&
                     bytes % kLine == 0;
  for (Size e = 0; e < column.extent; ++e) {
    char* const to = far + e * column.stride;
    const char* const from = buffer + (e << bands.shift);
    if (lines) {
      stream_pieces(to, from, bytes);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
  }
}

// The bands [begin, end) of a plan: packed, updated, and written back.
template <int Width>
bool scatter_bands_of(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                      char* buffer, auto offsets) noexcept {
  const Column& column = plan.column[0];
  const Streaming streaming{bands.streams};
  const char* const origin = plan.origin != nullptr ? plan.origin : plan.far;
  for (Size unit = begin; unit < end; ++unit) {
    const Band band = band_of(plan, bands, unit);
    pack(origin + (band.far - plan.far), column, band.columns * Width, bands.shift, buffer);
    const bool good = each_band_run<Width>(
        plan, bands, band, buffer,
        [&](char* packed, const char* index, const char* near, Size n, Size step) {
          if (bands.across) {
            prefetch_bytes(near + 4 * plan.position[plan.position_rank - 2].near, n * Width);
          }
          Size at[kBandBytes / Width];
          if (BandOffsets{offsets}(column, index, n, bands.shift, step, at)) {
            store(plan, packed, at, {near, Width, nullptr}, n);
            return true;
          }
          if (plan.mode != Mode::fill) return false;
          Size listed[kBandBytes / Width];
          const Size kept = keep_places(at, n, listed, Width);
          store(plan, packed, at, {near, Width, listed}, kept);
          return true;
        });
    if (!good) return false;
    unpack(buffer, bands, column, band.columns * Width, band.far);
  }
  return true;
}

inline bool scatter_bands(const Plan& plan, Store store, const Bands& bands, Size begin, Size end,
                          char* buffer) noexcept {
  return with_band(plan, [&](auto offsets, auto width) {
    return scatter_bands_of<decltype(width)::value>(plan, store, bands, begin, end, buffer, offsets);
  });
}

}  // namespace ndgather::NDGATHER_ISA
