// places.h - scatters shared between threads by place: all places are checked and written down; then
// each owner looks through them and applies the updates of its own, in order.
#pragma once

#include <algorithm>

#if defined(__AVX512F__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include "gather.h"
#include "store.h"

namespace ndgather::NDGATHER_ISA {

template <class At>
bool note_as(const Plan& plan, const Places& places, Size begin, Size end) noexcept {
  const Offsets<At> offsets = pick_offsets<At>(plan);
  const Bases bases(plan);
  At* out = static_cast<At*>(places.memory) + (begin - places.begin);
  Cursor cursor(plan, begin);
  cursor.far -= places.lowest_far;
  for (Size left = end - begin; left > 0;) {
    const Size n = std::min({left, cursor.left, kBlock});
    prefetch_indices(cursor, n);
    const auto [far, from] = bases.from(cursor);
    if (!offsets(plan, cursor.index, far, from, n, out) && plan.mode != Mode::fill) return false;
    cursor.advance(n);
    out += n;
    left -= n;
  }
  return true;
}

inline bool note(const Plan& plan, const Places& places, Size begin, Size end) noexcept {
  return places.wide ? note_as<Size>(plan, places, begin, end)
                     : note_as<std::uint32_t>(plan, places, begin, end);
}

// Who owns a place is found by the hash of its grain: these are the hashes of one owner.
struct Hashes {
  std::uint32_t first, beyond_first;
  int grain;

  Hashes(const Places& places, int owner) noexcept
      : first(begin(owner, places.owners)),
        beyond_first(begin(owner + 1, places.owners) - 1 - first),
        grain(places.grain) {}

  bool have(std::uint64_t place) const noexcept {
    return static_cast<std::uint32_t>(place >> grain) * kMix - first <= beyond_first;
  }

 private:
  static std::uint32_t begin(int owner, int owners) noexcept {
    return static_cast<std::uint32_t>((Size{owner} << 32) / owners);
  }
};

// So many places are looked at in one go, and so many of them are enough: a count that changes from
// one go to the next costs a branch that is not foreseen.
inline constexpr Size kLook = 512;
inline constexpr Size kEnough = kBlock / 2;

inline constexpr Size kPage = 4096;

// Some of the updates of one owner. Updates of Carried bytes are copied here; of others (Carried = 0)
// it is known where they are.
//
// A load waits for a store before it whose address has the same low bits. Places are noted from the begin
// of a page on, and half a page of them is looked at in one go: a quarter of a page apart, what is picked
// out never meets what is looked at next (0.13 ns for each place, and up to 0.28 elsewhere).
template <class At, int Carried>
struct alignas(kPage) Own {
  using Near = std::conditional_t<Carried == 4, std::uint32_t,
               std::conditional_t<Carried == 8, std::uint64_t, At>>;
  static constexpr Size kStep = 16;  // places that are looked at together
  static constexpr Size kRoom = kEnough + kLook + kStep;

  Size n = 0;
  alignas(kPage / 4) Size at[kRoom];
  alignas(kLine) Near near[kRoom];
  alignas(kLine) Size listed[Carried == 0 ? kRoom : 1];

  // Appends what belongs to `hashes` among `count` places, noted as distances from `lowest`. Their
  // updates are `step` bytes apart from `from` on, which is `first` bytes from the lowest.
  void pick(const Hashes& hashes, const At* places, Size count, Size lowest, const char* from, At first,
            Size step) noexcept {
    Size kept = n;
    Size i = 0;
#if defined(__AVX512F__) && defined(__GNUC__)
    if constexpr (sizeof(At) == 4) {
      const auto every = [](std::uint32_t value) {
        return _mm512_set1_epi32(static_cast<int>(value));
      };
      const __m128i shift = _mm_cvtsi32_si128(hashes.grain);
      const __m512i first_hash = every(hashes.first), beyond_first = every(hashes.beyond_first);
      const __m512i lowest_far = _mm512_set1_epi64(lowest);
      const auto widen = [&](__m256i half) {
        return _mm512_add_epi64(lowest_far, _mm512_maskz_cvtepu32_epi64(0xff, half));
      };
      const __m512i more = every(static_cast<std::uint32_t>(kStep * step));
      __m512i where = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
      where = _mm512_add_epi32(
          every(first), _mm512_mullo_epi32(where, every(static_cast<std::uint32_t>(step))));
      for (; i + kStep <= count; i += kStep) {
        const __m512i place = _mm512_loadu_si512(places + i);
        const __m512i grain = _mm512_maskz_srl_epi32(0xffff, place, shift);
        const __m512i hash = _mm512_mullo_epi32(grain, every(kMix));
        const __mmask16 mine = _mm512_mask_cmple_epu32_mask(
            _mm512_cmpneq_epi32_mask(place, every(kNowhereAs<At>)),
            _mm512_sub_epi32(hash, first_hash), beyond_first);
        const __m512i far = _mm512_maskz_compress_epi32(mine, place);
        _mm512_storeu_si512(at + kept, widen(_mm512_maskz_extracti64x4_epi64(0xf, far, 0)));
        _mm512_storeu_si512(at + kept + 8, widen(_mm512_maskz_extracti64x4_epi64(0xf, far, 1)));
        if constexpr (Carried == 8) {
          const auto half = static_cast<__mmask8>(mine);
          const auto other = static_cast<__mmask8>(mine >> 8);
          const char* const line = from + i * Carried;
          _mm512_storeu_si512(near + kept,
                              _mm512_maskz_compress_epi64(half, _mm512_loadu_si512(line)));
          _mm512_storeu_si512(near + kept + __builtin_popcount(half),
                              _mm512_maskz_compress_epi64(other, _mm512_loadu_si512(line + kLine)));
        } else if constexpr (Carried == 4) {
          _mm512_storeu_si512(near + kept, _mm512_maskz_compress_epi32(
                                               mine, _mm512_loadu_si512(from + i * Carried)));
        } else {
          _mm512_storeu_si512(near + kept, _mm512_maskz_compress_epi32(mine, where));
          where = _mm512_add_epi32(where, more);
        }
        kept += __builtin_popcount(mine);
      }
    }
#endif
    for (; i < count; ++i) {
      at[kept] = static_cast<Size>(static_cast<std::uint64_t>(lowest) +
                                   static_cast<std::uint64_t>(places[i]));
      if constexpr (Carried > 0) {
        near[kept] = load<Near>(from + i * Carried);
      } else {
        near[kept] = first + static_cast<At>(i * step);
      }
      kept += Size{places[i] != kNowhereAs<At> && hashes.have(places[i])};
    }
    n = kept;
  }
};

// Rows wider than a line are asked for together with their updates, and too many at a time get in each
// other's way: in data of 64 MB adds of 256, 512 and 1024 bytes take 0.75, 0.8 and 0.9 of the time that
// they take in blocks as large as those of a gather; in data of 512 KB, which are not asked for, those of
// 256 bytes take 1.2 of it.
inline constexpr Size kRowBlock = 4096;  // bytes, and
inline constexpr Size kRowsTogether = 8;  // at least

inline Size own_block_size(const Plan& plan) noexcept {
  const Size most = block_size(plan);
  if (plan.width <= kLine || plan.patience == kEndless) return most;
  return std::min(most, std::max(kRowBlock / plan.width, kRowsTogether));
}

template <class At, int Carried>
void apply_as(const Plan& plan, Store store, const Places& places, int owner) noexcept {
  const Hashes hashes(places, owner);
  const Size most = own_block_size(plan);
  const Size look = std::min(most * places.owners, kLook);
  const Size enough = std::min((most + 1) / 2, kEnough);
  const Size step = plan.position[plan.position_rank - 1].near;
  const At* noted = static_cast<const At*>(places.memory);
  Size left = places.end - places.begin;
  Cursor cursor(plan, places.begin);
  const char* near = cursor.near;
  Size run = plan.near_linear ? left : std::min(left, cursor.left);

  const auto pick = [&](Own<At, Carried>& own) {
    own.n = 0;
    while (own.n < enough && left > 0) {
      const Size n = std::min(run, look);
      own.pick(hashes, noted, n, places.lowest_far, near,
               static_cast<At>(near - plan.near - places.lowest_near), step);
      noted += n;
      near += n * step;
      left -= n;
      run -= n;
      if (run == 0 && left > 0) {
        cursor.advance(cursor.left);
        near = cursor.near;
        run = std::min(left, cursor.left);
      }
    }
    if constexpr (Carried == 0) {
      for (Size i = 0; i < own.n; ++i) {
        own.listed[i] = places.lowest_near + static_cast<Size>(own.near[i]);
      }
    }
  };
  const auto use = [&](const Own<At, Carried>& own) {
    if constexpr (Carried > 0) {
      store(plan, plan.far, own.at, {reinterpret_cast<const char*>(own.near), Carried, nullptr},
            own.n);
    } else {
      store(plan, plan.far, own.at, {plan.near, 0, own.listed}, own.n);
    }
  };

  // Of the updates an owner gets some, and the hardware does not see which: rows of them are asked for
  // whatever the places do.
  const bool rows = Carried == 0 && plan.width > kLine;
  Blocks<Own<At, Carried>> blocks(rows ? -1 : plan.patience);
  while (left > 0) {
    Own<At, Carried>& own = blocks.next();
    pick(own);
    if (blocks.asks() && plan.patience < kEndless) {
      prefetch_places<true>(plan.far, plan.width, own.at, own.n);
    }
    if (rows) prefetch_places(plan.near, plan.width, own.listed, own.n);
    blocks.take(use, left > 0);
  }
  blocks.finish(use);
}

inline void apply(const Plan& plan, Store store, const Places& places, int owner) noexcept {
  if (places.wide) return apply_as<Size, 0>(plan, store, places, owner);
  // Updates that follow each other are read together, and copied: 0.9 of the time.
  const Size step = plan.position[plan.position_rank - 1].near;
  const Size packed = plan.slice_rank == 0 && step == plan.width ? step : 0;
  switch (packed) {
    case 4: return apply_as<std::uint32_t, 4>(plan, store, places, owner);
    case 8: return apply_as<std::uint32_t, 8>(plan, store, places, owner);
    default: return apply_as<std::uint32_t, 0>(plan, store, places, owner);
  }
}

}  // namespace ndgather::NDGATHER_ISA
