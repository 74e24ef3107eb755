// gather.h - the loop behind every gather: a block of offsets, and what they name copied; once that takes
// too long, their lines are asked for and the block before it is copied.
#pragma once

#include <algorithm>
#include <chrono>

#include "copy.h"
#include "cursor.h"
#include "dispatch.h"

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#endif

namespace ndgather::NDGATHER_ISA {

struct Block {
  alignas(kLine) Size at[kBlock];
  Size n;
  char* near;
  bool good;
};

// The lines of a row that are asked for ahead; the hardware follows a longer row by itself.
inline constexpr Size kPrefetchBytes = 1024;

// Always inlined: GCC takes a function that only prefetches for one without effect, and drops calls.
template <bool Write = false>
[[gnu::always_inline]] inline void prefetch(const char* at) noexcept {
#if defined(__GNUC__)
  if constexpr (Write) {
    __builtin_prefetch(at, 1);
  } else {
    __builtin_prefetch(at, 0);
  }
#elif defined(_MSC_VER) && defined(_M_X64)
  _mm_prefetch(at, _MM_HINT_T0);
#else
  (void)at;
#endif
}

// How far ahead of their use indices and updates are asked for, in bytes: between the blocks the hardware
// loses track of them. 2 KiB brought half of what 6 KiB brings.
inline constexpr Size kAhead = 6144;

// For n positions, each of which reads `step` bytes further. What is further apart than a line is left to
// itself.
[[gnu::always_inline]] inline void prefetch_ahead(const Plan& plan, const char* at, Size step, Size n) noexcept {
  if (!plan.asks_ahead || step > kLine) [[unlikely]] return;  // else 3 % of large gathers go
  for (Size b = 0; b < n * step; b += kLine) prefetch(at + kAhead + b);
}

// Elements lie on one line. Other slices may lie on two, however short they are, and the second has to be
// waited for just as well: where it was not asked for, rows of 3 to 64 bytes took 1.2 to 1.9 times as long.
template <bool Write = false>
[[gnu::always_inline]] inline void prefetch_places(const char* array, Size width, const Size* at,
                                                   Size n) noexcept {
  if (is_of_machine_width(width)) {
    for (Size i = 0; i < n; ++i) prefetch<Write>(array + at[i]);
    return;
  }
  const Size bytes = std::min(width, kPrefetchBytes);
  for (Size i = 0; i < n; ++i) {
    const char* row = array + at[i];
    for (Size b = 0; b < bytes; b += kLine) prefetch<Write>(row + b);
    prefetch<Write>(row + bytes - 1);
  }
}

// Where all runs read the same few index values, as in taking some columns of a table, these are read and
// checked once (2 columns of 100,000 rows: 0.3 of the time).
struct Repeated {
  Size run = 0;   // positions in one; 0: runs differ, or are long
  Size step;      // from the base of one to the next, within it
  Size count;     // positions in as many runs as are known
  bool good;
  alignas(kLine) Size at[kBlock];  // from the base of the first of these

  Repeated(const Plan& plan, Offsets<Size> offsets, const Bases& bases, bool run_by_run) noexcept {
    const int last = plan.position_rank - 1;
    if (last < 1 || plan.run > 0) return;
    for (int d = 0; d < last; ++d) {
      if (plan.position[d].index != 0) return;
    }
    const Position &inner = plan.position[last], &outer = plan.position[last - 1];
    if (inner.size > kBlock) return;
    run = count = inner.size;
    step = inner.far;
    good = offsets(plan, plan.indices, 0, bases.far, run, at);
    if (!good && plan.mode != Mode::fill) std::fill_n(at, run, kNowhere);  // these must not be used
    if (run_by_run) return;
    for (const Size most = std::min(kBlock / run, outer.size) * run; count < most; ++count) {
      const Size before = at[count - run];
      at[count] = before == kNowhere ? kNowhere : before + outer.far;
    }
  }

  // Writes the offsets of n positions, the first of which is `done` after that of a run and begins at `far`.
  void offsets_from(Size far, Size done, Size n, Size* __restrict out) const noexcept {
    const Size base = far - done * step;
    const Size* from = at + done;
    for (Size i = 0; i < n; ++i) out[i] = good || from[i] != kNowhere ? base + from[i] : kNowhere;
  }

  // Writes the offsets of up to `most` positions, steps over them, and returns how many they are.
  Size offsets_of(Cursor& cursor, Size most, Size* out) const noexcept {
    const Size done = run - cursor.left;
    const Size n = std::min({most, count - done, cursor.left_of_plane()});
    offsets_from(cursor.far, done, n, out);
    cursor.advance_in_plane(n);
    return n;
  }
};

// What a walk over positions makes ready once.
struct Walk {
  Offsets<Size> offsets;
  Bases bases;
  Repeated repeated;

  Walk(const Plan& plan, bool run_by_run) noexcept
      : offsets(pick_offsets(plan)), bases(plan), repeated(plan, offsets, bases, run_by_run) {}
};

// The blocks of a walk. Each is used when it is full; or, once places have taken too long in two that were
// timed one after the other, after the lines of the next one have been asked for. One alone may have been
// held up by something else: an interrupt, or the first touch of a page of the result.
template <class Block>
class Blocks {
 public:
  explicit Blocks(double patience, std::atomic<bool>* far_away = nullptr) noexcept
      : patience_(patience), far_away_(far_away), asks_(patience < 0 || learnt()) {}

  Block& next() noexcept { return blocks_[current_]; }

  // Whether the lines of a block are to be asked for before take().
  bool asks() const noexcept { return asks_; }

  // The next block is full; `more` come after it.
  template <class Use>
  void take(Use use, bool more) noexcept {
    Block& block = blocks_[current_];
    if (asks_) {
      finish(use);
      asked_ = true;
      current_ = 1 - current_;
    } else if (more && patience_ < kEndless && (slow_ || turn_++ % kWatched == 0)) {
      const auto begin = std::chrono::steady_clock::now();
      use(block);
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      const bool slow = took.count() > kClock + patience_ * static_cast<double>(block.n);
      if (slow && slow_) learn();
      slow_ = slow;
    } else {
      use(block);
    }
  }

  // There is no other one.
  template <class Use>
  void finish(Use use) noexcept {
    if (asked_) use(blocks_[1 - current_]);
  }

 private:
  static constexpr unsigned kWatched = 16;  // every so many blocks one is timed
  static constexpr double kClock = 50;      // nanoseconds that this takes

  // What one walk of a call has found out holds for those that begin after it.
  bool learnt() const noexcept {
    return far_away_ != nullptr && far_away_->load(std::memory_order_relaxed);
  }
  void learn() noexcept {
    asks_ = true;
    if (far_away_ != nullptr) far_away_->store(true, std::memory_order_relaxed);
  }

  const double patience_;
  std::atomic<bool>* const far_away_;
  bool asks_;
  bool slow_ = false;   // the last block was timed, and took too long
  bool asked_ = false;  // the other block has been asked for, and not been used
  unsigned turn_ = 0;
  int current_ = 0;
  Block blocks_[2];
};

// How many positions make a block: large slices fill the first-level cache by themselves.
inline constexpr Size kBlockBytes = Size{1} << 14;
inline Size block_size(const Plan& plan) noexcept {
  // Slices that are written a piece at a time: lines of some results fight for one set.
  const bool pieces = plan.slice_rank > 0 && !packs_slices(plan) && !has_long_slices(plan);
  const Size bytes = pieces ? Size{1} << 9 : kBlockBytes;
  const Size slice = plan.width * plan.slice_elements();
  return std::clamp<Size>(bytes / std::max<Size>(slice, 1), 1, kBlock);
}
// What is small and may look far is one block, before which nothing could be asked for.
static_assert(kFewPositions <= kBlock && kFewBytes <= kBlockBytes);

// The next block: across runs where the near array allows it, else to the end of the run.
inline void fill_block(Block& block, Cursor& cursor, const Walk& walk, Size want) noexcept {
  const Plan& plan = cursor.plan;
  block.near = cursor.near;
  block.good = true;
  block.n = 0;
  do {
    Size n = std::min(want - block.n, cursor.left);
    if (walk.repeated.run > 0) {
      block.good &= walk.repeated.good;
      n = walk.repeated.offsets_of(cursor, want - block.n, block.at + block.n);
    } else {
      prefetch_ahead(plan, cursor.index, plan.position[plan.position_rank - 1].index, n);
      const auto [far, bases] = walk.bases.from(cursor);
      block.good &= walk.offsets(plan, cursor.index, far, bases, n, block.at + block.n);
      cursor.advance(n);
    }
    block.n += n;
  } while (block.n < want && plan.near_linear);
}

// Positions of one run that are taken together where rows come from memory: it serves some lines at a time,
// and should never have nothing to do. Gathers of 4096 x 4096 elements take 0.8 of the time that they take
// in blocks of 256, scatters 0.9; in blocks of 32 as long as before.
inline constexpr Size kShortBlock = 64;

// Calls use(offsets, n, near, good) for the positions [begin, end). Along the last axis every run looks into
// a row of its own, in an order that the hardware cannot foresee: while one row is looked into, the next is
// asked for, line after line.
template <bool Write = false, class Use>
bool walk_rows(const Plan& plan, Size begin, Size end, Use use) noexcept {
  const Walk walk(plan, true);
  const Position run = plan.position[plan.position_rank - 1];
  const Size next_row = plan.position[plan.position_rank - 2].far;
  constexpr int kFraction = 16;  // bits
  const Size share = (plan.reach() << kFraction) / run.size;  // of a row, for each position of a run
  const Size most = std::min(block_size(plan), kShortBlock);
  alignas(kLine) Size at[kShortBlock];
  Cursor cursor(plan, begin);
  for (Size left = end - begin; left > 0;) {
    const char* index = cursor.index;
    char* near = cursor.near;
    const char* const next = plan.far + cursor.far + next_row;
    const Size first = run.size - cursor.left, last = std::min(run.size, first + left);
    Size asked = first * share >> kFraction;
    for (Size done = first; done < last;) {
      const Size n = std::min(most, last - done);
      bool good;
      if (walk.repeated.run > 0) {
        good = walk.repeated.good;
        walk.repeated.offsets_from(cursor.far, done, n, at);
      } else {
        prefetch_ahead(plan, index, run.index, n);
        good = walk.offsets(plan, index, cursor.far, walk.bases.far, n, at);
      }
      if (!good && plan.mode != Mode::fill) return false;
      if (Write) prefetch_ahead(plan, near, run.near, n);
      done += n;
      for (; asked < done * share >> kFraction; asked += kLine) prefetch<Write>(next + asked);
      use(at, n, near, good);
      index += n * run.index;
      near += n * run.near;
    }
    cursor.advance(last - first);
    left -= last - first;
  }
  return true;
}

inline bool gather(const Plan& plan, Size begin, Size end) noexcept {
  const Copy copy = pick_copy(plan);
  const Size step = plan.position[plan.position_rank - 1].near;
  const Streaming streaming{plan.streams};
  if (plan.asks_for_rows) {
    return walk_rows(plan, begin, end, [&](const Size* at, Size n, char* near, bool good) {
      (good ? copy : copy_or_fill)(plan, at, n, near, step);
    });
  }
  const Walk walk(plan, !plan.near_linear);
  const Size most = block_size(plan);
  const auto use = [&](const Block& block) {
    (block.good ? copy : copy_or_fill)(plan, block.at, block.n, block.near, step);
  };

  Cursor cursor(plan, begin);
  Blocks<Block> blocks(plan.patience, plan.far_away);
  for (Size left = end - begin; left > 0;) {
    Block& block = blocks.next();
    fill_block(block, cursor, walk, std::min(left, most));
    if (!block.good && plan.mode != Mode::fill) return false;
    left -= block.n;
    if (blocks.asks() && block.good) prefetch_places(plan.far, plan.width, block.at, block.n);
    blocks.take(use, left > 0);
  }
  blocks.finish(use);
  return true;
}

}  // namespace ndgather::NDGATHER_ISA
