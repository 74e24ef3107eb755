// walk.h - the loop behind every gather and scatter except those of panels.h. It computes a block of checked offsets and
// prefetches their slices, then processes the previous block while the slices arrive.
#pragma once

#include "loops.h"
#include "offsets.h"

namespace ndgather::NDGATHER_ISA {

// The current position of a loop over a plan.
struct Cursor {
  const Plan& plan;
  const char* index;  // the index tuple of the next position
  Size base;          // offset in the indexed array before the index tuple is added
  Size dense;         // offset in the dense array
  Size left;          // positions left in the innermost dim
  Size coordinate[kMaxRank];  // in the other dims

  Cursor(const Plan& p, Size begin) noexcept : plan(p), index(p.indices), base(0), dense(0) {
    for (int d = plan.loop_rank - 1; d >= 0; --d) {
      const Dim& dim = plan.loop[d];
      coordinate[d] = 0;
      if (begin == 0) continue;  // a division takes longer than everything else here, which matters in small calls
      coordinate[d] = begin % dim.size;
      begin /= dim.size;
      move(dim, coordinate[d]);
    }
    left = plan.inner().size - coordinate[plan.loop_rank - 1];
  }

  // Advances by n <= left positions, and to the next run at the end of the innermost dim.
  void advance(Size n) noexcept {
    move(plan.inner(), n);
    left -= n;
    if (left > 0) return;
    const Dim& inner = plan.inner();
    move(inner, -inner.size);
    left = inner.size;
    for (int d = plan.loop_rank - 2; d >= 0; --d) {
      const Dim& dim = plan.loop[d];
      move(dim, 1);
      if (++coordinate[d] < dim.size) return;
      move(dim, -dim.size);
      coordinate[d] = 0;
    }
  }

 private:
  void move(const Dim& dim, Size steps) noexcept {
    index += steps * dim.index;
    base += steps * dim.indexed;
    dense += steps * dim.dense;
  }
};

template <bool Write = false>
[[gnu::always_inline]] inline void prefetch_lines(const char* at, Size bytes) noexcept {
  for (Size b = 0; b < bytes; b += kLine) prefetch<Write>(at + b);
  prefetch<Write>(at + bytes - 1);
}

// Values computed once per loop over a plan: the function that computes offsets, and the base of each position of a block. If
// all runs read the same indices, for example to select columns of a table, these are checked once and added to the bases.
template <class Out = Size>
struct Walk {
  const Plan& plan;
  PickedOffsets<Out> offsets;
  bool repeated, repeated_good = true;
  Size ahead = 0;        // prefetch distance of the indices in bytes, or 0
  Size dense_ahead = 0;  // prefetch distance of the dense array in bytes, or 0 if the hardware prefetches it
  // To prefetch the next row of data: the bytes of a row, and the bytes to prefetch per position, as a multiple of 2**-16.
  // Rows of 4,000 bytes with 1,000 lookups each are prefetched at 4 bytes per lookup, so row_share is 4 * 65,536.
  Size next_row = 0, row_share = 0;
  alignas(kLine) Size bases[kLimits.block + kTuning.short_run];

  explicit Walk(const Plan& p, const Schedule& schedule = {}) noexcept
      : plan(p), offsets(pick_offsets<Out>(p)), repeated(p.joined.index != 0) {
    const Dim& inner = plan.inner();
    const Joined& joined = plan.joined;
    const Size step = joined.run > 0 ? joined.step : inner.indexed;
    // Blocks may begin anywhere in a run, so `bases` has one more run than a block needs. With runs of 3 positions, a step of
    // 8 and a next_run of 100, the bases are 0 8 16 | 100 108 116 | 200 ..., and a block may begin at 8.
    const Size count = offsets.affine ? 0 : joined.run + std::min(inner.size, kLimits.block);
    const Size first_run = joined.run > 0 ? joined.run : count;
    for (Size i = 0; i < first_run; ++i) bases[i] = i * step;
    if (repeated) add_repeated();
    for (Size i = first_run; i < count; ++i) {
      const Size before = bases[i - joined.run];
      bases[i] = repeated && before == kOutside ? kOutside : before + joined.next_run;
    }
    if (schedule.prefetch_rows) {
      next_row = plan.reach();
      row_share = (next_row << 16) / (joined.run > 0 ? joined.run : inner.size);
    }
    if (schedule.prefetch_indices && inner.index > 0 && inner.index <= kLine) {
      // If runs are shorter than the prefetch distance, prefetch the indices of a later run.
      const bool ends = plan.loop_rank > 1 && inner.size * inner.index < kTuning.index_ahead;
      ahead = ends ? 4 * plan.loop[plan.loop_rank - 2].index : kTuning.index_ahead;
      const bool reads_dense = inner.dense == plan.width && !schedule.nontemporal;
      if (reads_dense && ends) dense_ahead = 4 * plan.loop[plan.loop_rank - 2].dense;
      if (reads_dense && !ends && schedule.prefetch_rows) dense_ahead = kTuning.index_ahead;
    }
  }

  // Writes the offsets of n positions from the cursor on, which must be in one run of the innermost dim.
  bool block(const Cursor& cursor, Size n, Out* __restrict out) const noexcept {
    if (ahead != 0) prefetch_lines(cursor.index + ahead, n * plan.inner().index);
    if (dense_ahead != 0) prefetch_lines(plan.dense + cursor.dense + dense_ahead, n * plan.width);
    if (next_row != 0) {
      const Size done = plan.inner().size - cursor.left;
      prefetch_lines(plan.indexed + cursor.base + next_row + (done * row_share >> 16), n * row_share >> 16);
    }
    const Joined& joined = plan.joined;
    if (joined.run == 0) return offsets.compute(plan, cursor.index, cursor.base, bases, n, out);
    const Size done = plan.inner().size - cursor.left, runs = done < joined.run ? 0 : done / joined.run;
    const Size base = cursor.base + runs * joined.next_run;
    const Size first = done - runs * joined.run;
    if (!repeated) return offsets.compute(plan, cursor.index, base, bases + first, n, out);
    const Size* const from = bases + first;
    for (Size i = 0; i < n; ++i) {
      out[i] = repeated_good || from[i] != kOutside ? static_cast<Out>(base + from[i]) : kOutsideAs<Out>;
    }
    return repeated_good;
  }

 private:
  void add_repeated() noexcept {
    Plan once = plan;
    once.loop_rank = 1;
    once.loop[0].index = plan.joined.index;
    Size checked[kTuning.short_run];
    repeated_good = pick_offsets(once).compute(once, plan.indices, 0, bases, plan.joined.run, checked);
    for (Size i = 0; i < plan.joined.run; ++i) bases[i] = repeated_good || plan.fills() ? checked[i] : kOutside;
  }
};

template <class At>
struct BlockOf {
  using Offset = At;
  alignas(kLine) At at[std::is_same_v<At, Narrow> ? kLimits.affine_block : kLimits.block];  // into the indexed array
  Size n = 0;
  Size dense = 0;    // offset of the first position in the dense array
  bool good = true;  // whether all indices are in bounds
};
using Block = BlockOf<Size>;

// Fills a block with up to `want` positions, across runs if the dense array is linear, and otherwise up to the end of a run.
// After the `last` block the cursor need not advance. Not inlined, because inlining makes small calls 10 % slower.
template <class At>
[[gnu::noinline]] void fill_block(BlockOf<At>& block, Cursor& cursor, const Walk<At>& walk, Size want,
                                  bool last = false) noexcept {
  block.dense = cursor.dense;
  block.good = true;
  block.n = 0;
  do {
    const Size n = std::min(want - block.n, cursor.left);
    block.good &= walk.block(cursor, n, block.at + block.n);
    block.n += n;
    if (last && block.n == want) return;
    cursor.advance(n);
  } while (block.n < want && walk.plan.dense_linear);
}

// Prefetches the slices of a block, or the beginning of a long slice if the hardware prefetches the rest by itself. An
// element lies in one cache line, but any other slice may extend into a second line, however short it is.
template <bool Write>
struct PrefetchBlock {
  const Plan& plan;
  bool wanted;
  template <class B>
  [[gnu::always_inline]] void operator()(const B& block) const noexcept {
    if (!wanted || !block.good) return;
    if (plan.width <= 8) {
      for (Size i = 0; i < block.n; ++i) prefetch<Write>(plan.indexed + block.at[i]);
      return;
    }
    const Size bytes = std::min(plan.width, kTuning.prefetch_bytes);
    for (Size i = 0; i < block.n; ++i) prefetch_lines<Write>(plan.indexed + block.at[i], bytes);
  }
};

// Alternates between fill(block), which returns whether the block may be used, and use(block), until a block is empty. If
// `ahead` is true, each block is filled and prefetched before the previous block is used.
template <class B, class Fill, class Prefetch, class Use>
bool each_block(bool ahead, Fill fill, Prefetch prefetch_block, Use use) noexcept {
  B blocks[2];
  int turn = 0;
  bool pending = false;
  for (;;) {
    B& block = blocks[turn];
    if (!fill(block)) return false;
    if (block.n == 0) break;
    if (!ahead) {
      use(block);
      continue;
    }
    prefetch_block(block);
    if (pending) use(blocks[1 - turn]);
    pending = true;
    turn = 1 - turn;
  }
  if (pending) use(blocks[1 - turn]);
  return true;
}

// Returns the positions in a block. Blocks of large slices have fewer positions, so that they fit in the L1 cache: 16 KB hold
// 16 slices of 1 KB. Prefetched blocks are short, so that one block is moved while the next one arrives.
inline Size block_size(const Plan& plan, const Schedule& schedule, bool affine = false) noexcept {
  constexpr Size kLines = 8;
  Size most = schedule.prefetch ? kLimits.slices_ahead : affine ? kLimits.affine_block : kLimits.block;
  if (schedule.prefetch_indices && !schedule.prefetch) {
    const Size together = schedule.prefetch_rows && plan.width < kLine ? kLines * kLine : kLimits.index_block;
    most = std::min(most, std::max<Size>(together / index_bytes(plan.index_type), 1));
  }
  const Size bytes = plan.slice_bytes();
  return bytes <= kTuning.block_bytes / kLimits.block ? most : std::clamp<Size>(kTuning.block_bytes / bytes, 1, most);
}

// Calls use(block) for the positions [begin, end). Returns false if the mode does not handle an out-of-bounds index; any
// part of the positions may have been used by then.
template <class B, bool Write, class Use>
bool walk_blocks(const Plan& plan, const Schedule& schedule, Size begin, Size end, const Use& use) noexcept {
  const Walk<typename B::Offset> walk(plan, schedule);
  const Size most = block_size(plan, schedule, walk.offsets.affine);
  // Memory-mapped pages may be read slowly from disk. A short first block detects this early.
  Size wanted = plan.stop != nullptr && plan.reach() > kLimits.unsure_bytes ? std::min(most, kLimits.first_block) : most;
  Cursor cursor(plan, begin);
  Stop::Pace pace;
  Size left = end - begin;
  const auto fill = [&](B& block) {
    block.n = 0;
    if (left == 0) return true;
    if (plan.stop != nullptr && plan.stop->reached(pace)) return false;
    fill_block<typename B::Offset>(block, cursor, walk, std::min(left, wanted), left <= wanted);
    left -= block.n;
    wanted = most;
    return block.good || plan.fills();
  };
  if (left <= wanted && plan.dense_linear) {  // a single block, as in small calls
    B block;
    if (!fill(block)) return false;
    use(block);
    return true;
  }
  const PrefetchBlock<Write> prefetch_block{plan, !(Write && schedule.nontemporal)};
  return each_block<B>(schedule.prefetch, fill, prefetch_block, use);
}

}  // namespace ndgather::NDGATHER_ISA
