// run.cpp - see run.h.
#include "run.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "pool.h"

namespace ndgather {
namespace {

constexpr Schedule kUnscheduled;  // of small calls

// Shares tasks between threads. Returns false, and skips the remaining tasks, as soon as one of them returns false.
template <class Work>
bool share_all(int threads, Size tasks, Stop* stop, Work work) noexcept {
  std::atomic<bool> good{true};
  share(threads, tasks, stop, [&](int worker, Size task) {
    if (good.load(std::memory_order_relaxed) && !work(worker, task)) good.store(false, std::memory_order_relaxed);
  });
  return good;
}

bool run_bands(const Plan& plan, const Schedule& schedule, Store store, char* buffers) noexcept {
  return share_all(schedule.threads, schedule.tasks, plan.stop, [&](int worker, Size number) {
    return loops().run_band(plan, schedule, store, number, buffers + worker * schedule.bands.buffer);
  });
}

// Applies all updates of a plan on one thread, in order.
bool scatter_in_order(Plan& plan, const Schedule& schedule, Reduction reduction, ElementType type) noexcept {
  join_runs(plan, kTuning.short_run);
  const Store store = loops().pick_store(plan, reduction, type, schedule.nontemporal);
  return loops().scatter(plan, schedule, store, 0, plan.positions);
}

// Goes through recorded updates from the last to the first, and drops those whose slice is marked in a map. If `Marks` is
// true, marks the slices of the other updates: with updates of the slices 5 7 5, the last one marks 5, so the first one is
// dropped.
template <bool Marks>
void drop_marked(const Partition& of, int shift, std::uint64_t* map) noexcept {
  auto* const offsets = static_cast<Narrow*>(of.offsets.memory);
  Size word = 0;
  std::uint64_t marked = map[0];  // kept in a register for as long as indices fall into the same word
  for (Size i = of.end - of.begin - 1; i >= 0; --i) {
    const Narrow at = offsets[i];
    if (at == kNarrowOutside) continue;
    const Size number = at >> shift;
    if (number / 64 != word) {
      if constexpr (Marks) map[word] = marked;
      word = number / 64;
      marked = map[word];
    }
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    offsets[i] = (marked & bit) != 0 ? kNarrowOutside : at;
    if constexpr (Marks) marked |= bit;
  }
  if constexpr (Marks) map[word] = marked;
}

// Writes the last recorded update of each slice, in any order. Each range of positions drops updates that it overwrites
// later, and marks the slices of the others in its map. Then it drops updates that later ranges overwrite.
void write_last(const Plan& plan, const Schedule& schedule, Store store, Partition all, std::uint64_t* maps) noexcept {
  const Size count = all.end - all.begin, ranges = schedule.threads, words = schedule.mark_words;
  share(schedule.threads, ranges, nullptr, [&](int, Size range) {
    std::fill_n(maps + range * words, words, 0);
    drop_marked<true>(all.part(count * range / ranges, count * (range + 1) / ranges), schedule.mark_shift,
                      maps + range * words);
  });
  // Replace each map with the slices that later ranges mark: the maps 0011, 0110, 0100 become 0110, 0100, 0000. Several
  // ranges mark 0110.
  std::uint64_t repeated = 0;
  for (Size word = 0; word < words; ++word) {
    std::uint64_t later = 0;
    for (Size range = ranges - 1; range >= 0; --range) {
      const std::uint64_t own = std::exchange(maps[range * words + word], later);
      repeated |= own & later;
      later |= own;
    }
  }
  all.owners = 1;
  all.border[0] = 0;
  all.border[1] = kNarrowOutside;
  const Size tasks = ranges * kTuning.tasks_each;
  share(schedule.threads, tasks, nullptr, [&](int, Size task) {
    const Partition part = all.part(count * task / tasks, count * (task + 1) / tasks);
    if (repeated != 0) drop_marked<false>(part, schedule.mark_shift, maps + task / kTuning.tasks_each * words);
    loops().apply_owned(plan, schedule, store, part, 0);
  });
}

// Works in rounds. All threads record the offsets of the updates, then each owner applies its own. The caller also does the
// work of owners that no thread has started.
bool scatter_by_owner(Plan& plan, const Schedule& schedule, Store store, char* memory) noexcept {
  const int owners = schedule.threads;
  Partition round{schedule.records, 0, 0, owners, {}};
  round.offsets.memory = memory + schedule.map_bytes();
  while (round.end < plan.positions) {
    if (plan.stop != nullptr && plan.stop->reached()) return true;
    round.begin = round.end;
    round.end = std::min(round.begin + schedule.round, plan.positions);
    const Size count = round.end - round.begin, tasks = std::min(count, owners * kTuning.tasks_each);
    const bool good = share_all(owners, tasks, nullptr, [&](int, Size task) {
      const Partition part = round.part(count * task / tasks, count * (task + 1) / tasks);
      return loops().record_offsets(plan, part.begin, part.end, part.offsets);
    });
    if (!good) return false;
    if (plan.all_or_nothing) plan.stop = nullptr;  // nothing stops the call after the first write
    if (schedule.mark_words > 0) {
      write_last(plan, schedule, store, round, reinterpret_cast<std::uint64_t*>(memory));
    } else {
      set_borders(round);
      share(owners, owners, nullptr,
            [&](int, Size owner) { loops().apply_owned(plan, schedule, store, round, static_cast<int>(owner)); });
    }
  }
  return true;
}

// Checks all positions of a check plan, and finds the first out-of-bounds entry.
Outside check_all(const Plan& check) noexcept {
  Outside all;
  if (check.is_always_inside()) return all;
  const Schedule schedule = schedule_check(check, usable_threads());
  std::mutex mutex;
  share(schedule.threads, schedule.tasks, check.stop, [&](int, Size task) {
    // Check backwards, so that the first indices are still in the cache when the call begins.
    const Size begin = (schedule.tasks - 1 - task) * schedule.task_positions;
    const Outside part = loops().check(check, begin, std::min(begin + schedule.task_positions, check.positions));
    // A child process forked by a signal handler must not wait for a lock that another thread of the parent held.
    if (part.count == 0 || (check.stop != nullptr && check.stop->wanted())) return;
    const std::lock_guard lock(mutex);
    const Size count = all.count + part.count;
    if (all.count == 0 || part.entry < all.entry) all = part;
    all.count = count;
  });
  return all;
}

// Checks all indices of an all-or-nothing call. Returns false if an index is out of bounds or the call was stopped.
// Otherwise the call can no longer be stopped.
bool may_write(Plan& plan) noexcept {
  if (!plan.all_or_nothing) return true;
  if (plan.mode == Mode::raise && !plan.checked) {
    Plan once = plan;  // entries that are repeated by a stride of 0 are checked once
    for (int d = 0; d < plan.loop_rank; ++d) {
      if (plan.loop[d].index == 0) keep_range(once, d, 0, 1);
    }
    plan.checked = check_all(once).count == 0;
    if (!plan.checked || (plan.stop != nullptr && plan.stop->wanted())) return false;
  }
  plan.stop = nullptr;
  return true;
}

// The same check for a small plan. A single block does not need it, because its indices are checked before it is written.
bool may_write_small(Plan& plan) noexcept {
  if (plan.positions > kLimits.block) return may_write(plan);
  if (plan.all_or_nothing) plan.stop = nullptr;
  return true;
}

}  // namespace

bool run_gather(Plan& plan, Stop* stop) noexcept {
  plan.stop = stop;
  if (plan.is_empty()) return true;
  if (plan.loop_rank + plan.slice_rank + plan.column_count == 0 && plan.width <= kTuning.block_bytes) {
    std::memcpy(plan.dense, plan.indexed, static_cast<std::size_t>(plan.width));
    return true;
  }
  simplify(plan);
  if (is_small(plan)) {
    if (!may_write_small(plan)) return false;
    plan.narrow = plan.positions > kTuning.small_positions && is_narrow(plan);
    join_runs(plan, kTuning.short_run);
    return loops().gather(plan, kUnscheduled, 0, plan.positions);
  }
  plan.any_order = true;  // no two positions write to the same place
  arrange(plan, true);
  if (!may_write(plan)) return false;
  const Schedule schedule = schedule_gather(plan, usable_threads());
  if (schedule.split != Split::positions) {
    const pool::Scratch buffers(schedule.bands.buffer * schedule.threads);
    if (!buffers && schedule.split == Split::panels) return loops().gather(plan, schedule, 0, plan.positions);
    return run_bands(plan, schedule, nullptr, buffers.memory());
  }
  if (plan.width <= 16) join_runs(plan, kTuning.short_run);
  const Size ranges = divide_up(plan.positions, schedule.task_positions);
  const Size parts = schedule.tasks / ranges;
  return share_all(schedule.threads, schedule.tasks, plan.stop, [&](int, Size task) {
    const Size begin = task / parts * schedule.task_positions;
    const Size end = std::min(begin + schedule.task_positions, plan.positions);
    if (parts == 1) return loops().gather(plan, schedule, begin, end);
    Plan part = plan;
    keep_part(part, schedule, task % parts);
    return loops().gather(part, schedule, begin, end);
  });
}

bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop) noexcept {
  const DefaultEnvironment environment(reduction != Reduction::none);
  plan.stop = stop;
  simplify(plan);
  if (plan.is_empty()) return true;
  if (is_small(plan)) {
    if (!may_write_small(plan)) return false;
    return scatter_in_order(plan, kUnscheduled, reduction, type);
  }
  arrange(plan, false);
  const Schedule schedule = schedule_scatter(plan, reduction == Reduction::none, usable_threads());
  const Store store = loops().pick_store(plan, reduction, type, schedule.nontemporal);
  const Size records = schedule.round * schedule.records.bytes() + schedule.map_bytes();
  const pool::Scratch scratch(schedule.bands.buffer * schedule.threads + records);
  const bool recorded_first = scratch && schedule.split == Split::owners && schedule.round == plan.positions;
  if (!recorded_first && !may_write(plan)) return false;
  switch (schedule.split) {
    case Split::positions: break;
    case Split::tiles: return run_bands(plan, schedule, store, nullptr);
    case Split::panels:
      if (scratch) return run_bands(plan, schedule, store, scratch.memory());
      break;
    case Split::owners:
      if (!scratch) break;  // there is no memory
      join_runs(plan, kTuning.short_run);
      return scatter_by_owner(plan, schedule, store, scratch.memory());
    case Split::slices:
    case Split::dim:
      return share_all(schedule.threads, schedule.tasks, nullptr, [&](int, Size task) {
        Plan part = plan;
        if (schedule.split == Split::dim) {
          // The products fit: fewer than 2**46 steps write to separate memory, and there are fewer than 2**17 tasks.
          const Size size = plan.loop[schedule.dim].size;
          keep_range(part, schedule.dim, size * task / schedule.tasks, size * (task + 1) / schedule.tasks);
        } else {
          keep_part(part, schedule, task);
        }
        return scatter_in_order(part, schedule, reduction, type);
      });
  }
  return scatter_in_order(plan, schedule, reduction, type);
}

Outside run_check(Plan& check, Stop* stop) noexcept {
  if (check.positions == 0 || check.column_count == 0) return {};
  check.stop = stop;
  // Entries that are repeated by a stride of 0 are checked once.
  const Plan whole = check;
  for (int d = 0; d < whole.loop_rank; ++d) {
    if (check.loop[d].index == 0) keep_range(check, d, 0, 1);
  }
  const Plan once = check;
  simplify(check);
  check.narrow = is_narrow(check);
  // Check indices in memory order if it differs from C order; only finding the first bad entry requires C order.
  Plan ordered = check;
  ordered.any_order = true;
  if (order_loops(ordered) && check_all(ordered).count == 0) return {};
  Outside all = check_all(check);
  // Convert the entry's number to one that counts repeated entries. In indices of shape (2, 3) repeated along the last axis,
  // entry 1 is at (1, 0) and becomes entry 3.
  Size position = all.entry / check.column_count, step = check.column_count;
  all.entry %= check.column_count;
  for (int d = whole.loop_rank - 1; d >= 0; --d) {
    all.entry += position % once.loop[d].size * step;
    position /= once.loop[d].size;
    step *= whole.loop[d].size;
  }
  all.count *= whole.positions / once.positions;
  return all;
}

BadEntry locate(const Outside& bad, const Plan& plan, const Array& data, const Array& indices, const Options& options) {
  BadEntry entry;
  Size rest = bad.entry;
  entry.total = 1;
  for (int d = indices.rank - 1; d >= 0; --d) {
    entry.position[d] = rest % indices.shape[d];
    rest /= indices.shape[d];
    entry.total *= indices.shape[d];
  }
  entry.column = plan.tuples ? static_cast<int>(entry.position[indices.rank - 1]) : 0;
  entry.axis = plan.tuples ? options.batch_dims + entry.column : options.axis;
  entry.size = data.shape[entry.axis];
  return entry;
}

}  // namespace ndgather
