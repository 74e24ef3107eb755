// gather.h - moving slices between the indexed and the dense array in either direction, and the loop that gathers.
//
// Moving an element requires its width, but not its dtype.
#pragma once

#include <utility>

#include "walk.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ndgather::NDGATHER_ISA {

// Calls visit(indexed offset, dense offset) for every position in the first `rank` dims of one slice. If these are all its
// dims, it visits all runs of plan.width bytes. Always inlined, so that the variables captured by `visit` stay in registers.
template <class Visit>
[[gnu::always_inline]] inline void each_run(const Plan& plan, int rank, Visit visit) noexcept {
  if (rank == 0) return visit(0, 0);
  const Dim inner = plan.slice[rank - 1];
  Size coordinate[kMaxRank];
  for (int d = 0; d < rank - 1; ++d) coordinate[d] = 0;
  Size indexed = 0, dense = 0;
  for (;;) {
#pragma GCC unroll 8
    for (Size e = 0; e < inner.size; ++e) visit(indexed + e * inner.indexed, dense + e * inner.dense);
    int d = rank - 2;
    for (; d >= 0; --d) {
      const Dim& dim = plan.slice[d];
      indexed += dim.indexed;
      dense += dim.dense;
      if (++coordinate[d] < dim.size) break;
      indexed -= dim.size * dim.indexed;
      dense -= dim.size * dim.dense;
      coordinate[d] = 0;
    }
    if (d < 0) return;
  }
}

// Calls visit(indexed offset, dense offset) for n slices of one run each.
template <class Visit>
[[gnu::always_inline]] inline void each_single_run(const Size* at, const DenseOffsets& dense, Size n, Visit visit) noexcept {
  if (dense.listed == nullptr) {
    const auto [first, step, none] = dense;
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) visit(at[i], first + i * step);
  } else {
    for (Size i = 0; i < n; ++i) visit(at[i], dense.listed[i]);
  }
}

// Calls visit(indexed offset, dense offset) for every position in the first `rank` dims of n slices, one slice after another.
template <class Visit>
[[gnu::always_inline]] inline void each_slice(const Plan& plan, int rank, const Size* at, const DenseOffsets& dense, Size n,
                                              Visit visit) noexcept {
  if (rank == 0) return each_single_run(at, dense, n, visit);
  for (Size i = 0; i < n; ++i) {
    const Size from = at[i], to = dense.listed != nullptr ? dense.listed[i] : dense.first + i * dense.step;
    each_run(plan, rank, [=](Size indexed, Size offset) { visit(from + indexed, to + offset); });
  }
}

// Calls move(to, from) for every position in the first `rank` dims of n slices. In a gather, `to` is in the dense array.
template <bool Gathers, class Move>
[[gnu::always_inline]] inline void each_place(const Plan& plan, int rank, const Size* at, const DenseOffsets& dense, Size n,
                                              Move move) noexcept {
  char *const to = Gathers ? plan.dense : plan.indexed, *const from = Gathers ? plan.indexed : plan.dense;
  each_slice(plan, rank, at, dense, n, [=](Size indexed, Size offset) {
    move(to + (Gathers ? offset : indexed), static_cast<const char*>(from) + (Gathers ? indexed : offset));
  });
}

// Offsets that are a constant step apart.
template <class Step>
struct Steps {
  Step step;
  Size operator[](Size i) const noexcept { return i * step; }
};

// Returns offsets i and i + 1. Two narrow offsets are loaded as one number, because the loads limit the speed of a gather.
template <int Width, class At>
[[gnu::always_inline]] inline std::pair<Size, Size> two_offsets(const At& at, Size i) noexcept {
  if constexpr (std::is_same_v<At, const std::uint32_t*> && Width >= 4 && std::endian::native == std::endian::little) {
    const auto both = load<std::uint64_t>(reinterpret_cast<const char*>(at + i));
    return {static_cast<Size>(both & UINT32_MAX), static_cast<Size>(both >> 32)};
  } else {
    return {static_cast<Size>(at[i]), static_cast<Size>(at[i + 1])};
  }
}

// Writes n adjacent elements; element i is read from at[i]. Elements are joined in a register, because one wide store costs
// less than several narrow ones: four float32 become one store of 16 bytes. `Past` bypasses the caches.
template <int Width, bool Past, class At>
[[gnu::always_inline]] inline void join_elements(char* to, const char* from, At at, Size n) noexcept {
  constexpr int kTogether = 16 % Width == 0 ? 16 / Width : 1;
  Size i = 0;
  for (; kTogether > 1 && i + kTogether <= n; i += kTogether) {
    char joined[kTogether * Width];
#pragma GCC unroll 16
    for (int e = 0; e < kTogether; e += 2) {
      const auto [first, second] = two_offsets<Width>(at, i + e);
      std::memcpy(joined + e * Width, from + first, Width);
      std::memcpy(joined + (e + 1) * Width, from + second, Width);
    }
#if defined(__SSE2__)
    if constexpr (Past) {
      const __m128i whole = _mm_loadu_si128(reinterpret_cast<const __m128i*>(joined));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i * Width), whole);
      continue;
    }
#endif
    std::memcpy(to + i * Width, joined, sizeof joined);
  }
#pragma GCC unroll 8
  for (; i < n; ++i) std::memcpy(to + i * Width, from + static_cast<Size>(at[i]), Width);
}

template <bool Gathers, int Width>
void move_elements(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n) noexcept {
  if (Gathers && plan.slice_rank > 0 && plan.slice[plan.slice_rank - 1].dense == Width) {
    const Dim line = plan.slice[plan.slice_rank - 1];
    const auto join_lines = [&](auto step) {
      each_place<true>(plan, plan.slice_rank - 1, at, dense, n, [step, size = line.size](char* to, const char* from) {
        join_elements<Width, false>(to, from, Steps<decltype(step)>{step}, size);
      });
    };
    if (line.indexed == 2 * Width) return join_lines(std::integral_constant<Size, 2 * Width>{});  // such as real parts
    return join_lines(line.indexed);
  }
  each_place<Gathers>(plan, plan.slice_rank, at, dense, n, [](char* to, const char* from) { std::memcpy(to, from, Width); });
}

// Moves a run as its first First bytes and its last Last bytes, which may overlap: the first 8 and the last 4 of 11 bytes.
template <bool Gathers, int First, int Last = First>
void move_pieces(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n) noexcept {
  each_place<Gathers>(plan, plan.slice_rank, at, dense, n, [second = plan.width - Last](char* to, const char* from) {
    char low[First], high[Last];
    std::memcpy(low, from, First);
    std::memcpy(high, from + second, Last);
    std::memcpy(to, low, First);
    std::memcpy(to + second, high, Last);
  });
}

// Copies a row of at least 64 bytes in cache lines. For a few KB, memcpy uses string instructions, which start slowly.
inline void copy_row(char* to, const char* from, Size width) noexcept {
  if (width >= kTuning.block_bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(width));
    return;
  }
  const Size last = width - kLine;
  for (Size b = 0; b < last; b += kLine) std::memcpy(to + b, from + b, kLine);
  std::memcpy(to + last, from + last, kLine);
}

// Writes a cache line past the caches, so that the line is not read first and evicts no other line.
inline void write_line(char* to, const char* from) noexcept {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__SSE2__)
  for (Size b = 0; b < kLine; b += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + b), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + b)));
  }
#else
  std::memcpy(to, from, kLine);
#endif
}

// Writes a row past the caches, except for incomplete cache lines at its ends.
inline void write_row(char* to, const char* from, Size width) noexcept {
  const Size before = (kLine - static_cast<Size>(reinterpret_cast<std::uintptr_t>(to) % kLine)) % kLine;
  const Size behind = before + (width - before) / kLine * kLine;
  std::memcpy(to, from, static_cast<std::size_t>(before));
  for (Size b = before; b < behind; b += kLine) write_line(to + b, from + b);
  std::memcpy(to + behind, from + behind, static_cast<std::size_t>(width - behind));
}

// Makes writes past the caches visible to other threads.
inline void finish_writes() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <bool Gathers, void copy(char*, const char*, Size) noexcept>
void move_rows(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n) noexcept {
  each_place<Gathers>(plan, plan.slice_rank, at, dense, n,
                      [width = plan.width](char* to, const char* from) { copy(to, from, width); });
}

// Gathers a block in which some positions are filled because they are out of bounds.
template <class At>
void copy_or_fill(const Plan& plan, const At* at, const DenseOffsets& dense, Size n) noexcept {
  const auto element = static_cast<std::size_t>(plan.element);
  for (Size i = 0; i < n; ++i) {
    each_run(plan, plan.slice_rank, [&](Size indexed_offset, Size dense_offset) {
      char* const to = plan.dense + dense.first + i * dense.step + dense_offset;
      if (at[i] != kOutsideAs<At>) {
        std::memcpy(to, plan.indexed + static_cast<Size>(at[i]) + indexed_offset, static_cast<std::size_t>(plan.width));
      } else if (plan.fill == nullptr) {
        std::memset(to, 0, static_cast<std::size_t>(plan.width));
      } else {
        for (Size b = 0; b < plan.width; b += plan.element) std::memcpy(to + b, plan.fill, element);
      }
    });
  }
}

template <bool Gathers>
Store pick_move(const Plan& plan, bool nontemporal) noexcept {
  switch (plan.width) {
    case 1: return move_elements<Gathers, 1>;
    case 2: return move_elements<Gathers, 2>;
    case 4: return move_elements<Gathers, 4>;
    case 8: return move_elements<Gathers, 8>;
    case 16: return move_elements<Gathers, 16>;
    case 32: return move_elements<Gathers, 32>;
    case 64: return move_elements<Gathers, 64>;
    default: break;
  }
  if (plan.width <= 4) return move_pieces<Gathers, 2>;
  if (plan.width <= 8) return move_pieces<Gathers, 4>;
  if (plan.width <= 12) return move_pieces<Gathers, 8, 4>;
  if (plan.width <= 16) return move_pieces<Gathers, 8>;
  if (plan.width <= 24) return move_pieces<Gathers, 16, 8>;
  if (plan.width <= 32) return move_pieces<Gathers, 16>;
  if (plan.width <= 48) return move_pieces<Gathers, 32, 16>;
  if (plan.width <= 64) return move_pieces<Gathers, 32>;
  return nontemporal ? move_rows<Gathers, write_row> : move_rows<Gathers, copy_row>;
}

// Moves n slices. If only parts of slices are moved, they may be several cache lines apart in the dense array, and the
// hardware does not prefetch such strides. So eight are moved at a time, and the parts 16 slices ahead are prefetched.
template <bool Gathers>
[[gnu::always_inline]] inline void move_some(const Plan& plan, const Schedule& schedule, Store move, const Size* at,
                                             DenseOffsets dense, Size n) noexcept {
  if (schedule.part_elements == 0 || std::abs(dense.step) <= kLine) return move(plan, at, dense, n);
  for (Size left = n; left > 0;) {
    const Size some = std::min(left, kLimits.parts_together);
    const char* const later = plan.dense + dense.first + kLimits.parts_ahead * dense.step;
    for (Size i = 0; i < some; ++i) prefetch_lines<Gathers>(later + i * dense.step, kLine);
    move(plan, at, dense, some);
    at += some;
    dense.first += some * dense.step;
    if (dense.listed != nullptr) dense.listed += some;
    left -= some;
  }
}

// Calls visit with the width of an element as a compile-time constant.
template <class Visit>
auto with_width(Size width, Visit visit) noexcept {
  switch (width) {
    case 1: return visit(std::integral_constant<int, 1>{});
    case 2: return visit(std::integral_constant<int, 2>{});
    case 4: return visit(std::integral_constant<int, 4>{});
    case 8: return visit(std::integral_constant<int, 8>{});
    default: return visit(std::integral_constant<int, 16>{});
  }
}

// Gathers n adjacent elements, and writes them past the caches if `past` is true and the address is suitably aligned.
template <int Width, class At>
void copy_elements(const Plan& plan, const At* at, Size dense, Size n, bool past) noexcept {
  char* const to = plan.dense + dense;
  constexpr bool kPast = Width == 4 || Width == 8;
  past &= kPast && reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  return past ? join_elements<Width, kPast>(to, plan.indexed, at, n) : join_elements<Width, false>(to, plan.indexed, at, n);
}

// Gathers adjacent single elements with 32-bit offsets.
template <int Width>
bool gather_elements(const Plan& plan, const Schedule& schedule, Size begin, Size end) noexcept {
  return walk_blocks<BlockOf<Narrow>, false>(plan, schedule, begin, end, [&](const BlockOf<Narrow>& block) {
    block.good ? copy_elements<Width>(plan, block.at, block.dense, block.n, schedule.nontemporal)
               : copy_or_fill(plan, block.at, {block.dense, Width, nullptr}, block.n);
  });
}

// See Loops::gather.
inline bool gather(const Plan& plan, const Schedule& schedule, Size begin, Size end) noexcept {
  const Size step = plan.inner().dense;
  bool good;
  const bool elements = plan.slice_rank == 0 && step == plan.width && step <= 16 && (step & (step - 1)) == 0;
  if (plan.narrow && elements) {
    good = with_width(step, [&](auto width) { return gather_elements<width()>(plan, schedule, begin, end); });
  } else {
    const Store copy = pick_move<true>(plan, schedule.nontemporal);
    good = walk_blocks<Block, false>(plan, schedule, begin, end, [&](const Block& block) {
      move_some<true>(plan, schedule, block.good ? copy : copy_or_fill<Size>, block.at, {block.dense, step, nullptr},
                      block.n);
    });
  }
  if (schedule.nontemporal) finish_writes();
  return good;
}

}  // namespace ndgather::NDGATHER_ISA
