// scatter.h - stores that assign or reduce, and the scatter loop, which is a gather with the arrays swapped.
#pragma once

#include <bit>

#include "gather.h"
#include "reduction.h"

namespace ndgather::NDGATHER_ISA {

// Reduces all elements of a piece of `Bytes` bytes at once.
template <Reduction R, class T, Size Bytes>
[[gnu::always_inline]] inline void reduce_piece(char* to, const char* from) noexcept {
  if constexpr (Bytes == Size{sizeof(T)}) {
    reduce_element<R, T>(to, from);
  } else if constexpr (Bytes > Size{sizeof(T)}) {
    T old[Bytes / Size{sizeof(T)}], update[Bytes / Size{sizeof(T)}];
    std::memcpy(old, to, Bytes);
    std::memcpy(update, from, Bytes);
    for (Size e = 0; e < Bytes / Size{sizeof(T)}; ++e) old[e] = reduce<R, T>(old[e], update[e]);
    std::memcpy(to, old, Bytes);
  }
}

template <Reduction R, class T>
[[gnu::noinline]] void reduce_long(char* __restrict to, const char* __restrict from, Size bytes) noexcept {
  Size b = 0;
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) <= 8) {
    // Rows may begin anywhere in a cache line, and a register of a whole line would then access two lines.
    const Size end = bytes <= kLimits.half_lines ? bytes - kLine / 2 : -1;
    for (; b <= end; b += kLine / 2) reduce_piece<R, T, kLine / 2>(to + b, from + b);
  }
  for (; b < bytes; b += Size{sizeof(T)}) reduce_element<R, T>(to + b, from + b);
}

// Reduces a run of elements. Types that vector registers support are reduced in pieces of 16 bytes, followed by the powers
// of two that make up the rest: 44 bytes of float32 are two pieces of 16, one of 8 and one of 4.
template <Reduction R, class T>
[[gnu::always_inline]] inline void reduce_run(char* to, const char* from, Size bytes) noexcept {
  if (bytes >= 2 * kLine) return reduce_long<R, T>(to, from, bytes);
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) <= 8) {
    const char* const end = to + bytes / 16 * 16;
#pragma GCC unroll 1
    for (; to != end; to += 16, from += 16) reduce_piece<R, T, 16>(to, from);
    const auto rest = [&](auto piece) {
      if ((bytes & piece()) == 0) return;
      reduce_piece<R, T, piece()>(to, from);
      to += piece();
      from += piece();
    };
    rest(std::integral_constant<Size, 8>{});
    rest(std::integral_constant<Size, 4>{});
    rest(std::integral_constant<Size, 2>{});
    rest(std::integral_constant<Size, 1>{});
  } else {
    for (Size b = 0; b < bytes; b += Size{sizeof(T)}) reduce_element<R, T>(to + b, from + b);
  }
}

// Reduces all runs along the last dim of a slice.
template <Reduction R, class T>
[[gnu::noinline]] void reduce_line(char* to, const char* from, const Dim& line, Size width) noexcept {
  if (width == Size{sizeof(T)}) {
    for (Size e = 0; e < line.size; ++e) reduce_element<R, T>(to + e * line.indexed, from + e * line.dense);
  } else {
    for (Size e = 0; e < line.size; ++e) reduce_run<R, T>(to + e * line.indexed, from + e * line.dense, width);
  }
}

// All types share one loop, because a loop for each type would double the core, and a function call per line costs little.
[[gnu::noinline]] inline void reduce_lines(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n,
                                           void (*reduce)(char*, const char*, const Dim&, Size) noexcept) noexcept {
  const int outer = plan.slice_rank - 1;
  each_place<false>(plan, outer, at, updates, n,
                    [&](char* to, const char* from) { reduce(to, from, plan.slice[outer], plan.width); });
}

template <Reduction R, class T>
void store_reduced(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  if (plan.slice_rank > 0) return reduce_lines(plan, at, updates, n, reduce_line<R, T>);
  char* const to = plan.indexed;
  const char* const from = plan.dense;
  if (plan.width == Size{sizeof(T)}) {
    return each_single_run(at, updates, n,
                           [=](Size indexed, Size dense) { reduce_element<R, T>(to + indexed, from + dense); });
  }
  const auto rows = [&, first = updates.first, step = updates.step, listed = updates.listed](auto width) {
    for (Size i = 0; i < n; ++i) {
      if (listed == nullptr) prefetch(from + first + (i + kLimits.parts_ahead) * step);
      reduce_run<R, T>(to + at[i], from + (listed != nullptr ? listed[i] : first + i * step), width);
    }
  };
  switch (plan.width) {
    case 8: return rows(std::integral_constant<Size, 8>{});
    case 16: return rows(std::integral_constant<Size, 16>{});
    case 32: return rows(std::integral_constant<Size, 32>{});
    case 64: return rows(std::integral_constant<Size, 64>{});
    default: return rows(plan.width);
  }
}

// Reduces one-byte elements of types that C++ lacks, using a table with the result for each pair.
inline void store_table(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  each_place<false>(plan, plan.slice_rank, at, updates, n,
                    [table = plan.table, width = plan.width](char* to, const char* from) {
                      for (Size b = 0; b < width; ++b) {
                        to[b] = table[static_cast<unsigned char>(to[b]) * 256 + static_cast<unsigned char>(from[b])];
                      }
                    });
}

template <class T>
Store pick_reduced(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::add: return store_reduced<Reduction::add, T>;
    case Reduction::sub: return store_reduced<Reduction::sub, T>;
    case Reduction::mul: return store_reduced<Reduction::mul, T>;
    case Reduction::min: return store_reduced<Reduction::min, T>;
    default: return store_reduced<Reduction::max, T>;
  }
}

// Complex numbers are added part by part. They have no minimum or maximum.
template <class Part>
Store pick_complex(Reduction reduction) noexcept {
  if (reduction == Reduction::mul) return store_reduced<Reduction::mul, std::complex<Part>>;
  return reduction == Reduction::add || reduction == Reduction::sub ? pick_reduced<Part>(reduction) : nullptr;
}

inline Store pick_store(const Plan& plan, Reduction reduction, ElementType type, bool nontemporal) noexcept {
  if (reduction == Reduction::none) return pick_move<false>(plan, nontemporal);
  switch (type) {
    case ElementType::i8: return pick_reduced<std::int8_t>(reduction);
    case ElementType::i16: return pick_reduced<std::int16_t>(reduction);
    case ElementType::i32: return pick_reduced<std::int32_t>(reduction);
    case ElementType::i64: return pick_reduced<std::int64_t>(reduction);
    case ElementType::u8: return pick_reduced<std::uint8_t>(reduction);
    case ElementType::u16: return pick_reduced<std::uint16_t>(reduction);
    case ElementType::u32: return pick_reduced<std::uint32_t>(reduction);
    case ElementType::u64: return pick_reduced<std::uint64_t>(reduction);
    case ElementType::f16: return pick_reduced<Half>(reduction);
    case ElementType::bf16: return pick_reduced<BFloat>(reduction);
    case ElementType::f32: return pick_reduced<float>(reduction);
    case ElementType::f64: return pick_reduced<double>(reduction);
    case ElementType::long_double: return pick_reduced<long double>(reduction);
    case ElementType::c64: return pick_complex<float>(reduction);
    case ElementType::c128: return pick_complex<double>(reduction);
    case ElementType::complex_long_double: return pick_complex<long double>(reduction);
    case ElementType::boolean: return pick_reduced<Bool>(reduction);
    case ElementType::table: return store_table;
    default: return nullptr;
  }
}

// A block of updates, some of which may be dropped.
struct Updates : Block {
  Size listed[kLimits.block];
};

// Removes out-of-bounds updates from a block, and keeps the others in order.
inline void drop_outside(Updates& block) noexcept {
  Size kept = 0;
  for (Size i = 0; i < block.n; ++i) {
    const Size at = block.at[i];
    block.at[kept] = at;
    block.listed[kept] = block.listed[i];
    kept += Size{at != kOutside};
  }
  block.n = kept;
}

// See Loops::scatter.
inline bool scatter(const Plan& plan, const Schedule& schedule, Store store, Size begin, Size end) noexcept {
  const Size step = plan.inner().dense;
  const bool good = walk_blocks<Updates, true>(plan, schedule, begin, end, [&](Updates& block) {
    const bool all = block.good;
    for (Size i = 0; i < block.n && !all; ++i) block.listed[i] = block.dense + i * step;
    if (!all) drop_outside(block);
    move_some<false>(plan, schedule, store, block.at, {block.dense, step, all ? nullptr : block.listed}, block.n);
  });
  if (schedule.nontemporal) finish_writes();
  return good;
}

// Scatters whose destination is divided among threads. First, all index tuples are checked and their offsets are recorded.
// Then each owner reads all recorded offsets and applies the updates of its part in order.

template <class Out>
bool record_offsets_as(const Plan& plan, Size begin, Size end, const Records& records) noexcept {
  const Walk<Out> walk(plan);
  Cursor cursor(plan, begin);
  cursor.base -= records.lowest;
  auto* out = static_cast<Out*>(records.memory);
  Stop::Pace pace;
  for (Size left = end - begin; left > 0;) {
    if (plan.stop != nullptr && plan.stop->reached(pace)) return false;
    const Size n = std::min({left, cursor.left, kLimits.block});
    if (!walk.block(cursor, n, out) && !plan.fills()) return false;
    out += n;
    left -= n;
    cursor.advance(n);
  }
  return true;
}

inline bool record_offsets(const Plan& plan, Size begin, Size end, const Records& records) noexcept {
  return (records.narrow ? record_offsets_as<Narrow> : record_offsets_as<Size>)(plan, begin, end, records);
}

// A block of updates of one owner: copies of elements of Carried bytes or, if Carried is 0, the offsets of the updates.
template <int Carried>
struct Owned : Updates {
  char carried[std::max(Carried, 1) * kLimits.block];
};

// The range of recorded offsets that belongs to one owner.
struct OwnedRange {
  Size first;
  std::uint64_t size;
  Size lowest, step;  // the offset that was recorded as 0, and the stride of the updates in bytes
};

#if defined(__AVX512F__)
// Stores sixteen 32-bit numbers as 64-bit numbers, multiplied by `factor` and added to `first`.
inline void store_wide(Size* to, __m512i numbers, Size factor, Size first) noexcept {
  const __m256i halves[] = {_mm512_maskz_extracti64x4_epi64(0xF, numbers, 0),
                            _mm512_maskz_extracti64x4_epi64(0xF, numbers, 1)};
  for (const __m256i& half : halves) {
    const __m512i wide = _mm512_maskz_cvtepu32_epi64(0xFF, half);
    const __m512i scaled = factor == 1 ? wide : _mm512_mullo_epi64(wide, _mm512_set1_epi64(factor));
    _mm512_storeu_si512(to, _mm512_add_epi64(scaled, _mm512_set1_epi64(first)));
    to += 8;
  }
}
#endif

// Goes through n updates, which begin at offset `dense` in `array`, and appends an owner's updates to `own`. A branch could
// not be predicted, so there is none: each update is written past the end of `own`, whose length then grows only if the
// update is the owner's.
template <int Carried, class At>
void pick_owned(Owned<Carried>& own, const OwnedRange& range, const At* offsets, Size n, const char* array,
                Size dense) noexcept {
  Size kept = own.n, i = 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(At) == 4) {
    const __m512i first = _mm512_set1_epi32(static_cast<int>(range.first));
    const __m512i size = _mm512_set1_epi32(static_cast<int>(range.size));
    const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (; i + 16 <= n; i += 16) {
      const __m512i at = _mm512_loadu_si512(offsets + i);
      const __mmask16 mine = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(at, first), size);
      unsigned lanes = mine;
      asm("" : "+r"(lanes));  // GCC 12 may keep the mask in memory, and read more of it than it has written
      store_wide(own.at + kept, _mm512_maskz_compress_epi32(mine, at), 1, range.lowest);
      const char* const updates = array + dense + i * Carried;
      if constexpr (Carried == 4) {
        _mm512_storeu_si512(own.carried + kept * 4, _mm512_maskz_compress_epi32(mine, _mm512_loadu_si512(updates)));
      } else if constexpr (Carried == 8) {
        const auto low = static_cast<__mmask8>(lanes), high = static_cast<__mmask8>(lanes >> 8);
        char* const to = own.carried + kept * 8;
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(updates)));
        _mm512_storeu_si512(to + std::popcount(lanes & 0xFF) * 8,
                            _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(updates + kLine)));
      } else {
        store_wide(own.listed + kept, _mm512_maskz_compress_epi32(mine, count), range.step, dense + i * range.step);
      }
      kept += std::popcount(lanes);
    }
  }
#endif
  for (; i < n; ++i) {
    const auto at = static_cast<Size>(offsets[i]);
    own.at[kept] = at + range.lowest;
    if constexpr (Carried > 0) {
      std::memcpy(own.carried + kept * Carried, array + dense + i * Carried, Carried);
    } else {
      own.listed[kept] = dense + i * range.step;
    }
    kept += Size{static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(range.first) < range.size};
  }
  own.n = kept;
}

template <int Carried, class At>
void apply_owned_as(const Plan& plan, const Schedule& schedule, Store store, const Partition& partition, int owner) noexcept {
  const Size first = partition.border[owner], end = partition.border[owner + 1];
  const OwnedRange range{first, static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(first), partition.offsets.lowest,
                         plan.inner().dense};
  // Reads half a block of offsets at a time until more than half a block of updates is found, so the block never overflows.
  const Size part = std::max<Size>(block_size(plan, {}) / 2, 1);
  const At* offsets = static_cast<const At*>(partition.offsets.memory);
  Cursor cursor(plan, partition.begin);
  Size left = partition.end - partition.begin;
  Stop::Pace pace;
  const auto fill = [&](Owned<Carried>& own) {
    own.n = 0;
    if (plan.stop != nullptr && plan.stop->reached(pace)) return false;
    while (left > 0 && own.n <= part) {
      const Size n = std::min({left, part, cursor.left});
      prefetch_lines(reinterpret_cast<const char*>(offsets) + kTuning.index_ahead, n * Size{sizeof(At)});
      pick_owned(own, range, offsets, n, plan.dense, cursor.dense);
      offsets += n;
      left -= n;
      cursor.advance(n);
    }
    return true;
  };
  Plan carried = plan;
  const PrefetchBlock<true> prefetch_block{plan, !schedule.nontemporal};
  const auto use = [&](Owned<Carried>& own) {
    if (Carried > 0) carried.dense = own.carried;
    store(carried, own.at, {0, Carried, Carried > 0 ? nullptr : own.listed}, own.n);
  };
  each_block<Owned<Carried>>(schedule.prefetch, fill, prefetch_block, use);
  if (schedule.nontemporal) finish_writes();
}

inline void apply_owned(const Plan& plan, const Schedule& schedule, Store store, const Partition& partition,
                        int owner) noexcept {
  const Size carried = plan.slice_rank == 0 && plan.inner().dense == plan.width ? plan.width : 0;
  const auto apply = !partition.offsets.narrow ? apply_owned_as<0, Size>
                     : carried == 4            ? apply_owned_as<4, Narrow>
                     : carried == 8            ? apply_owned_as<8, Narrow>
                                               : apply_owned_as<0, Narrow>;
  apply(plan, schedule, store, partition, owner);
}

}  // namespace ndgather::NDGATHER_ISA
