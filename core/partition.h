// partition.h - a scatter whose destination is shared out between threads: all index tuples are checked and their
// offsets recorded; then each owner reads these and applies, in order, the updates of its own.
#pragma once

#include <bit>

#include "scatter.h"

namespace ndgather::NDGATHER_ISA {

// Writes the offsets of the positions [begin, end). False: an index is outside its axis.
inline bool record_offsets(const Plan& plan, Size begin, Size end, Size* out) noexcept {
  return walk_blocks<Block, false>(plan, {}, begin, end, [&](const Block& block) {
    std::memcpy(out, block.at, static_cast<std::size_t>(block.n) * sizeof(Size));
    out += block.n;
  });
}

// Appends to `own` what lies in [first, first + size) among n offsets, whose updates are `step` apart from `dense` on.
// Without a branch: which they are cannot be predicted.
inline void pick_owned(Updates& own, const Size* offsets, Size n, Size first, std::uint64_t size, Size dense,
                       Size step) noexcept {
  Size kept = own.n, i = 0;
#if defined(__AVX512F__)
  const __m512i begin = _mm512_set1_epi64(first), length = _mm512_set1_epi64(static_cast<long long>(size));
  const __m512i steps = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(step));
  for (; i + 8 <= n; i += 8) {
    const __m512i updates = _mm512_add_epi64(_mm512_set1_epi64(dense + i * step), steps);
    const __m512i at = _mm512_loadu_si512(offsets + i);
    const __mmask8 mine = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(at, begin), length);
    unsigned lanes = mine;
    asm("" : "+r"(lanes));  // GCC 12 may keep the mask as one byte in memory, and count the bits of four
    _mm512_storeu_si512(own.at + kept, _mm512_maskz_compress_epi64(mine, at));
    _mm512_storeu_si512(own.listed + kept, _mm512_maskz_compress_epi64(mine, updates));
    kept += std::popcount(lanes);
  }
#endif
  for (; i < n; ++i) {
    own.at[kept] = offsets[i];
    own.listed[kept] = dense + i * step;
    kept += Size{static_cast<std::uint64_t>(offsets[i]) - static_cast<std::uint64_t>(first) < size};
  }
  own.n = kept;
}

// The hardware does not predict which updates are the owner's: longer ones are prefetched too.
struct PrefetchOwned {
  PrefetchBlock<true> slices;
  bool updates;
  [[gnu::always_inline]] void operator()(const Updates& own) const noexcept {
    slices(own);
    if (updates) prefetch_slices(slices.plan.dense, slices.plan.width, own.listed, own.n);
  }
};

// Applies the recorded updates of one owner.
inline void apply_owned(const Plan& plan, const Schedule& schedule, Store store, const Partition& partition,
                        int owner) noexcept {
  const Size first = partition.border[owner];
  const auto size = static_cast<std::uint64_t>(partition.border[owner + 1]) - static_cast<std::uint64_t>(first);
  const Size step = plan.inner().dense;
  const Size part = std::max<Size>(block_size(plan, {}) / 2, 1);  // a block has room for two
  const Size* offsets = partition.offsets;
  Cursor cursor(plan, partition.begin);
  Size left = partition.end - partition.begin;
  const auto fill = [&](Updates& own) {
    own.n = 0;
    while (left > 0 && own.n <= part) {
      const Size n = std::min({left, part, cursor.left});
      pick_owned(own, offsets, n, first, size, cursor.dense, step);
      offsets += n;
      left -= n;
      cursor.advance(n);
    }
    return true;
  };
  const PrefetchOwned prefetch_owned{{plan, schedule.prefetch && !schedule.nontemporal}, plan.width > kLine};
  each_block<Updates>(schedule.prefetch || prefetch_owned.updates, fill, prefetch_owned, [&](const Updates& own) {
    store(plan, own.at, {0, 0, own.listed}, own.n);
  });
  if (schedule.nontemporal) finish_writes();
}

}  // namespace ndgather::NDGATHER_ISA
