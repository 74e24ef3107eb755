// lanes.h - some numbers of 32 bits that are computed together, and those of them that a mask keeps moved
// to the front: one instruction in AVX-512, a permutation out of a table in AVX2, and nothing elsewhere.
#pragma once

#include "plan.h"

#if defined(__GNUC__) && (defined(__AVX512F__) || defined(__AVX2__))
#define NDGATHER_LANES
#include <immintrin.h>
#endif

namespace ndgather::NDGATHER_ISA {

#if defined(NDGATHER_LANES) && defined(__AVX512F__)

struct Lanes {
  static constexpr Size kCount = 16;
  using Mask = __mmask16;  // a bit for each lane
  __m512i value;

  static Lanes load(const void* from) noexcept { return {_mm512_loadu_si512(from)}; }
  static Lanes every(std::uint32_t number) noexcept {
    return {_mm512_set1_epi32(static_cast<int>(number))};
  }
  static Lanes count() noexcept {
    return {_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)};
  }

  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm512_add_epi32(a.value, b.value)}; }
  friend Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm512_sub_epi32(a.value, b.value)}; }
  friend Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm512_mullo_epi32(a.value, b.value)}; }

  Mask at_most(Lanes most) const noexcept { return _mm512_cmple_epu32_mask(value, most.value); }

  // Never by widening a mask: where GCC 12 has no register left for it, it puts 16 bits on the stack and reads
  // 32 back (-O1 -fsanitize=thread).
  static unsigned bits(Mask mask) noexcept {
    unsigned all;
    __asm__("kmovw %1, %0" : "=r"(all) : "k"(mask));
    return all;
  }

  Lanes kept(Mask mask) const noexcept { return {_mm512_maskz_compress_epi32(mask, value)}; }
  void store(void* to) const noexcept { _mm512_storeu_si512(to, value); }
};

// Moves those of 16 numbers of 64 bits that `mask` keeps to the front of `to`, and writes anything behind.
inline void keep(Lanes::Mask mask, const char* from, std::uint64_t* to) noexcept {
  const unsigned bits = Lanes::bits(mask);
  const auto low = static_cast<__mmask8>(bits), high = static_cast<__mmask8>(bits >> 8);
  const __m512i first = _mm512_loadu_si512(from), second = _mm512_loadu_si512(from + 64);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(low, first));
  _mm512_storeu_si512(to + __builtin_popcount(bits & 0xFF), _mm512_maskz_compress_epi64(high, second));
}

#elif defined(NDGATHER_LANES)

// Which lanes a mask keeps, in order: of eight lanes, a byte each.
struct Kept {
  std::uint64_t lanes[256]{};

  constexpr Kept() noexcept {
    for (unsigned mask = 0; mask < 256; ++mask) {
      int kept = 0;
      for (std::uint64_t lane = 0; lane < 8; ++lane) {
        if (mask >> lane & 1) lanes[mask] |= lane << 8 * kept++;
      }
    }
  }
};
inline constexpr Kept kKept;

inline __m256i kept_lanes(unsigned mask) noexcept {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kKept.lanes[mask])));
}

struct Lanes {
  static constexpr Size kCount = 8;
  using Mask = unsigned;  // a bit for each lane
  __m256i value;

  static Lanes load(const void* from) noexcept {
    return {_mm256_loadu_si256(static_cast<const __m256i*>(from))};
  }
  static Lanes every(std::uint32_t number) noexcept {
    return {_mm256_set1_epi32(static_cast<int>(number))};
  }
  static Lanes count() noexcept { return {_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)}; }

  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm256_add_epi32(a.value, b.value)}; }
  friend Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm256_sub_epi32(a.value, b.value)}; }
  friend Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm256_mullo_epi32(a.value, b.value)}; }

  Mask at_most(Lanes most) const noexcept {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_min_epu32(value, most.value), value))));
  }

  static unsigned bits(Mask mask) noexcept { return mask; }

  Lanes kept(Mask mask) const noexcept {
    return {_mm256_permutevar8x32_epi32(value, kept_lanes(mask))};
  }
  void store(void* to) const noexcept { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }
};

// Moves those of 8 numbers of 64 bits that `mask` keeps to the front of `to`, and writes anything behind.
inline void keep(Lanes::Mask mask, const char* from, std::uint64_t* to) noexcept {
  const auto half = [](const char* at, unsigned four, std::uint64_t* front) {
    // The two halves of lane i are lanes 2 * i and 2 * i + 1 of 32 bits.
    const __m128i lanes = _mm256_castsi256_si128(kept_lanes(four));
    const __m256i twice = _mm256_cvtepu32_epi64(_mm_add_epi32(lanes, lanes));
    const __m256i next = _mm256_add_epi64(twice, _mm256_set1_epi64x(1));
    const __m256i both = _mm256_or_si256(twice, _mm256_slli_epi64(next, 32));
    Lanes{_mm256_permutevar8x32_epi32(Lanes::load(at).value, both)}.store(front);
  };
  half(from, mask & 15, to);
  half(from + 32, mask >> 4, to + __builtin_popcount(mask & 15));
}

#endif

}  // namespace ndgather::NDGATHER_ISA
