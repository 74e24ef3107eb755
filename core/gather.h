// gather.h - slices at checked offsets, and the loop that copies them to the dense array.
//
// A copy needs the width of what it copies, never its dtype. Every copy has the same signature, so that the loop calls
// one through a pointer.
#pragma once

#include "walk.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ndgather::NDGATHER_ISA {

// Calls visit(indexed offset, dense offset) for every run of plan.width bytes of one slice. Always inlined: as a
// function of its own it would hand over what `visit` holds by way of memory.
template <class Visit>
[[gnu::always_inline]] inline void each_run(const Plan& plan, Visit visit) noexcept {
  if (plan.slice_rank == 0) return visit(0, 0);
  const SliceDim inner = plan.slice[plan.slice_rank - 1];
  Size coordinate[kMaxRank];
  for (int d = 0; d < plan.slice_rank - 1; ++d) coordinate[d] = 0;
  Size indexed = 0, dense = 0;
  for (;;) {
#pragma GCC unroll 8
    for (Size e = 0; e < inner.size; ++e) visit(indexed + e * inner.indexed, dense + e * inner.dense);
    int d = plan.slice_rank - 2;
    for (; d >= 0; --d) {
      const SliceDim& dim = plan.slice[d];
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
[[gnu::always_inline]] inline void each_single_run(const Size* at, const DenseOffsets& dense, Size n,
                                                   Visit visit) noexcept {
  if (dense.listed == nullptr) {
    const auto [first, step, none] = dense;
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) visit(at[i], first + i * step);
  } else {
    for (Size i = 0; i < n; ++i) visit(at[i], dense.listed[i]);
  }
}

// Calls visit(indexed offset, dense offset) for every run of n slices, slice after slice.
template <class Visit>
[[gnu::always_inline]] inline void each_slice(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n,
                                              Visit visit) noexcept {
  if (plan.slice_rank == 0) return each_single_run(at, dense, n, visit);
  for (Size i = 0; i < n; ++i) {
    const Size from = at[i], to = dense.listed != nullptr ? dense.listed[i] : dense.first + i * dense.step;
    each_run(plan, [=](Size indexed, Size offset) { visit(from + indexed, to + offset); });
  }
}

using Copy = void (*)(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept;

template <int Width>
void copy_elements(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept {
  const char* const from = plan.indexed;
  if (step == Width) {
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) std::memcpy(dense + i * Width, from + at[i], Width);
  } else {
    for (Size i = 0; i < n; ++i) std::memcpy(dense + i * step, from + at[i], Width);
  }
}

// Widths from Half + 1 to 2 * Half: two pieces that overlap in the middle.
template <int Half>
void copy_halves(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept {
  const char* const from = plan.indexed;
  const Size second = plan.width - Half;
  for (Size i = 0; i < n; ++i) {
    char low[Half], high[Half];
    std::memcpy(low, from + at[i], Half);
    std::memcpy(high, from + at[i] + second, Half);
    std::memcpy(dense + i * step, low, Half);
    std::memcpy(dense + i * step + second, high, Half);
  }
}

// A row of at least one line, line by line: for rows of some KiB memcpy takes string instructions, which start slowly.
inline void copy_row(char* to, const char* from, Size width) noexcept {
  if (width >= kTuning.block_bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(width));
    return;
  }
  const Size last = width - kLine;
  for (Size b = 0; b < last; b += kLine) std::memcpy(to + b, from + b, kLine);
  std::memcpy(to + last, from + last, kLine);
}

// Writes a line past the caches: it need not be read first, and pushes nothing out of them.
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

// The lines that a row shares with its neighbours go through the caches.
inline void write_row(char* to, const char* from, Size width) noexcept {
  const Size before = static_cast<Size>(-reinterpret_cast<std::uintptr_t>(to) & (kLine - 1));
  const Size behind = before + (width - before) / kLine * kLine;
  std::memcpy(to, from, static_cast<std::size_t>(before));
  for (Size b = before; b < behind; b += kLine) write_line(to + b, from + b);
  std::memcpy(to + behind, from + behind, static_cast<std::size_t>(width - behind));
}

// Once this ends, other threads see what this one has written past the caches.
inline void finish_writes() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <void copy(char*, const char*, Size) noexcept>
void copy_rows(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept {
  for (Size i = 0; i < n; ++i) copy(dense + i * step, plan.indexed + at[i], plan.width);
}

// Slices with gaps in one of the arrays; Width 0: runs of any other width.
template <int Width>
void copy_strided(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept {
  const std::size_t width = Width ? Width : static_cast<std::size_t>(plan.width);
  each_slice(plan, at, {0, step, nullptr}, n, [=, to = dense, from = plan.indexed](Size indexed, Size offset) {
    std::memcpy(to + offset, from + indexed, width);
  });
}

// Blocks in which some positions are to be filled.
inline void copy_or_fill(const Plan& plan, const Size* at, Size n, char* dense, Size step) noexcept {
  const auto element = static_cast<std::size_t>(plan.element);
  for (Size i = 0; i < n; ++i) {
    each_run(plan, [&](Size indexed_offset, Size dense_offset) {
      char* const to = dense + i * step + dense_offset;
      if (at[i] != kOutside) {
        std::memcpy(to, plan.indexed + at[i] + indexed_offset, static_cast<std::size_t>(plan.width));
      } else if (plan.fill == nullptr) {
        std::memset(to, 0, static_cast<std::size_t>(plan.width));
      } else {
        for (Size b = 0; b < plan.width; b += plan.element) std::memcpy(to + b, plan.fill, element);
      }
    });
  }
}

inline Copy pick_copy(const Plan& plan, bool nontemporal) noexcept {
  if (plan.slice_rank > 0) {
    switch (plan.width) {
      case 1: return copy_strided<1>;
      case 2: return copy_strided<2>;
      case 4: return copy_strided<4>;
      case 8: return copy_strided<8>;
      default: return copy_strided<0>;
    }
  }
  switch (plan.width) {
    case 1: return copy_elements<1>;
    case 2: return copy_elements<2>;
    case 4: return copy_elements<4>;
    case 8: return copy_elements<8>;
    case 12: return copy_elements<12>;
    case 16: return copy_elements<16>;
    case 32: return copy_elements<32>;
    case 64: return copy_elements<64>;
    default: break;
  }
  if (plan.width <= 4) return copy_halves<2>;
  if (plan.width <= 8) return copy_halves<4>;
  if (plan.width <= 16) return copy_halves<8>;
  if (plan.width <= 32) return copy_halves<16>;
  if (plan.width <= 64) return copy_halves<32>;
  return nontemporal ? copy_rows<write_row> : copy_rows<copy_row>;
}

// Gathers the positions [begin, end). False: an index is outside its axis; nothing outside of the indexed array was
// read, and the dense array is partly written.
inline bool gather(const Plan& plan, const Schedule& schedule, Size begin, Size end) noexcept {
  const Copy copy = pick_copy(plan, schedule.nontemporal);
  const Size step = plan.inner().dense;
  const bool good = walk_blocks<Block, false>(plan, schedule, begin, end, [&](const Block& block) {
    (block.good ? copy : copy_or_fill)(plan, block.at, block.n, plan.dense + block.dense, step);
  });
  if (schedule.nontemporal) finish_writes();
  return good;
}

}  // namespace ndgather::NDGATHER_ISA
