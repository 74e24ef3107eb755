// bands.h - gathering where neighbouring positions look into neighbouring columns of data, each at a
// row of its own.
//
// With row strides that are a power of two all those rows fight for the same few cache sets. Instead
// a band of columns is packed into a buffer that stays near, and all looks into these columns are made
// there.
#pragma once

#include <algorithm>

#include "choose.h"
#include "gather.h"

namespace ndgather::NDGATHER_ISA {

// One band: its size, and where it begins in each array.
struct Band {
  Size columns;
  const char* index;
  char* far;
  char* near;
};

inline Band band_of(const Plan& plan, const Bands& bands, Size unit) noexcept {
  const Position& across = plan.position[plan.position_rank - (bands.across ? 1 : 2)];
  const Size border = unit % bands.per_plane * bands.columns - bands.lead;
  const Size first = std::max<Size>(border, 0);
  Size plane = unit / bands.per_plane;
  Band band{std::min(border + bands.columns, across.size) - first, plan.indices + first * across.index,
            plan.far + first * across.far, plan.near + first * across.near};
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

// Asks for all lines of some bytes, which are one more where they begin within a line: NumPy's large arrays
// lie 16 bytes behind one. Without that one 4096 x 4096 floats take 1.05 to 1.1 of the time, sets and adds 1.3
// to 1.5.
[[gnu::always_inline]] inline void prefetch_bytes(const char* at, Size bytes) noexcept {
#pragma GCC unroll 8
  for (Size b = 0; b < bytes; b += kLine) prefetch(at + b);
  prefetch(at + bytes - 1);
}

// Packs `bytes` of every row into a row of 1 << shift bytes.
inline void pack(const char* far, const Column& column, Size bytes, int shift, char* buffer)
    noexcept {
  const Size lines = bytes / kLine * kLine;
  for (Size e = 0; e < column.extent; ++e) {
    const char* const from = far + e * column.stride;
    char* const to = buffer + (e << shift);
    prefetch_bytes(from + 8 * column.stride, bytes);
    for (Size b = 0; b < lines; b += kLine) std::memcpy(to + b, from + b, kLine);
    if (lines < bytes) std::memcpy(to + lines, from + lines, static_cast<std::size_t>(bytes - lines));
  }
}

// Calls visit(packed, index, near, n, step) for runs of at most kBandBytes / Width positions in C
// order: position i of a run looks into the column that begins at packed + i * step.
template <int Width, class Visit>
bool each_band_run(const Plan& plan, const Bands& bands, const Band& band, char* buffer, Visit visit)
    noexcept {
  const Position& outer = plan.position[plan.position_rank - 2];
  const Position& inner = plan.position[plan.position_rank - 1];
  const Size run = bands.across ? band.columns : inner.size;
  const Size rows = bands.across ? outer.size : band.columns;
  const char* index = band.index;
  char* near = band.near;
  for (Size row = 0; row < rows; ++row, index += outer.index, near += outer.near) {
    for (Size done = 0; done < run; done += kBandBytes / Width) {
      const Size n = std::min(kBandBytes / Width, run - done);
      const char* const first = index + done * inner.index;
      char* const to = near + done * Width;
      if (bands.across) {
        prefetch_bytes(first + 4 * outer.index, n * inner.index);
        if (!visit(buffer, first, to, n, Size{Width})) return false;
      } else {
        if (!visit(buffer + row * Width, first, to, n, Size{0})) return false;
      }
    }
  }
  return true;
}

// Writes at[0..n) for n index values that follow each other: offsets into packed rows, and `step`
// more from each to the next. As offsets() in offsets.h.
template <class Rule, class Index>
bool band_offsets(Column column, const char* index, Size n, int shift, Size step, Size* at)
    noexcept {
  std::uint64_t good = 1;  // as wide as the offsets, so that the loop is vectorised
  for (Size i = 0; i < n; ++i) {
    std::uint64_t place = 0;
    const bool inside = Rule::place(load<Index>(index + i * Size{sizeof(Index)}), column, place);
    const auto offset = static_cast<Size>(place << shift) + i * step;
    at[i] = inside || !Rule::fills ? offset : kNowhere;
    good &= std::uint64_t{inside};
  }
  return good != 0;
}

using BandOffsets = bool (*)(Column, const char*, Size, int, Size, Size*) noexcept;

inline BandOffsets pick_band_offsets(const Plan& plan) noexcept {
  return with_rule(plan.mode, [&](auto rule) {
    return with_index_type(plan.index_type, [&](auto index) -> BandOffsets {
      return band_offsets<decltype(rule), decltype(index)>;
    });
  });
}

// Calls visit(offsets, width) with the policies of a plan that choose_bands has taken. Those of the common
// calls are known where they are compiled: memory is then read ahead by the hardware too, which goes by
// the instruction (4096 x 4096 floats: 0.8 of the time of a call through a pointer).
template <class Visit>
bool with_band(const Plan& plan, Visit visit) noexcept {
  const auto with_width = [&](auto offsets) {
    switch (plan.width) {
      case 1: return visit(offsets, std::integral_constant<int, 1>{});
      case 2: return visit(offsets, std::integral_constant<int, 2>{});
      case 4: return visit(offsets, std::integral_constant<int, 4>{});
      case 8: return visit(offsets, std::integral_constant<int, 8>{});
      default: return visit(offsets, std::integral_constant<int, 16>{});
    }
  };
  if (plan.mode == Mode::raise && plan.index_type == IndexType::i64) {
    return with_width(std::integral_constant<BandOffsets, band_offsets<Raise, std::int64_t>>{});
  }
  if (plan.mode == Mode::raise && plan.index_type == IndexType::i32) {
    return with_width(std::integral_constant<BandOffsets, band_offsets<Raise, std::int32_t>>{});
  }
  return with_width(pick_band_offsets(plan));
}

// The bands [begin, end) of a plan.
template <int Width>
bool gather_bands_of(const Plan& plan, const Bands& bands, Size begin, Size end, char* buffer,
                     auto offsets) noexcept {
  const Column& column = plan.column[0];
  const Streaming streaming{bands.streams};
  for (Size unit = begin; unit < end; ++unit) {
    const Band band = band_of(plan, bands, unit);
    pack(band.far, column, band.columns * Width, bands.shift, buffer);
    const bool good = each_band_run<Width>(
        plan, bands, band, buffer,
        [&](const char* packed, const char* index, char* near, Size n, Size step) {
          Size at[kBandBytes / Width];
          if (BandOffsets{offsets}(column, index, n, bands.shift, step, at)) {
            if (bands.streams && bytes_after(near, kLine) == 0 && n * Width % kLine == 0) {
              stream_elements<Width>(near, packed, at, n);
            } else {
              copy_elements<Width>(near, packed, at, n);
            }
            return true;
          }
          if (plan.mode != Mode::fill) return false;
          for (Size i = 0; i < n; ++i) {
            if (at[i] != kNowhere) {
              std::memcpy(near + i * Width, packed + at[i], Width);
            } else {
              fill(plan, near + i * Width, Width);
            }
          }
          return true;
        });
    if (!good) return false;
  }
  return true;
}

inline bool gather_bands(const Plan& plan, const Bands& bands, Size begin, Size end, char* buffer)
    noexcept {
  return with_band(plan, [&](auto offsets, auto width) {
    return gather_bands_of<decltype(width)::value>(plan, bands, begin, end, buffer, offsets);
  });
}

}  // namespace ndgather::NDGATHER_ISA
