// stream.h - writing past the caches: lines that are written whole need not be read first, and push nothing
// out of the caches.
//
// A line of which one part is written past the caches and another through them has to be read after all, which
// takes longer than to write a row of 1 KiB. So it had better be only the lines at the ends of what a thread writes.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstring>

#include "choose.h"

namespace ndgather::NDGATHER_ISA {

// Writes a piece to where one begins.
inline void stream_piece(char* to, const char* from) noexcept {
#if defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  std::memcpy(to, from, kPiece);
#endif
}

// Once this ends, other threads see what this one has written.
struct Streaming {
  const bool streams;
  ~Streaming() {
#if defined(__SSE2__)
    if (streams) _mm_sfence();
#endif
  }
};

// A row of whole pieces, with its neighbours before and behind it.
inline void stream_pieces(char* to, const char* from, Size width) noexcept {
  for (Size b = 0; b < width; b += kPiece) stream_piece(to + b, from + b);
}

// A row of at least a line by itself: the lines that it shares with others go through the caches.
inline void stream_row(char* to, const char* from, Size width) noexcept {
  const Size before = -bytes_after(to, kLine) & (kLine - 1);
  const Size behind = before + (width - before) / kLine * kLine;
  std::memcpy(to, from, static_cast<std::size_t>(before));
  stream_pieces(to + before, from + before, behind - before);
  std::memcpy(to + behind, from + behind, static_cast<std::size_t>(width - behind));
}

// n elements from anywhere, which fill whole pieces.
template <int Width>
void stream_elements(char* to, const char* from, const Size* at, Size n) noexcept {
  constexpr Size kOfPiece = kPiece / Width;
  for (Size i = 0; i < n; i += kOfPiece) {
    char piece[kPiece];  // in a register
#pragma GCC unroll 16
    for (Size e = 0; e < kOfPiece; ++e) std::memcpy(piece + e * Width, from + at[i + e], Width);
    stream_piece(to + i * Width, piece);
  }
}

}  // namespace ndgather::NDGATHER_ISA
