// group.cpp - finding the chunks of coordinates, sorting points by chunk, moving points and looking them up; see group.h.
#include "group.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>

namespace ndgather {
namespace {

int bits_for(Size count) { return count <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1))); }

// Includes one more axis in the chunk numbers and places of n points. Chunk numbers are in C order: with 3 chunks along the
// new axis, chunk 2 along the previous axes and chunk 1 along the new axis give 2 * 3 + 1 = 7.
template <class ChunkOf, class BeginOf>
void add_axis(const GridAxis& axis, const Size* at, Size n, std::uint64_t* __restrict keys, std::uint64_t* __restrict places,
              ChunkOf chunk_of, BeginOf begin_of) {
  const std::uint64_t mask = (std::uint64_t{1} << axis.bits) - 1, chunks = static_cast<std::uint64_t>(axis.chunks);
  for (Size i = 0; i < n; ++i) {
    const std::uint64_t coordinate = static_cast<std::uint64_t>(at[i]) >> axis.shift & mask;
    const std::uint64_t chunk = chunk_of(coordinate);
    keys[i] = keys[i] * chunks + chunk;
    places[i] += (coordinate - begin_of(chunk)) * axis.local_stride;
  }
}

// Calls add_axis with the fastest division by the chunk length. With chunks of 8, coordinate 29 is in chunk 29 >> 3 = 3, at
// 29 - 24 = 5.
void split_axis(const GridAxis& axis, const Size* at, Size n, std::uint64_t* keys, std::uint64_t* places) {
  const auto step = static_cast<std::uint64_t>(axis.step);
  const auto begin_of = [=](std::uint64_t chunk) { return chunk * step; };
  if (axis.step == 0) {  // irregular chunks: with cuts 0 3 3 10, coordinate 3 is in chunk 2, the last chunk that begins at 3
    const Size *const cuts = axis.cuts, *const last = cuts + std::max<Size>(axis.chunks, 1);
    const auto chunk_of = [=](std::uint64_t c) {
      return static_cast<std::uint64_t>(std::upper_bound(cuts + 1, last, Size(c)) - cuts - 1);
    };
    add_axis(axis, at, n, keys, places, chunk_of,
             [=](std::uint64_t chunk) { return static_cast<std::uint64_t>(cuts[chunk]); });
  } else if (std::has_single_bit(step)) {
    const int shift = std::countr_zero(step);
    add_axis(axis, at, n, keys, places, [=](std::uint64_t c) { return c >> shift; }, begin_of);
  } else if (std::max(axis.size, axis.step) <= Size{std::numeric_limits<Narrow>::max()}) {  // 32-bit divisions are faster
    const auto narrow = static_cast<Narrow>(axis.step);
    const auto chunk_of = [=](std::uint64_t c) -> std::uint64_t { return static_cast<Narrow>(c) / narrow; };
    add_axis(axis, at, n, keys, places, chunk_of, begin_of);
  } else {
    add_axis(axis, at, n, keys, places, [=](std::uint64_t c) { return c / step; }, begin_of);
  }
}

// Places have 8 bytes if `wide`, and otherwise 4. They are copied as bytes, because their type is known only at run time.
void store_place(char* places, Size i, bool wide, std::uint64_t place) {
  const auto narrow = static_cast<std::uint32_t>(place);
  wide ? std::memcpy(places + i * 8, &place, 8) : std::memcpy(places + i * 4, &narrow, 4);
}

std::uint64_t load_place(const char* places, Size i, bool wide) {
  std::uint64_t place;
  std::uint32_t narrow;
  if (wide) return std::memcpy(&place, places + i * 8, 8), place;
  return std::memcpy(&narrow, places + i * 4, 4), narrow;
}

// Sorts stably by one digit of the keys, in three steps: count each digit, turn the counts into start positions, and move
// every key to its start, which then advances. Digits 1 0 1 have counts 1 2 and starts 0 1, so the keys go to 1, 0, 2.
void sort_digit(SortedPoints& of, std::uint64_t least, int shift, const std::uint32_t* from, std::uint32_t* to) {
  std::uint32_t start[1 << kLimits.digit_bits] = {};
  const auto digit = [=](std::uint64_t key) { return (key - least) >> shift & ((1 << kLimits.digit_bits) - 1); };
  for (Size i = 0; i < of.n; ++i) ++start[digit(of.keys[i])];
  std::uint32_t before = 0;
  for (auto& each : start) before += std::exchange(each, before);
  for (Size i = 0; i < of.n; ++i) {
    const std::uint32_t at = start[digit(of.keys[i])]++;
    of.other_keys[at] = of.keys[i];
    to[at] = from[i];
  }
  std::swap(of.keys, of.other_keys);
}

// Copies n elements. Those whose source is null are filled.
template <Size Width>
void copy_elements(const Plan& plan, Size begin, const char* const* from, Size n) {
  const Size width = Width > 0 ? Width : plan.element;
  char* const to = plan.dense + begin * width;
  for (Size i = 0; i < n; ++i) {
    const char* const source = from[i] != nullptr ? from[i] : plan.fill;
    const auto bytes = static_cast<std::size_t>(width);
    source != nullptr ? std::memcpy(to + i * width, source, bytes) : std::memset(to + i * width, 0, bytes);
  }
}

}  // namespace

bool PointGrid::complete() {
  int bits = 0;
  for (int d = rank - 1; d >= 0; --d) {
    GridAxis& each = axis[d];
    Size longest = std::min(each.step, each.size);
    if (each.step == 0) {
      for (Size c = 0; c < each.chunks; ++c) longest = std::max(longest, each.cuts[c + 1] - each.cuts[c]);
    }
    each.bits = bits_for(each.size);
    each.local_bits = bits_for(longest);
    each.shift = std::exchange(bits, bits + each.bits);
    each.local_stride = std::uint64_t{1} << std::exchange(local_bits, local_bits + each.local_bits);
    // An axis may have more chunks than coordinates if chunks are empty, so the number of chunks may overflow as well.
    const auto more = static_cast<std::uint64_t>(each.chunks);
    if (bits > 63 || (more != 0 && chunks > PTRDIFF_MAX / more)) return false;
    chunks *= more;
  }
  return true;
}

bool sort_points(const Plan& plan, const PointGrid& grid, Size begin, SortedPoints& of, char* places,
                 std::uint32_t* positions) noexcept {
  of.keys = reinterpret_cast<std::uint64_t*>(of.memory.memory());
  of.other_keys = of.keys + of.n;
  std::uint64_t* const unsorted = of.other_keys + of.n;
  std::uint64_t least = UINT64_MAX, most = 0;
  for (Size done = 0; done < of.n; done += kLimits.point_tile) {
    Size at[kLimits.point_tile];
    const Size n = std::min(of.n - done, kLimits.point_tile);
    std::uint64_t *const keys = of.keys + done, *const split = unsorted + done;
    if (!loops().record_offsets(plan, begin + done, begin + done + n, {at})) return false;
    std::fill_n(keys, n, 0);
    std::fill_n(split, n, 0);
    for (int d = 0; d < grid.rank; ++d) split_axis(grid.axis[d], at, n, keys, split);
    for (Size i = 0; i < n; ++i) {
      if (at[i] == kOutside) keys[i] = grid.chunks;  // the group of out-of-bounds points follows all chunks
      least = std::min(least, keys[i]);
      most = std::max(most, keys[i]);
    }
  }
  // Sort by the difference from the lowest key. For chunks 5,000 to 5,100, it is at most 100 (7 bits), so one pass is enough.
  const int bits = of.n == 0 ? 0 : static_cast<int>(std::bit_width(most - least));
  const int passes = (bits + kLimits.digit_bits - 1) / kLimits.digit_bits;
  std::uint32_t *from = reinterpret_cast<std::uint32_t*>(unsorted + of.n), *to = positions;
  if (passes % 2 == 0) std::swap(from, to);  // the last pass writes to `positions`
  for (Size i = 0; i < of.n; ++i) from[i] = static_cast<std::uint32_t>(i);
  for (int pass = 0; pass < passes; ++pass, std::swap(from, to)) {
    sort_digit(of, least, pass * kLimits.digit_bits, from, to);
  }
  for (Size i = 0; i < of.n; ++i) {
    store_place(places, i, grid.is_wide(), unsorted[positions[i]]);
    of.groups += i == 0 || of.keys[i] != of.keys[i - 1];
  }
  return true;
}

void list_groups(const SortedPoints& of, Size* chunks, Size* starts) noexcept {
  for (Size i = 0; i < of.n; ++i) {
    if (i > 0 && of.keys[i] == of.keys[i - 1]) continue;
    *chunks++ = static_cast<Size>(of.keys[i]);
    *starts++ = i;
  }
}

// Places and positions come from Python, so the points of a tile are checked before they are moved. A place in a chunk (4, 4)
// is decoded from its last axis: 0b0110 has column 0b10 = 2 and then row 0b01 = 1. Any other bits are out of bounds.
bool PointMove::run(const char* places, const std::uint32_t* positions, Size n, Size base) const noexcept {
  Size in_chunk[kLimits.point_tile], in_dense[kLimits.point_tile];
  for (Size done = 0; done < n; done += kLimits.point_tile) {
    const Size part = std::min(n - done, kLimits.point_tile);
    bool inside = true;
    for (Size i = 0; i < part; ++i) {
      std::uint64_t place = load_place(places, done + i, is_wide);
      std::uint64_t position = static_cast<std::uint64_t>(base) + positions[done + i];
      Size at = 0;
      for (int d = chunk_rank - 1; d >= 0; --d) {
        const auto coordinate = static_cast<Size>(place & ((std::uint64_t{1} << chunk[d].bits) - 1));
        inside &= coordinate < chunk[d].size;
        at += coordinate * chunk[d].stride;
        place >>= chunk[d].bits;
      }
      inside &= place == 0;
      in_chunk[i] = at;
      at = 0;
      for (int d = plan.loop_rank - 1; d > 0; --d) {
        const auto size = static_cast<std::uint64_t>(plan.loop[d].size);
        at += static_cast<Size>(position % size) * plan.loop[d].dense;
        position /= size;
      }
      inside &= position < static_cast<std::uint64_t>(plan.loop[0].size);
      in_dense[i] = at + static_cast<Size>(position) * plan.loop[0].dense;
      prefetch(plan.dense + (to_dense ? in_chunk[i] : in_dense[i]));
      prefetch<true>(plan.indexed + (to_dense ? in_dense[i] : in_chunk[i]));
    }
    if (!inside) return false;
    store(plan, to_dense ? in_dense : in_chunk, {0, 0, to_dense ? in_chunk : in_dense}, part);
  }
  return true;
}

std::uint64_t next_use() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool ChunkTable::set_up(int axes, const Size* shape, const Size* steps, Size bytes) noexcept {
  grid.rank = axes;
  for (int d = 0; d < axes; ++d) {
    const Size step = std::clamp<Size>(shape[d], 1, steps[d]);
    grid.axis[d] = {shape[d], divide_up(shape[d], step), step, nullptr, 0, 0, 0, 0};
  }
  if (!grid.complete() || grid.chunks > std::uint64_t{kLimits.chunks}) return false;
  element = bytes;
  count = static_cast<Size>(grid.chunks);
  Size stride = element;
  for (int d = axes - 1; d >= 0; --d) {
    grid.axis[d].local_stride = static_cast<std::uint64_t>(stride);
    if (stride > PTRDIFF_MAX / 2 / grid.axis[d].step) return false;
    stride *= grid.axis[d].step;
  }
  entries.reset(new (std::nothrow) Entry[static_cast<std::size_t>(count)]);
  return entries != nullptr;
}

void ChunkTable::set(Size first, Size last, const char* bytes) noexcept {
  changing.store(true);
  while (users.load() != 0) std::this_thread::yield();
  for (Size c = first; c < last; ++c) entries.get()[c].bytes.store(bytes, std::memory_order_release);
  changing.store(false);
}

bool ChunkTable::look_up(const Plan& plan, Size* listed, Size most, Found& found) noexcept {
  for (;; users.fetch_sub(1)) {
    while (changing.load()) std::this_thread::yield();
    users.fetch_add(1);
    if (!changing.load()) break;
  }
  const std::uint64_t now = next_use();
  bool inside = true;
  for (Size done = 0; done < plan.positions && inside; done += kLimits.point_tile) {
    const Size n = std::min(plan.positions - done, kLimits.point_tile);
    Size at[kLimits.point_tile];
    std::uint64_t number[kLimits.point_tile] = {}, offset[kLimits.point_tile] = {};
    const char* from[kLimits.point_tile];
    inside = loops().record_offsets(plan, done, done + n, {at});
    for (int d = 0; d < grid.rank; ++d) split_axis(grid.axis[d], at, n, number, offset);
    for (Size i = 0; i < n && inside; ++i) {
      from[i] = nullptr;
      if (at[i] == kOutside) continue;
      Entry& entry = entries.get()[number[i]];
      const char* const bytes = entry.bytes.load(std::memory_order_acquire);
      if (entry.last_use.load(std::memory_order_relaxed) < now) {
        entry.last_use.store(now, std::memory_order_relaxed);
        found.hits += bytes != nullptr;
        if (bytes == nullptr && found.listed < most) listed[found.listed++] = static_cast<Size>(number[i]);
      }
      found.missing += bytes == nullptr;
      from[i] = bytes == nullptr ? nullptr : bytes + offset[i];
      prefetch(from[i]);
    }
    if (!inside || found.missing > 0) continue;
    switch (element) {
      case 1: copy_elements<1>(plan, done, from, n); break;
      case 2: copy_elements<2>(plan, done, from, n); break;
      case 4: copy_elements<4>(plan, done, from, n); break;
      case 8: copy_elements<8>(plan, done, from, n); break;
      default: copy_elements<0>(plan, done, from, n);
    }
  }
  users.fetch_sub(1);
  return inside;
}

}  // namespace ndgather
