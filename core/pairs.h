// pairs.h - offsets of index tuples of two, which AVX2 computes four at a time without taking them apart.
//
// Left to itself a compiler sorts the values by column first, and multiplies 64 bits by 64 with three
// instructions: tuples of int64 take 0.96 ns that way, and 0.54 here.
#pragma once

#include "offsets.h"

#if defined(__GNUC__) && defined(__AVX2__) && !defined(__AVX512F__)
#define NDGATHER_PAIRS
#include <immintrin.h>
#endif

namespace ndgather::NDGATHER_ISA {

#if defined(NDGATHER_PAIRS)

// Whether places and strides fit in 32 bits, and so products in 64.
inline bool multiplies_narrowly(const Column& column) noexcept {
  constexpr Size kMost = Size{UINT32_MAX};
  return column.extent <= kMost && column.stride >= 0 && column.stride <= kMost;
}

// Two values of column 0 and two of column 1, in turn.
inline __m256i load_pairs(const char* at, std::int64_t) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
inline __m256i load_pairs(const char* at, std::int32_t) noexcept {
  return _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

inline void store_four(__m256i offsets, Size* out) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), offsets);
}
inline void store_four(__m256i offsets, std::uint32_t* out) noexcept {
  const __m256i lows = _mm256_permutevar8x32_epi32(offsets, _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(lows));
}

// As offsets() for tuples of two without gaps, under Raise.
template <class Index, class At>
bool offsets_of_pairs(const Plan& plan, const char* index, Size far, const Size* __restrict bases,
                      Size n, At* __restrict out) noexcept {
  const Column &first = plan.column[0], &second = plan.column[1];
  Size i = 0;
  __m256i bad = _mm256_setzero_si256();  // the sign of what names no place
  if (multiplies_narrowly(first) && multiplies_narrowly(second)) {
    const auto of_both = [](Size a, Size b) { return _mm256_set_epi64x(b, a, b, a); };
    const __m256i lift = of_both(first.lift, second.lift);
    const __m256i last = of_both(first.extent - 1, second.extent - 1);
    const __m256i stride = of_both(first.stride, second.stride);
    const __m256i begin = _mm256_set1_epi64x(far);
    const auto parts = [&](Size pair) {
      const __m256i value = load_pairs(index + pair * 2 * Size{sizeof(Index)}, Index{});
      const __m256i negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), value);
      const __m256i place = _mm256_add_epi64(value, _mm256_and_si256(negative, lift));
      bad = _mm256_or_si256(bad, _mm256_or_si256(place, _mm256_sub_epi64(last, place)));
      return _mm256_mul_epu32(place, stride);
    };
    for (; i + 4 <= n; i += 4) {
      const __m256i low = parts(i), high = parts(i + 2);
      const __m256i sums =
          _mm256_add_epi64(_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high));
      const __m256i base = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bases + i));
      store_four(_mm256_add_epi64(_mm256_permute4x64_epi64(sums, 0xd8), _mm256_add_epi64(begin, base)),
                 out + i);
    }
  }
  const bool good = _mm256_movemask_pd(_mm256_castsi256_pd(bad)) == 0;
  return offsets<Raise, Index, 2, 2>(plan, index + i * 2 * Size{sizeof(Index)}, far, bases + i, n - i,
                                        out + i) &&
         good;
}

#endif

}  // namespace ndgather::NDGATHER_ISA
