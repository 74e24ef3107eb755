// schedule.cpp - the rules that choose a loop, an order and a number of threads.
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

// What lookups find in the cache: all; nothing; or the part that the innermost dims look up, once its lines were read.
enum class Cached { all, none, parts };

Cached cached_part(const Plan& plan, bool gathers = false) {
  Size lookups = 1;
  auto span = static_cast<double>(plan.reach());  // packed coordinates and their batches may pass 2**63
  if (span == 0) return Cached::all;
  Cached cached = Cached::none;
  for (int d = plan.loop_rank - 1; d >= 0; --d) {
    const Dim& dim = plan.loop[d];
    lookups *= dim.size;  // at most all positions
    span += static_cast<double>(dim.size) * std::abs(static_cast<double>(dim.indexed));
    if (span > static_cast<double>(caches().second_level)) continue;
    // Twice as many lookups were asked for before; AMD's Zen 4: 1.4 times as fast where there are as many as lines.
    if (lookups >= static_cast<Size>(span) / kLine) cached = Cached::parts;
  }
  // The last-level cache is waited for as well; only gathers try what that is worth.
  return (cached == Cached::none || !gathers) && span <= static_cast<double>(caches().last_level / 2) ? Cached::all : cached;
}

// How many threads are worth waking: each has work for about as long as it takes to wake it.
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

// Rows, and elements of a gather that are written side by side, where they would not stay in the caches anyway.
bool writes_past_caches(const Plan& plan, bool gathers) {
  const bool elements = gathers && (plan.width == 4 || plan.width == 8) && plan.inner().dense == plan.width;
  return plan.slice_rank == 0 && (plan.width >= kTuning.nontemporal_row || elements) &&
         estimated_bytes(plan) >= static_cast<double>(caches().last_level);
}

// Slices whose elements lie a line or more apart share these lines with neighbouring slices, and so are not walked one
// after the other, but element by element, or where the dense array allows it by parts that fill a line of that. Those
// of a gather all of whose lines the second-level cache keeps stay whole.
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

// How many elements of spread slices fill a line of the dense array; 0: slices stay whole.
Size elements_of_line(const Plan& plan, bool gathers) {
  if (plan.slice_rank == 0 || !are_spread(plan, gathers)) return 0;
  const Dim& line = plan.slice[plan.slice_rank - 1];
  return line.dense == plan.width ? std::clamp<Size>(kLine / plan.width, 1, line.size) : 0;
}

// Whether prefetching makes gathers of slices of up to a line faster. Some processors look far enough ahead by themselves, and
// others do not, so the first plan that is large enough is timed both ways, and the answer holds for the process. Time without
// prefetching over time with it, of a gather of 2**20 floats from 64 MB: 1.6 on Intel's Ice Lake, 0.8 on AMD's Zen 4.
bool prefetching_pays(const Plan& plan) {
  static std::atomic<int> known{caches().prefetching_pays};
  if (const int pays = known.load(std::memory_order_relaxed); pays >= 0) return pays != 0;
  // Ten samples, of which every other one prefetches, read at most half of the positions: 2048 each of 40,960 or more. Samples
  // of fewer than 1024, as of a plan with 20,000 positions, are too short to be timed.
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
    schedule.prefetch_indices = true;  // as of what is large: without them, repeated slices seemed to come faster
    const Size begin = plan.positions / kSamples * i;
    const auto started = Clock::now();
    if (!loops().gather(sample, schedule, begin, begin + tried)) return true;  // an index is outside
    taken[i % 2][i / 2] = Clock::now() - started;
  }
  for (auto& each : taken) std::sort(each, each + kSamples / 2);
  const bool pays = taken[1][kSamples / 4] < taken[0][kSamples / 4] * 7 / 8;  // what is in doubt is left out
  known.store(pays, std::memory_order_relaxed);
  return pays;
}

void set_common(Schedule& schedule, const Plan& plan, int threads, bool gathers) {
  const Cached cached = cached_part(plan, gathers);
  schedule.prefetch = cached == Cached::none && !loops().shares_lines(plan) && (plan.width > kLine || prefetching_pays(plan));
  schedule.prefetch_rows = cached == Cached::parts && plan.slice_rank == 0 && plan.loop_rank > 1 &&
                           plan.inner().indexed == 0 && plan.loop[plan.loop_rank - 2].indexed == plan.reach();
  const Size tuple = plan.column_count * index_bytes(plan.index_type);
  // From the second-level cache on, calls took 1.1 times as long on AMD's Zen 4, where indices stay in the last one.
  schedule.prefetch_indices = tuple > 0 && plan.positions > caches().last_level / 4 / tuple;
  schedule.tries = gathers && schedule.prefetch_rows;
  schedule.nontemporal = writes_past_caches(plan, gathers);
  schedule.threads = worth_sharing(plan, threads);
  schedule.task_positions = plan.positions;
  schedule.part_elements = elements_of_line(plan, gathers);
}

// Splits slices into parts of whole elements and whole cache lines. For example, 3 parts of 10,000 float32: whole multiples
// of 4 * 64 bytes above 40,000 / 3 are 13,568 bytes, so the parts have 13,568, 13,568 and 12,864 bytes.
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
  // Among many tasks, a few that try which way is faster cost little.
  const int threads = std::max(schedule.threads, schedule.tries ? 4 : 1);
  const Size wanted = task_count(plan, threads > 1, threads);
  if (plan.positions < wanted && plan.slice_rank == 0 && plan.width > 0) {
    split_slices(schedule, plan, divide_up(wanted, plan.positions));
  }
  const Size parts = count_parts(schedule, plan), ranges = divide_up(wanted, parts);
  schedule.task_positions = std::max<Size>(divide_up(plan.positions, ranges), 1);
  // What is written past the caches begins with whole registers.
  if (plan.width <= 8) schedule.task_positions = round_up(schedule.task_positions, 16);
  schedule.tasks = divide_up(plan.positions, schedule.task_positions) * parts;
}

// Columns are packed where rows are looked up about as often as packing reads them, and have to be waited for: in data
// larger than half the last cache, or, where rows compete for the same cache sets, than the second-level cache.
Size packed_columns(const Plan& plan, const Dim& along, const Dim& across) {
  if (across.indexed != plan.width || along.indexed != 0) return 0;
  const Size rows = plan.column[0].extent, cache = caches().second_level;
  const bool same_sets = plan.column[0].stride % kLimits.same_sets == 0;
  if (rows * across.size * plan.width < (same_sets ? cache : caches().last_level / 2)) return 0;
  const bool fits = rows <= 2 * cache / kTuning.panel_bytes;  // half of a panel may be in the next level
  // Half as wide where that leaves room beside indices and what is written, unless there are too few columns then: 16 doubles
  // take 1.1 to 1.4 times as long as 32 on AMD's Zen 4, 32 floats no longer than 64.
  const bool is_half = rows > cache / 2 / kTuning.panel_bytes && plan.width < 8;
  return along.size >= rows / 2 && fits ? kTuning.panel_bytes / (is_half ? 2 : 1) / plan.width : 0;
}

// Where the dense array lies in another order than the indices, a walk along either would touch a line of the other for
// every element.
bool is_crossed(const Dim& along, const Dim& across) {
  return std::abs(across.index) >= kLine / 2 && std::abs(along.index) < kLine && std::abs(along.dense) >= kLine &&
         across.indexed != 0;
}

// Splits the columns of the dim `across`, one of the two innermost loop dims, into bands that extend along the other one. For
// example, two threads look up (500, 1000) float32 in rows of data, written past the caches: 64 columns fit a panel, so there
// are 16 bands, of 63 columns each, which are rounded up to the 64 of whole lines. Of 300 columns there would be 5 bands: fewer
// than four for each thread, so these become 6, an equal number for each, of 50 columns.
Bands bands_across(const Plan& plan, bool swapped, Schedule& schedule, bool scatters) {
  if (plan.column_count != 1 || plan.slice_rank != 0 || plan.loop_rank < 2) return {};
  if (plan.width > 16 || (plan.width & (plan.width - 1)) != 0) return {};
  const Dim* const inner = &plan.inner();
  const Dim &along = inner[swapped ? 0 : -1], &across = inner[swapped ? -1 : 0];
  if (across.dense != plan.width || plan.positions <= kTuning.short_run) return {};
  for (int d = 0; scatters && d + 2 < plan.loop_rank; ++d) {
    if (plan.loop[d].indexed == 0) return {};  // planes would write to the same elements
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
  if (nanoseconds(plan) / static_cast<double>(bands.count) > 10 * kLimits.longest_task) return {};  // could not be stopped
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

// A loop dim whose steps write to parts of the destination that lie apart.
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

// Sets how updates that later ones overwrite are found, so that the last one of each slice may be written in any order. False:
// that is not worth it, for short slices and where the maps are large beside the updates or the cache. The time over that of
// owners, two threads of AMD's Zen 4: rows of 1 KB 0.8, of 64 bytes 0.95, of 32 to 48 bytes 1.1, elements 1.5.
void set_marks(Schedule& schedule, const Plan& plan) {
  std::uint64_t strides = 0;
  for (int c = 0; c < plan.column_count; ++c) strides |= static_cast<std::uint64_t>(plan.column[c].stride);
  for (int d = 0; d < plan.loop_rank; ++d) strides |= static_cast<std::uint64_t>(plan.loop[d].indexed);
  if (!schedule.records.narrow || strides == 0 || plan.slice_bytes() < kLimits.marked_bytes) return;
  const OffsetRange range(plan);
  const int shift = std::countr_zero(strides);
  const Size words = ((range.highest - range.lowest) >> shift) / 64 + 1;
  if (words < 1 || words > std::min(caches().second_level / 32, plan.positions / 4 / schedule.threads)) return;
  schedule.mark_shift = shift;
  schedule.mark_words = words | 1;  // maps with a power of two between them would compete for the same cache sets
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
  // Of two strides the longer one belongs outside; 0: both leave the line, or one stays where it is.
  const auto compare = [](Size outer, Size inner) {
    outer = std::abs(outer);
    inner = std::abs(inner);
    if (outer == 0 || inner == 0 || std::min(outer, inner) >= kLine) return 0;
    return (outer > inner) - (outer < inner);
  };
  // Lookups in one column after the other stay in cache, wherever its elements lie.
  const auto compare_indexed = [&](const Dim& outer, const Dim& inner) {
    const bool along = inner.indexed == 0;
    if (along == (outer.indexed == 0)) return compare(outer.indexed, inner.indexed);
    if (column_is_cached) return along ? 1 : -1;
    return along ? compare(outer.indexed, column.stride) : compare(column.stride, inner.indexed);
  };
  const auto swapped = [&](const Dim& outer, const Dim& inner) {
    const int votes = compare(outer.index, inner.index) + compare_indexed(outer, inner) + compare(outer.dense, inner.dense);
    // A short run costs more than a stride, unless all arrays follow it.
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
  schedule.nontemporal &= assigns;  // to reduce a row it has to be read
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
    const auto positions_in = [&](double time) {
      return std::max(static_cast<Size>(static_cast<double>(plan.positions) * time / nanoseconds(plan)), kLimits.block);
    };
    schedule.round = std::min(
        {plan.positions, kTuning.scratch_bytes / schedule.records.bytes(), positions_in(kLimits.longest_task)});
    schedule.owned_at_a_time = positions_in(kLimits.owner_task * schedule.threads);
    // Each thread marks its part of a round as one task, and takes a nanosecond for an update.
    if (schedule.mark_words > 0) schedule.round = std::min(schedule.round, Size{schedule.threads} * Size(kLimits.owner_task));
  } else {
    schedule.threads = 1;  // most updates would belong to one owner, or be no faster with two
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
  // 2**32 by the golden ratio: samples at 0, 0.62, 0.24, 0.85, 0.47, ... of the positions follow no pattern of the indices.
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
  // Updates that are out of bounds have no owner.
  partition.border[0] = offsets.narrow ? 0 : kOutside + 1;
  partition.border[partition.owners] = offsets.narrow ? Size{kNarrowOutside} : PTRDIFF_MAX;
  for (int owner = 1; owner < partition.owners; ++owner) {
    if (n == 0) {
      partition.border[owner] = 0;  // any borders will do
      continue;
    }
    // A border lies before or after all samples of one line, whichever is closer to an equal share. For example, samples on
    // the lines 0 0 64 64 64 64 64 128 and two owners: an equal share ends within line 64. The border 64 leaves 2 samples to
    // the first owner and 128 leaves 7, so 64 is closer to 4. After the last line of a destination of almost 2**32 bytes there
    // is no narrow number: the owners from there on have nothing.
    const Size* const fair = samples + n * owner / partition.owners;
    const auto [from, to] = std::equal_range(samples, samples + n, *fair);
    const Size border = *fair + (fair - from > to - fair ? kLine : 0);
    partition.border[owner] = std::min(border, partition.border[partition.owners]);
  }
}

}  // namespace ndgather
