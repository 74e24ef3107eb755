// copy.h - n slices from checked offsets of the far array to n places of the near array.
//
// A copy needs the width of what it copies, never its dtype. Each function has the same shape, so
// that the loop above it calls one through a pointer.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstring>

#include "choose.h"
#include "offsets.h"
#include "slice.h"

namespace ndgather::NDGATHER_ISA {

using Copy = void (*)(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept;

template <int Width>
void copy_fixed(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const char* far = plan.far;
  if (step == Width) {
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) std::memcpy(near + i * Width, far + at[i], Width);
  } else {
    for (Size i = 0; i < n; ++i) std::memcpy(near + i * step, far + at[i], Width);
  }
}

// Widths from Half + 1 to 2 * Half: two pieces that overlap in the middle.
template <int Half>
void copy_halves(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const char* far = plan.far;
  const Size second = plan.width - Half;
  for (Size i = 0; i < n; ++i) {
    char low[Half], high[Half];
    std::memcpy(low, far + at[i], Half);
    std::memcpy(high, far + at[i] + second, Half);
    std::memcpy(near + i * step, low, Half);
    std::memcpy(near + i * step + second, high, Half);
  }
}

// A row of more than two lines, line by line: memcpy takes string instructions for rows of some KB,
// which cost up to half as much again. From 16 KiB on they cost up to a third less.
inline constexpr Size kLongRow = Size{1} << 14;

inline void copy_row(char* to, const char* from, Size width) noexcept {
  if (width >= kLongRow) {
    std::memcpy(to, from, static_cast<std::size_t>(width));
    return;
  }
  const Size last = width - kLine;
  for (Size b = 0; b < last; b += kLine) std::memcpy(to + b, from + b, kLine);
  std::memcpy(to + last, from + last, kLine);
}

// The same past the caches. Other threads see it when it returns.
inline void stream_row(char* to, const char* from, Size width) noexcept {
#if defined(__SSE2__)
  std::memcpy(to, from, kLine);
  Size b = kLine - static_cast<Size>(reinterpret_cast<std::uintptr_t>(to) % kLine);
  for (; b <= width - kLine; b += kLine) {
    for (Size part = b; part < b + kLine; part += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part)));
    }
  }
  std::memcpy(to + width - kLine, from + width - kLine, kLine);
  _mm_sfence();
#else
  copy_row(to, from, width);
#endif
}

template <void copy(char*, const char*, Size) noexcept>
void copy_rows(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  for (Size i = 0; i < n; ++i) copy(near + i * step, plan.far + at[i], plan.width);
}

// Slices with gaps: element by element of the slice, and for each of them the whole block of
// positions, so that a column of a transposed array is looked up in one go.
template <int Width>
void copy_scattered(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const std::size_t width = Width ? Width : static_cast<std::size_t>(plan.width);
  each_of_slice(plan, [&](Size far_offset, Size near_offset) {
    const char* from = plan.far + far_offset;
    char* to = near + near_offset;
    for (Size i = 0; i < n; ++i) std::memcpy(to + i * step, from + at[i], width);
  });
}

// Long slices, one after the other.
template <int Width>
void copy_strided(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const std::size_t width = Width ? Width : static_cast<std::size_t>(plan.width);
  const auto [size, far_step, near_step] = plan.slice[plan.slice_rank - 1];
  const bool packed = Width > 0 && near_step == Width;
  for (Size i = 0; i < n; ++i) {
    each_of_slice(plan, plan.slice_rank - 1, [=, &plan](Size far_offset, Size near_offset) {
      const char* from = plan.far + at[i] + far_offset;
      char* to = near + i * step + near_offset;
      if (packed) {
#pragma GCC unroll 8
        for (Size e = 0; e < size; ++e) std::memcpy(to + e * Width, from + e * far_step, Width);
      } else {
        for (Size e = 0; e < size; ++e) std::memcpy(to + e * near_step, from + e * far_step, width);
      }
    });
  }
}

// Whether slices are elements with gaps between them that make one line of the near array.
inline bool makes_lines(const Plan& plan) noexcept {
  const Slice& slice = plan.slice[0];
  return plan.slice_rank == 1 && slice.near == plan.width && slice.size * plan.width == kLine;
}

// The line is put together and written as one.
template <int Width>
void copy_lines(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const char* far = plan.far;
  const Size apart = plan.slice[0].far;
  for (Size i = 0; i < n; ++i) {
    char line[kLine];
    const char* from = far + at[i];
#pragma GCC unroll 64
    for (Size e = 0; e < kLine / Width; ++e) {
      std::memcpy(line + e * Width, from + e * apart, Width);
    }
    std::memcpy(near + i * step, line, kLine);
  }
}

inline void fill(const Plan& plan, char* to, Size bytes) noexcept {
  if (plan.fill == nullptr) {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    return;
  }
  const auto element = static_cast<std::size_t>(plan.element);
  for (Size b = 0; b < bytes; b += plan.element) std::memcpy(to + b, plan.fill, element);
}

// The path of blocks in which some positions are to be filled.
inline void copy_or_fill(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const auto width = static_cast<std::size_t>(plan.width);
  each_of_slice(plan, [&](Size far_offset, Size near_offset) {
    for (Size i = 0; i < n; ++i) {
      char* to = near + near_offset + i * step;
      if (at[i] != kNowhere) {
        std::memcpy(to, plan.far + far_offset + at[i], width);
      } else {
        fill(plan, to, plan.width);
      }
    }
  });
}

inline Copy pick_copy(const Plan& plan) noexcept {
  if (makes_lines(plan)) {
    switch (plan.width) {
      case 1: return copy_lines<1>;
      case 2: return copy_lines<2>;
      case 4: return copy_lines<4>;
      case 8: return copy_lines<8>;
      case 16: return copy_lines<16>;
      default: break;
    }
  }
  if (plan.slice_rank > 0) {
    const bool strides = has_long_slices(plan);
    switch (plan.width) {
      case 1: return strides ? copy_strided<1> : copy_scattered<1>;
      case 2: return strides ? copy_strided<2> : copy_scattered<2>;
      case 4: return strides ? copy_strided<4> : copy_scattered<4>;
      case 8: return strides ? copy_strided<8> : copy_scattered<8>;
      case 16: return strides ? copy_strided<16> : copy_scattered<16>;
      default: return strides ? copy_strided<0> : copy_scattered<0>;
    }
  }
  switch (plan.width) {
    case 1: return copy_fixed<1>;
    case 2: return copy_fixed<2>;
    case 4: return copy_fixed<4>;
    case 8: return copy_fixed<8>;
    case 12: return copy_fixed<12>;
    case 16: return copy_fixed<16>;
    case 32: return copy_fixed<32>;
    case 64: return copy_fixed<64>;
    default: break;
  }
  if (plan.width <= 4) return copy_halves<2>;
  if (plan.width <= 8) return copy_halves<4>;
  if (plan.width <= 16) return copy_halves<8>;
  if (plan.width <= 32) return copy_halves<16>;
  if (plan.width <= 64) return copy_halves<32>;
  if (plan.width <= 128) return copy_halves<64>;
  return plan.streams ? copy_rows<stream_row> : copy_rows<copy_row>;
}

}  // namespace ndgather::NDGATHER_ISA
