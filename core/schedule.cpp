// schedule.cpp - the rules that choose the loop, the loop order and the number of threads for a plan.
#include "schedule.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>

#include "loops.h"
#include "threads.h"

namespace ndgather {
namespace {

double estimated_bytes(const Plan& plan) {
  return static_cast<double>(plan.positions) * static_cast<double>(plan.slice_bytes());
}

// Which part of the addressed data is cached: all of it, none of it, or the part that the innermost dims address.
enum class Cached { all, none, parts };

Cached cached_part(const Plan& plan) {
  Size lookups = 1;
  auto span = static_cast<double>(plan.reach());  // a double, because packed coordinates and their batches can exceed 2**63
  if (span == 0) return Cached::all;
  Cached cached = Cached::none;
  for (int d = plan.loop_rank - 1; d >= 0; --d) {
    const Dim& dim = plan.loop[d];
    lookups *= dim.size;  // at most all positions
    span += static_cast<double>(dim.size) * std::abs(static_cast<double>(dim.indexed));
    if (span > static_cast<double>(caches().second_level)) continue;
    // A part is cached if it is looked up at least once per cache line. For example, a row of 30,000 float32 has 1,875 lines,
    // so 2,000 lookups per row are enough.
    if (lookups >= static_cast<Size>(span) / kLine) cached = Cached::parts;
  }
  const Size room = cached == Cached::none ? caches().last_level / 2 : caches().second_level;
  return span <= static_cast<double>(room) ? Cached::all : cached;
}

// Returns how many threads are worth waking. The work of each thread takes at least about as long as waking it: with 15 us
// per thread, at most six threads share 100 us of work.
int worth_sharing(const Plan& plan, int threads) {
  if (threads == 1) return 1;
  const double work = nanoseconds(plan), least = kTuning.wake_ns / 2;
  if (work < kTuning.wake_ns && (work < least || !threads_are_awake())) return 1;
  return static_cast<int>(std::clamp(work / least, 2., static_cast<double>(threads)));
}

Size task_count(const Plan& plan, bool shared, int threads) {
  const double work = nanoseconds(plan);
  const Size wanted = shared ? std::min(static_cast<Size>(work / kTuning.task_ns), threads * kTuning.tasks_each) : 1;
  return std::max({Size{1}, wanted, static_cast<Size>(std::min(work / kLimits.longest_task, 1e5))});
}

// Whether to write past the caches: only long rows, or adjacent elements of a gather, and only if the output is too large
// for the caches.
bool writes_past_caches(const Plan& plan, bool gathers) {
  const bool elements = gathers && (plan.width == 4 || plan.width == 8) && plan.inner().dense == plan.width;
  return plan.slice_rank == 0 && (plan.width >= kTuning.nontemporal_row || elements) &&
         estimated_bytes(plan) >= static_cast<double>(caches().last_level);
}

// Whether to split slices because their elements are a cache line or more apart. Each of these lines also contains elements
// of neighboring slices, so it is faster to process all slices element by element, or in parts that fill a cache line of the
// dense array. A gather keeps slices whole if all cache lines of a slice fit in the L2 cache.
bool are_spread(const Plan& plan, bool gathers) {
  bool spread = plan.slice_rank > 0 && plan.loop_rank + plan.slice_rank <= kMaxRank &&
                plan.positions >= kLimits.spread_positions;
  bool kept = gathers && plan.slice_elements() * kLine <= caches().second_level / 8;
  for (int d = 0; d < plan.slice_rank; ++d) {
    spread &= std::abs(plan.slice[d].indexed) >= kLine;
    kept &= plan.slice[d].indexed % kLimits.same_sets != 0;
  }
  return spread && !kept;
}

// How many elements of a strided slice fill a cache line of the dense array, or 0 if slices stay whole.
Size elements_of_line(const Plan& plan, bool gathers) {
  if (plan.slice_rank == 0 || !are_spread(plan, gathers)) return 0;
  const Dim& line = plan.slice[plan.slice_rank - 1];
  return line.dense == plan.width ? std::clamp<Size>(kLine / plan.width, 1, line.size) : 0;
}

// Whether prefetching speeds up gathers of slices of at most one line. Some processors prefetch far enough ahead without
// help, so the first large plan is timed with and without prefetching, for the whole process. With prefetching, a gather of
// 2**20 floats from 64 MB is 1.6 times as fast on Intel's Ice Lake, but 0.8 times as fast on AMD's Zen 4.
bool prefetching_pays(const Plan& plan) {
  static std::atomic<int> known{caches().prefetching_pays};
  if (const int pays = known.load(std::memory_order_relaxed); pays >= 0) return pays != 0;
  // Ten samples, every other one with prefetching, have 2,048 positions each, or fewer, so that all ten read at most half of
  // the plan. With 20,000 positions, each would have 20,000 / 20 = 1,000, which is too few to time.
  constexpr Size kSamples = 10, kMost = kTiny ? 2 : 2048;
  const Size tried = std::min(kMost, plan.positions / (2 * kSamples));
  if (plan.slice_rank > 0 || tried < kMost / 2) return true;
  using Clock = std::chrono::steady_clock;
  char element[kLine];
  Plan sample = plan;
  sample.dense = element;
  for (int d = 0; d < plan.loop_rank; ++d) sample.loop[d].dense = 0;
  Clock::duration taken[2][kSamples / 2];
  for (Size i = 0; i < kSamples; ++i) {
    Schedule schedule;
    schedule.prefetch = i % 2 != 0;
    schedule.prefetch_indices = true;  // as in large calls; otherwise waiting for indices hides the difference
    const Size begin = plan.positions / kSamples * i;
    const auto started = Clock::now();
    if (!loops().gather(sample, schedule, begin, begin + tried)) return true;  // an index is out of bounds
    taken[i % 2][i / 2] = Clock::now() - started;
  }
  for (auto& each : taken) std::sort(each, each + kSamples / 2);
  const bool pays = taken[1][kSamples / 4] < taken[0][kSamples / 4] * 7 / 8;  // if the difference is small, do not prefetch
  known.store(pays, std::memory_order_relaxed);
  return pays;
}

void set_common(Schedule& schedule, const Plan& plan, int threads, bool gathers) {
  const Cached cached = cached_part(plan);
  const Size row = plan.reach();
  const bool rows = cached == Cached::parts && plan.slice_rank == 0 && plan.loop_rank > 1 && plan.inner().indexed == 0 &&
                    plan.loop[plan.loop_rank - 2].indexed == row;
  const bool misses = (cached == Cached::none || rows) && !loops().shares_lines(plan);
  const auto slices_pay = [&] { return plan.width > kLine || prefetching_pays(plan); };
  schedule.prefetch = misses && !rows && slices_pay();
  // With two lookups per cache line, prefetching the next row takes 0.6 to 0.9 of the time. With one, it takes 0.9 if rows stay
  // in the first-level cache. Longer rows take 0.92 on AMD's Zen 4, but 1.4 on an Intel processor, where slices pay as well.
  schedule.prefetch_rows = misses && rows &&
                           (row <= kTuning.block_bytes || plan.inner().size >= 2 * row / kLine || !slices_pay());
  const Size tuple = plan.column_count * index_bytes(plan.index_type);
  // Indices that fit the last-level cache are not prefetched: doing so took 1.1 times as long on AMD's Zen 4.
  schedule.prefetch_indices = tuple > 0 && plan.positions > caches().last_level / 4 / tuple;
  schedule.nontemporal = writes_past_caches(plan, gathers);
  schedule.threads = worth_sharing(plan, threads);
  schedule.task_positions = plan.positions;
  schedule.part_elements = elements_of_line(plan, gathers);
}

// Splits slices into parts of whole elements and whole cache lines. For example, 10,000 float32 in 3 parts: the next
// multiple of 4 * 64 bytes above 40,000 / 3 is 13,568, so the parts have 13,568, 13,568 and 12,864 bytes.
void split_slices(Schedule& schedule, const Plan& plan, Size parts) {
  const Size grain = plan.element * kLine;
  parts = std::min(parts, divide_up(plan.width, grain));
  schedule.part_bytes = std::min(round_up(plan.width / parts + 1, grain), plan.width);
}

Size count_parts(const Schedule& schedule, const Plan& plan) {
  if (schedule.part_bytes > 0) return divide_up(plan.width, schedule.part_bytes);
  if (schedule.part_elements == 0 || plan.slice_rank == 0) return 1;
  return divide_up(plan.slice[plan.slice_rank - 1].size, schedule.part_elements);
}

void split_positions(Schedule& schedule, const Plan& plan) {
  const Size wanted = task_count(plan, schedule.threads > 1, schedule.threads);
  if (plan.positions < wanted && plan.slice_rank == 0 && plan.width > 0) {
    split_slices(schedule, plan, divide_up(wanted, plan.positions));
  }
  const Size parts = count_parts(schedule, plan), ranges = divide_up(wanted, parts);
  schedule.task_positions = std::max<Size>(divide_up(plan.positions, ranges), 1);
  // Tasks begin at multiples of 16 elements, so that writes past the caches are aligned to whole registers.
  if (plan.width <= 8) schedule.task_positions = round_up(schedule.task_positions, 16);
  schedule.tasks = divide_up(plan.positions, schedule.task_positions) * parts;
}

// Returns how many columns to pack into a panel, or 0. Packing pays off if a column has about as many lookups as rows, and
// if lookups would miss the cache. They do if the data is larger than half the last-level cache, or if it is larger than the
// L2 cache and its rows compete for the same cache sets.
Size packed_columns(const Plan& plan, const Dim& along, const Dim& across) {
  if (across.indexed != plan.width || along.indexed != 0) return 0;
  const Size rows = plan.column[0].extent, cache = caches().second_level;
  const bool same_sets = plan.column[0].stride % kLimits.same_sets == 0;
  if (rows * across.size * plan.width < (same_sets ? cache : caches().last_level / 2)) return 0;
  const bool fits = rows <= 2 * cache / kTuning.panel_bytes;  // half of a panel may be outside the L2 cache
  // Tall panels are half as wide, to leave room in the cache for indices and results, unless an index has no more bytes than an
  // element. On AMD's Zen 4, 32 columns of floats take 0.8 to 0.9 of the time of 64 with int64 indices, but 1.03 to 1.15 with
  // int32 indices, and 16 columns of doubles take 1.1 to 1.4 times as long as 32.
  const bool is_half = rows > cache / 2 / kTuning.panel_bytes && plan.width < index_bytes(plan.index_type);
  return along.size >= rows / 2 && fits ? kTuning.panel_bytes / (is_half ? 2 : 1) / plan.width : 0;
}

// Whether the dense array and the indices are stored in different orders, so that a loop in the order of one would access a
// new cache line of the other for every element.
bool is_crossed(const Dim& along, const Dim& across) {
  return std::abs(across.index) >= kLine / 2 && std::abs(along.index) < kLine && std::abs(along.dense) >= kLine &&
         across.indexed != 0;
}

// Splits the columns of the dim `across`, one of the two innermost loop dims, into bands that extend along the other one.
// For example, two threads look up (500, 1000) float32 and write them past the caches. A panel holds 64 columns, so there
// are 16 bands of 63 columns, rounded up to 64 to fill whole lines. With 300 columns there would be 5 bands, fewer than four
// for each thread. So 5 is rounded up to 6, which gives each thread three bands of 50 columns.
Bands bands_across(const Plan& plan, bool swapped, Schedule& schedule, bool scatters) {
  if (plan.column_count != 1 || plan.slice_rank != 0 || plan.loop_rank < 2) return {};
  if (plan.width > 16 || (plan.width & (plan.width - 1)) != 0) return {};
  const Dim* const inner = &plan.inner();
  const Dim &along = inner[swapped ? 0 : -1], &across = inner[swapped ? -1 : 0];
  if (across.dense != plan.width || plan.positions <= kTuning.short_run) return {};
  for (int d = 0; scatters && d + 2 < plan.loop_rank; ++d) {
    if (plan.loop[d].indexed == 0) return {};  // several planes would write to the same elements
  }
  Bands bands;
  bands.swapped = swapped;
  bands.columns = packed_columns(plan, along, across);
  const bool packed = bands.columns > 0 && !loops().shares_lines(plan);
  const bool past_caches = packed && !scatters && (plan.width == 4 || plan.width == 8) &&
                           estimated_bytes(plan) >= static_cast<double>(caches().last_level / 4);
  const Size line = kLine / plan.width, most = bands.columns;
  const Size planes = plan.positions / (along.size * across.size), threads = schedule.threads;
  if (!packed) {
    if (!is_crossed(along, across)) return {};
    const Size tasks = divide_up(task_count(plan, threads > 1, schedule.threads), planes);
    bands.columns = round_up(divide_up(across.size, tasks), line);
  }
  bands.per_plane = divide_up(across.size, bands.columns);
  const bool few = bands.per_plane < 4 * threads;
  if (few) bands.per_plane = round_up(bands.per_plane, threads);
  bands.columns = divide_up(across.size, bands.per_plane);
  if (past_caches && !few) bands.columns = round_up(bands.columns, std::min(line, most));
  bands.per_plane = divide_up(across.size, bands.columns);
  bands.count = bands.per_plane * planes;
  if (nanoseconds(plan) / static_cast<double>(bands.count) > 10 * kLimits.longest_task) return {};  // too long to be stopped
  schedule.split = packed ? Split::panels : Split::tiles;
  schedule.nontemporal = past_caches;
  if (packed) {
    bands.pitch = round_up(bands.columns * plan.width, kLine);
    bands.buffer = plan.column[0].extent * bands.pitch;
  }
  return bands;
}

bool set_bands(Schedule& schedule, const Plan& plan, bool scatters) {
  for (const bool swapped : {false, true}) {
    if (swapped && !plan.any_order) break;
    schedule.bands = bands_across(plan, swapped, schedule, scatters);
    schedule.tasks = schedule.bands.count;
    if (schedule.bands.count > 0) return true;
  }
  return false;
}

// Splits a loop dim whose steps write to separate parts of the destination. For example, 8 batches of 1 KB have room for 8 *
// 1024 / 512 = 16 parts that are far enough apart, but are split into at most 8 parts. Returns false if no dim fits.
bool set_split_dim(Schedule& schedule, const Plan& plan) {
  for (int d = 0; d < plan.loop_rank; ++d) {
    const Dim& dim = plan.loop[d];
    const Size parts = std::min(dim.size, std::abs(dim.indexed) * dim.size / kTuning.own_bytes);
    if (parts < schedule.threads) continue;
    schedule.split = Split::dim;
    schedule.dim = d;
    schedule.tasks = std::clamp<Size>(task_count(plan, true, schedule.threads), schedule.threads, parts);
    return true;
  }
  return false;
}

// Decides whether to find overwritten updates with bit maps, so that the last update of each slice can be written in any
// order. This does not pay off for short slices, or if the maps are large compared with the updates or the cache. With two
// threads of AMD's Zen 4, rows of 1 KB take 0.8 times as long as with owners, 64 bytes 0.95, and shorter rows 1.1 or more.
void set_marks(Schedule& schedule, const Plan& plan) {
  std::uint64_t strides = 0;
  for (int c = 0; c < plan.column_count; ++c) strides |= static_cast<std::uint64_t>(plan.column[c].stride);
  for (int d = 0; d < plan.loop_rank; ++d) strides |= static_cast<std::uint64_t>(plan.loop[d].indexed);
  if (!schedule.records.narrow || strides == 0 || plan.slice_bytes() < kLimits.marked_bytes) return;
  const OffsetRange range(plan);
  const int shift = std::countr_zero(strides);  // strides of 192 and 64 bytes: all offsets are multiples of 64, so 6 bits
  const Size words = ((range.highest - range.lowest) >> shift) / 64 + 1;
  if (words < 1 || words > std::min(caches().second_level / 32, plan.positions / 4 / schedule.threads)) return;
  schedule.mark_shift = shift;
  schedule.mark_words = words | 1;  // odd, because maps that are a power of two apart would compete for the same cache sets
}

}  // namespace

double nanoseconds(const Plan& plan) {
  const double byte = plan.slice_rank > 0 ? 1. / 2 : 1. / 16;
  const bool misses = plan.positions > kTuning.small_positions && cached_part(plan) == Cached::none;
  const double each = 1 + 0.5 * plan.column_count + (misses ? 4 : 0);
  return static_cast<double>(plan.positions) * each + estimated_bytes(plan) * byte;
}

bool order_loops(Plan& plan) {
  if (!plan.any_order || plan.loop_rank < 2 || plan.column_count == 0 || plan.positions <= kTuning.short_run) {
    return false;
  }
  const IndexColumn& column = plan.column[0];
  const Size lines = column.extent * std::min(std::abs(column.stride), kLine) * plan.slice_elements();
  const bool column_is_cached = lines <= caches().second_level / 8;
  // Votes on the order of two dims by their strides in one array. The longer stride belongs to the outer dim: strides of 8
  // and 4000 vote -1, for a swap. The vote is 0 if both strides exceed a cache line or one stride is 0, because the order
  // then does not matter.
  const auto compare = [](Size outer, Size inner) {
    outer = std::abs(outer);
    inner = std::abs(inner);
    if (outer == 0 || inner == 0 || std::min(outer, inner) >= kLine) return 0;
    return (outer > inner) - (outer < inner);
  };
  // If a whole column of the data stays in the cache, finish one column before the next, whatever the strides are.
  const auto compare_indexed = [&](const Dim& outer, const Dim& inner) {
    const bool along = inner.indexed == 0;
    if (along == (outer.indexed == 0)) return compare(outer.indexed, inner.indexed);
    if (column_is_cached) return along ? 1 : -1;
    return along ? compare(outer.indexed, column.stride) : compare(column.stride, inner.indexed);
  };
  const auto swapped = [&](const Dim& outer, const Dim& inner) {
    const int votes = compare(outer.index, inner.index) + compare_indexed(outer, inner) + compare(outer.dense, inner.dense);
    // Short inner runs cost more than long strides, unless all three arrays vote for the swap.
    return outer.size > kTuning.short_run ? votes < 0 : votes == -3;
  };
  bool changed = false;
  for (int d = 1; d < plan.loop_rank; ++d) {
    for (int e = d; e > 0 && swapped(plan.loop[e - 1], plan.loop[e]); --e) {
      std::swap(plan.loop[e - 1], plan.loop[e]);
      changed = true;
    }
  }
  if (changed) simplify(plan);
  return changed;
}

void arrange(Plan& plan, bool gathers) {
  if (are_spread(plan, gathers)) loop_over_slices(plan, plan.slice[plan.slice_rank - 1].dense == plan.width ? 1 : 0);
  order_loops(plan);
  plan.narrow = is_narrow(plan);
}

void keep_part(Plan& plan, const Schedule& schedule, Size number) {
  if (schedule.part_bytes > 0) {
    const Size first = number * schedule.part_bytes;
    plan.indexed += first;
    plan.dense += first;
    plan.width = std::min(schedule.part_bytes, plan.width - first);
  } else if (schedule.part_elements > 0) {
    Dim& line = plan.slice[plan.slice_rank - 1];
    const Size first = number * schedule.part_elements;
    plan.indexed += first * line.indexed;
    plan.dense += first * line.dense;
    line.size = std::min(schedule.part_elements, line.size - first);
  }
}

Schedule schedule_gather(const Plan& plan, int threads) {
  Schedule schedule;
  set_common(schedule, plan, threads, true);
  if (!set_bands(schedule, plan, false)) split_positions(schedule, plan);
  return schedule;
}

Schedule schedule_scatter(const Plan& plan, bool assigns, int threads) {
  Schedule schedule;
  set_common(schedule, plan, threads, false);
  schedule.nontemporal &= assigns;  // a reduction reads the row that it writes
  if (set_bands(schedule, plan, true)) return schedule;
  const auto split_into_parts = [&] {
    schedule.tasks = count_parts(schedule, plan);
    schedule.split = schedule.tasks > 1 ? Split::slices : Split::positions;
    return schedule.tasks > 1;
  };
  if (split_into_parts() || schedule.threads == 1) return schedule;
  if (set_split_dim(schedule, plan)) return schedule;
  const OffsetRange range(plan);
  if (range.fits(plan)) schedule.records = {nullptr, true, range.lowest};
  if (plan.slice_rank == 0 && plan.width >= kTuning.block_bytes) {
    split_slices(schedule, plan, std::min<Size>(2 * plan.width / kTuning.block_bytes, schedule.threads));
    split_into_parts();
  } else if (plan.reach() >= kLimits.lines_for_owners * kLine * schedule.threads) {
    if (assigns) set_marks(schedule, plan);
    schedule.split = Split::owners;
    schedule.threads = std::min(schedule.threads, static_cast<int>(kLimits.owners));
    const double share = kLimits.longest_task / nanoseconds(plan);
    schedule.round = std::min({plan.positions, kTuning.scratch_bytes / schedule.records.bytes(),
                               std::max(static_cast<Size>(static_cast<double>(plan.positions) * share), kLimits.block)});
  } else {
    schedule.threads = 1;  // most updates would belong to the same owner
  }
  return schedule;
}

Schedule schedule_check(const Plan& plan, int threads) {
  Schedule schedule;
  schedule.threads = worth_sharing(plan, threads);
  split_positions(schedule, plan);
  const Size tuple = plan.column_count * index_bytes(plan.index_type);
  schedule.task_positions = std::clamp<Size>(caches().second_level / 2 / tuple, 1, schedule.task_positions);
  schedule.tasks = divide_up(plan.positions, schedule.task_positions);
  return schedule;
}

void set_borders(Partition& partition) {
  // 2**32 divided by the golden ratio: samples at the fractions 0, 0.62, 0.24, 0.85, 0.47, ... match no regular pattern.
  constexpr std::uint32_t kSpread = 0x9E3779B1u;
  const auto count = static_cast<std::uint64_t>(partition.end - partition.begin);
  Size samples[kLimits.border_samples];
  Size n = 0;
  const Records& offsets = partition.offsets;
  for (std::uint32_t i = 0; i < kLimits.border_samples; ++i) {
    const auto position = std::uint64_t{i * kSpread} * count >> 32;
    const Size at = offsets.narrow ? Size{static_cast<const Narrow*>(offsets.memory)[position]}
                                   : static_cast<const Size*>(offsets.memory)[position];
    if (at != (offsets.narrow ? Size{kNarrowOutside} : kOutside)) samples[n++] = at / kLine * kLine;
  }
  std::sort(samples, samples + n);
  // Out-of-bounds updates have no owner.
  partition.border[0] = offsets.narrow ? 0 : kOutside + 1;
  partition.border[partition.owners] = offsets.narrow ? Size{kNarrowOutside} : PTRDIFF_MAX;
  for (int owner = 1; owner < partition.owners; ++owner) {
    if (n == 0) {
      partition.border[owner] = 0;  // any borders will do
      continue;
    }
    // A border lies before or after all samples in a cache line, whichever divides them more equally. For example, with two
    // owners and samples in the lines 0 0 64 64 64 64 64 128, an equal share of 4 ends within line 64. The border 64 gives 2
    // samples to the first owner, and 128 gives it 7, so the border is 64. At the end of a destination of almost 2**32 bytes,
    // the border after the last line would not be a narrow number; it is capped, and any further owners get nothing.
    const Size* const fair = samples + n * owner / partition.owners;
    const auto [from, to] = std::equal_range(samples, samples + n, *fair);
    const Size border = *fair + (fair - from > to - fair ? kLine : 0);
    partition.border[owner] = std::min(border, partition.border[partition.owners]);
  }
}

}  // namespace ndgather
