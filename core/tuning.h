// tuning.h - every number at which the core goes another way. A build for tests makes them so small that arrays of some
// hundred bytes cross each of them (`make check-borders`).
#pragma once

#include "plan.h"

namespace ndgather {

inline constexpr Size kLine = 64;  // bytes of a cache line

// What was measured; docs/design.md says how.
struct Tuning {
  Size small_positions = 128;          // up to so many (8 times as many in cached data) need no schedule
  Size block_bytes = Size{1} << 14;    // a block of slices and what becomes of it stay in the first-level cache
  Size short_run = 128;                // longer runs are worth a block of their own
  Size prefetch_bytes = 128;           // of a slice: the hardware follows longer ones by itself
  Size index_ahead = 6144;             // bytes: so far before their use indices are asked for
  Size panel_bytes = 256;              // wide enough for memory to bring it fast, narrow enough to stay in the cache
  Size nontemporal_row = 512;          // shorter rows share too many of their lines with others
  Size own_bytes = 512;                // threads that write closer to each other than that compete for lines
  Size scratch_bytes = Size{1} << 23;  // what a call may take for recorded offsets, and half of it for maps
  double wake_ns = 30'000;             // work worth waking a thread for; half of it where one is awake
  double task_ns = 5'000;              // least work in one task
  Size tasks_each = 16;                // tasks for each thread, so that one that is held up leaves the rest to others
};

// Sizes of caches in bytes, as the system reports them; otherwise these common sizes. Tests set all three values by the
// environment variable NDGATHER_CACHES, such as 4096,16384,1, to take the paths of other processors.
struct Caches {
  Size second_level = Size{1} << 20;  // of one core
  Size last_level = Size{1} << 25;    // shared
  int prefetching_pays = -1;          // 0 or 1; -1: measured
};

// The room in buffers and tables, and the thresholds of single rules.
struct Limits {
  Size block = 256;                    // offsets that are computed before they are used;
  Size affine_block = 1024;            // narrow ones that need no bases are cheap beside a block
  Size index_block = 2048;             // bytes of indices that are asked for at a time
  Size slices_ahead = 128;             // that are prefetched: one moves while the next ones come
  Size owners = 16;                    // each of which reads all recorded offsets
  Size lines_for_owners = 64;          // of a destination, for each owner: in fewer most updates would be those of one
  Size border_samples = 256;           // recorded offsets that are looked at to set the borders of owners
  Size marked_bytes = 64;              // shorter slices are written faster by owners than by marking them
  Size line_samples = 128;             // slices that are looked at to see whether they share lines
  Size unsure_bytes = Size{1} << 18;   // data that spans more may be pages that are yet to be read from a disk;
  Size first_block = 16;               // the first block of such a call has so few positions
  Size same_sets = 4096;               // bytes between lines that compete for the same cache sets, or a multiple
  Size spread_positions = 64;          // fewer slices share few lines with their neighbours
  double longest_task = 20'000'000;    // nanoseconds between two times when a call can be stopped
  double owner_task = 300'000;         // nanoseconds of the work of one owner, for which others may have to wait
  std::int64_t longest_wait = 300'000;  // nanoseconds that a caller waits for others before it does without them
  Size point_tile = 512;               // points that are split, looked up or moved at a time
  int digit_bits = 11;                 // that one pass of a sort looks at: its counters stay in the cache
  Size chunks = Size{1} << 20;         // of a table, which takes 16 bytes for each
  Size listed_chunks = 1024;           // that are not in a table; with more of them all points are planned
  Size range_task_bytes = Size{1} << 18;  // that one task of copied ranges has, at least
  Size range_tasks = 1024;
  Size parts_together = 8;             // of slices that are moved by parts: so many at a time,
  Size parts_ahead = 16;               // and so far before their use those of the dense array are asked for
  Size rows_ahead = 8;                 // of a panel, and of its indices, that are asked for
  Size ranges_ahead = 8;               // that are asked for before they are copied
  int shares_of_tasks = 64;            // into which the tasks of a call are dealt out
  Size pooled_bytes = Size{1} << 20;   // smaller results stay with the allocator of NumPy
  Size huge_page = Size{2} << 20;      // of x86-64 and most of ARM
};

#ifndef NDGATHER_TINY

inline constexpr bool kTiny = false;
inline constexpr Tuning kTuning;
inline constexpr Caches kCaches;
inline constexpr Limits kLimits;
using Narrow = std::uint32_t;  // of recorded offsets and of coordinates, where they fit: half the time

#else

inline constexpr bool kTiny = true;
// clang-format off
inline constexpr Tuning kTuning{
    .small_positions = 2, .block_bytes = 64, .short_run = 3, .prefetch_bytes = 16, .index_ahead = 64, .panel_bytes = 16,
    .nontemporal_row = 16, .own_bytes = 16, .scratch_bytes = 256, .wake_ns = 0, .task_ns = 1, .tasks_each = 2};
inline constexpr Caches kCaches{.second_level = 256, .last_level = 1024};
inline constexpr Limits kLimits{
    .block = 4, .affine_block = 8, .index_block = 32, .slices_ahead = 2, .owners = 3, .lines_for_owners = 0, .border_samples = 16, .marked_bytes = 4, .line_samples = 6,
    .unsure_bytes = 16, .first_block = 1, .same_sets = 64, .spread_positions = 2, .longest_task = 200, .owner_task = 20,
    .longest_wait = INT64_MAX, .point_tile = 4, .digit_bits = 2, .chunks = 6, .listed_chunks = 2, .range_task_bytes = 16,
    .range_tasks = 5, .parts_together = 1, .parts_ahead = 1, .rows_ahead = 1, .ranges_ahead = 2, .shares_of_tasks = 2,
    .pooled_bytes = 4096, .huge_page = 4096};
// clang-format on
using Narrow = std::uint8_t;

#endif

static_assert(kLimits.slices_ahead <= kLimits.block && kLimits.block >= 2);

}  // namespace ndgather
