// copy.h - n slices from checked offsets of the far array to n places of the near array.
//
// A copy needs the width of what it copies, never its dtype. Each function has the same shape, so
// that the loop above it calls one through a pointer.
#pragma once

#include <cstring>
#include <type_traits>

#include "choose.h"
#include "offsets.h"
#include "slice.h"
#include "stream.h"

namespace ndgather::NDGATHER_ISA {

using Copy = void (*)(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept;

// n elements from anywhere, which fill whole pieces: write(to, piece) writes one.
template <int Width, class Write>
void put_elements(char* to, const char* from, const Size* at, Size n, Write write) noexcept {
  constexpr Size kOfPiece = kPiece / Width;
  for (Size i = 0; i < n; i += kOfPiece) {
    char piece[kPiece];  // in a register
#pragma GCC unroll 16
    for (Size e = 0; e < kOfPiece; ++e) std::memcpy(piece + e * Width, from + at[i + e], Width);
    write(to + i * Width, piece);
  }
}

template <int Width>
void stream_elements(char* to, const char* from, const Size* at, Size n) noexcept {
  put_elements<Width>(to, from, at, n, [](char* near, const char* piece) { stream_piece(near, piece); });
}

// n elements from anywhere to where they follow each other. Pieces of them take 0.85 to 0.98 of the time of one
// element after the other where caches answer, and in bands 0.8 to 0.95 (but bytes without SSE4.1 1.06).
template <int Width>
void copy_elements(char* to, const char* from, const Size* at, Size n) noexcept {
  Size i = 0;
  if constexpr (Width < kPiece && kPiece % Width == 0) {
    i = n - n % (kPiece / Width);
    put_elements<Width>(to, from, at, i, [](char* near, const char* piece) { std::memcpy(near, piece, kPiece); });
  }
#pragma GCC unroll 8
  for (; i < n; ++i) std::memcpy(to + i * Width, from + at[i], Width);
}

template <int Width>
void copy_fixed(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const char* far = plan.far;
  if (step == Width) return copy_elements<Width>(near, far, at, n);
  for (Size i = 0; i < n; ++i) std::memcpy(near + i * step, far + at[i], Width);
}

// The same past the caches, where whole pieces are written.
template <int Width>
void copy_streamed(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  if (step == Width && bytes_after(near, kPiece) == 0 && n * Width % kPiece == 0) {
    stream_elements<Width>(near, plan.far, at, n);
  } else {
    copy_fixed<Width>(plan, at, n, near, step);
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

template <void copy(char*, const char*, Size) noexcept>
void copy_rows(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  for (Size i = 0; i < n; ++i) copy(near + i * step, plan.far + at[i], plan.width);
}

// Slices with gaps in the near array, or in runs of other than 1, 2, 4, 8 and 16 bytes.
template <int Width>
void copy_with_gaps(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const std::size_t width = Width ? Width : static_cast<std::size_t>(plan.width);
  each_run(plan, plan.far, at, NearPlaces<char>{near, step, nullptr}, n,
           [width](const char* from, char* to) { std::memcpy(to, from, width); });
}

// Whether the elements of slices have gaps between them, and none in the near array.
inline bool packs_slices(const Plan& plan) noexcept {
  if (plan.slice_rank == 0) return false;
  const Slice& inner = plan.slice[plan.slice_rank - 1];
  return inner.size > 1 && inner.near == plan.width && plan.width <= 16 &&
         (plan.width & (plan.width - 1)) == 0;
}

// `size` elements, `apart` bytes from each other, put together piece by piece, of which the last overlaps the
// one before it. In slices of 2 to 15 of them, anywhere between every second one and lines apart, that takes
// 0.1 to 0.75 of the time of one element after the other.
template <int Width, int Piece, class Apart, class Count>
void put_together(char* __restrict to, const char* __restrict from, Apart apart, Count size) noexcept {
  const auto piece = [=](Size first) {
    char whole[Piece * Width];  // in registers, from which wider stores come
    char* const out = Width < 16 ? whole : to + first * Width;
#pragma GCC unroll 64
    for (Size e = 0; e < Piece; ++e) {
      std::memcpy(out + e * Width, from + (first + e) * apart, Width);
    }
    if (Width < 16) std::memcpy(to + first * Width, whole, sizeof whole);
  };
  for (Size e = 0; e < size - Piece; e += Piece) piece(e);
  piece(size - Piece);
}

template <int Width, int Piece, class Apart, class Count>
void copy_packed(const Plan& plan, const Size* at, Size n, char* near, Size step, Apart apart,
                 Count size) noexcept {
  const char* const far = plan.far;
  // A loop of its own for slices of one axis takes 0.7 to 0.9 of the time.
  if (plan.slice_rank == 1) {
    for (Size i = 0; i < n; ++i) {
      put_together<Width, Piece>(near + i * step, far + at[i], apart, size);
    }
    return;
  }
  for (Size i = 0; i < n; ++i) {
    each_of_slice(plan, plan.slice_rank - 1, [=](Size far_offset, Size near_offset) {
      put_together<Width, Piece>(near + i * step + near_offset, far + at[i] + far_offset, apart, size);
    });
  }
}

// A piece is at most a line, and a slice of one line is one piece. Compilers know better ways to take every
// second element, and elements backwards.
template <int Width>
void copy_packed(const Plan& plan, const Size* at, Size n, char* near, Size step) noexcept {
  const auto with_piece = [&](auto apart) {
    const Size size = plan.slice[plan.slice_rank - 1].size;
    constexpr int kOfLine = kLine / Width;
    if (size == kOfLine) {
      return copy_packed<Width, kOfLine>(plan, at, n, near, step, apart,
                                         std::integral_constant<Size, kOfLine>{});
    }
    if constexpr (Width <= 4) {
      if (size >= 16) return copy_packed<Width, 16>(plan, at, n, near, step, apart, size);
    }
    if constexpr (Width <= 8) {
      if (size >= 8) return copy_packed<Width, 8>(plan, at, n, near, step, apart, size);
    }
    if (size >= 4) return copy_packed<Width, 4>(plan, at, n, near, step, apart, size);
    copy_packed<Width, 2>(plan, at, n, near, step, apart, size);
  };
  const Size apart = plan.slice[plan.slice_rank - 1].far;
  if (apart == 2 * Width) return with_piece(std::integral_constant<Size, 2 * Width>{});
  if (apart == -Width) return with_piece(std::integral_constant<Size, -Width>{});
  with_piece(apart);
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
  if (packs_slices(plan)) {
    switch (plan.width) {
      case 1: return copy_packed<1>;
      case 2: return copy_packed<2>;
      case 4: return copy_packed<4>;
      case 8: return copy_packed<8>;
      case 16: return copy_packed<16>;
      default: break;
    }
  }
  if (plan.slice_rank > 0) {
    switch (plan.width) {
      case 1: return copy_with_gaps<1>;
      case 2: return copy_with_gaps<2>;
      case 4: return copy_with_gaps<4>;
      case 8: return copy_with_gaps<8>;
      case 16: return copy_with_gaps<16>;
      default: return copy_with_gaps<0>;
    }
  }
  switch (plan.width) {
    case 1: return plan.streams ? copy_streamed<1> : copy_fixed<1>;
    case 2: return plan.streams ? copy_streamed<2> : copy_fixed<2>;
    case 4: return plan.streams ? copy_streamed<4> : copy_fixed<4>;
    case 8: return plan.streams ? copy_streamed<8> : copy_fixed<8>;
    case 12: return copy_fixed<12>;
    case 16: return plan.streams ? copy_streamed<16> : copy_fixed<16>;
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
  if (!plan.streams) return copy_rows<copy_row>;
  const bool pieces = plan.near_linear && plan.position[plan.position_rank - 1].near == plan.width &&
                      plan.width % kPiece == 0 && bytes_after(plan.near, kPiece) == 0;
  return pieces ? copy_rows<stream_pieces> : copy_rows<stream_row>;
}

}  // namespace ndgather::NDGATHER_ISA
