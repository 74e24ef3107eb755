// tuning.h - all thresholds at which the core changes its behavior. `make check-borders` tests a build in which they are so
// small that arrays of a few hundred bytes cross all of them.
#pragma once

#include "plan.h"

namespace ndgather {

inline constexpr Size kLine = 64;  // bytes of a cache line

// Measured thresholds; see docs/design.md.
struct Tuning {
  Size small_positions = 128;          // calls of up to this size need no schedule (8 times as many if data is cached)
  Size block_bytes = Size{1} << 14;    // a block of slices and its result stay in the first-level cache
  Size short_run = 128;                // longer runs are worth a block of their own
  Size prefetch_bytes = 128;           // prefetched bytes per slice; the hardware prefetches the rest of longer slices
  Size index_ahead = 6144;             // prefetch distance of indices, in bytes
  Size panel_bytes = 256;              // wide enough for fast reads from memory, narrow enough to stay in the cache
  Size nontemporal_row = 512;          // shorter rows share too many of their lines with others
  Size own_bytes = 512;                // threads that write closer together compete for cache lines
  Size scratch_bytes = Size{1} << 23;  // memory of a call for recorded offsets, and half of it for maps
  double wake_ns = 30'000;             // work that is worth waking a thread for; half as much if one is awake
  double task_ns = 5'000;              // minimum work in a task
  Size tasks_each = 16;                // tasks per thread, so that other threads can take over from a delayed one
};

// Cache sizes in bytes. The defaults are used if the system reports no sizes. Tests set all three values with the environment
// variable NDGATHER_CACHES, for example to 4096,16384,1, to test the paths of other processors.
struct Caches {
  Size second_level = Size{1} << 20;  // per core
  Size last_level = Size{1} << 25;    // shared
  int prefetching_pays = -1;          // 0 or 1, or -1 to measure it
};

// Sizes of buffers and tables, and thresholds of single rules.
struct Limits {
  Size block = 256;                    // offsets that are computed before they are used
  Size affine_block = 1024;            // the same for narrow offsets without bases, which are cheap to compute
  Size index_block = 2048;             // bytes of indices that are prefetched at a time
  Size slices_ahead = 128;             // slices that are prefetched while the previous ones are moved
  Size owners = 16;                    // maximum number of owners, because each reads all recorded offsets
  Size lines_for_owners = 64;          // lines of a destination per owner; with fewer, one owner would get most updates
  Size border_samples = 256;           // recorded offsets that are sampled to set the borders of owners
  Size marked_bytes = 64;              // shorter slices are written faster by owners than with maps
  Size line_samples = 128;             // slices that are sampled to find out whether they share lines
  Size unsure_bytes = Size{1} << 18;   // larger data may be on pages that have not been read from disk yet
  Size first_block = 16;               // positions in the first block of a call on data larger than that
  Size same_sets = 4096;               // lines a multiple of this many bytes apart compete for the same cache sets
  Size spread_positions = 64;          // with fewer slices, few share lines with their neighbors
  Size half_lines = 1024;              // rows of up to this size are reduced by half lines, in 0.8 to 0.95 of the time
  double longest_task = 20'000'000;    // nanoseconds after which a call must be able to stop
  std::int64_t longest_wait = 300'000;  // a wait for other threads is long from this number of nanoseconds on
  Size point_tile = 512;               // points that are split, looked up or moved at a time
  int digit_bits = 11;                 // bits that one pass of a sort uses, so that its counters stay in the cache
  Size chunks = Size{1} << 20;         // maximum size of a chunk table, which takes 16 bytes per chunk
  Size listed_chunks = 1024;           // maximum number of missing chunks in a lookup; if reached, all points are planned
  Size range_task_bytes = Size{1} << 18;  // minimum size of a task that copies ranges
  Size range_tasks = 1024;
  Size parts_together = 8;             // parts of slices that are moved at a time
  Size parts_ahead = 16;               // prefetch distance of short updates and of parts of slices, in slices
  Size rows_ahead = 8;  // prefetch distance in panels and of their indices and results, and of copied ranges
  int shares_of_tasks = 64;  // maximum number of ranges that the tasks of a call are divided into
  Size pooled_bytes = Size{1} << 20;  // smaller results use NumPy's allocator
  Size huge_page = Size{2} << 20;  // on x86-64 and most ARM processors
};

#ifndef NDGATHER_TINY

inline constexpr bool kTiny = false;
inline constexpr Tuning kTuning;
inline constexpr Caches kCaches;
inline constexpr Limits kLimits;
using Narrow = std::uint32_t;  // for offsets and coordinates that fit in 32 bits; computing them takes half as long

#else

inline constexpr bool kTiny = true;
// clang-format off
inline constexpr Tuning kTuning{
    .small_positions = 2, .block_bytes = 64, .short_run = 3, .prefetch_bytes = 16, .index_ahead = 64, .panel_bytes = 16,
    .nontemporal_row = 16, .own_bytes = 16, .scratch_bytes = 256, .wake_ns = 0, .task_ns = 1, .tasks_each = 2};
inline constexpr Caches kCaches{.second_level = 256, .last_level = 1024};
inline constexpr Limits kLimits{
    .block = 4, .affine_block = 8, .index_block = 32, .slices_ahead = 2, .owners = 3, .lines_for_owners = 0, .border_samples = 16, .marked_bytes = 4, .line_samples = 6,
    .unsure_bytes = 16, .first_block = 1, .same_sets = 64, .spread_positions = 2, .half_lines = 96, .longest_task = 200,
    .longest_wait = INT64_MAX, .point_tile = 4, .digit_bits = 2, .chunks = 6, .listed_chunks = 2, .range_task_bytes = 16,
    .range_tasks = 5, .parts_together = 1, .parts_ahead = 1, .rows_ahead = 1, .shares_of_tasks = 2,
    .pooled_bytes = 4096, .huge_page = 4096};
// clang-format on
using Narrow = std::uint8_t;

#endif

static_assert(kLimits.slices_ahead <= kLimits.block && kLimits.block >= 2);

}  // namespace ndgather
