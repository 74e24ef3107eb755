// run.cpp - carrying out whole plans.
#include "run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "threads.h"

namespace ndgather {

extern const Engine engine_baseline;
#ifdef NDGATHER_X86_64
extern const Engine engine_avx2;
extern const Engine engine_avx512;
#endif

namespace {

const Engine& pick_engine() noexcept {
#if defined(NDGATHER_X86_64) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd")) {
    return engine_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("fma")) {
    return engine_avx2;
  }
#endif
  return engine_baseline;
}

// Shares bands between threads; each has a buffer of its own.
template <class Work>
bool run_bands(const Plan& plan, const Bands& bands, Work work) {
  int seats = 1;
  if (nanoseconds(plan) > 60'000) seats = static_cast<int>(std::min<Size>(threads(), bands.count));
  const std::unique_ptr<char[]> buffer(new char[static_cast<std::size_t>(bands.buffer * seats)]);
  std::atomic<bool> good{true};
  share(seats, bands.count, [&](int seat, Size unit) {
    if (!work(unit, buffer.get() + seat * bands.buffer)) {
      good.store(false, std::memory_order_relaxed);
    }
  });
  return good;
}

}  // namespace

const Engine& engine() noexcept {
  static const Engine& picked = pick_engine();
  return picked;
}

bool run_gather(Plan& plan) {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  if (const Bands bands = choose_bands(plan); bands.count > 0) {
    return run_bands(plan, bands, [&](Size unit, char* buffer) {
      return engine().gather_bands(plan, bands, unit, unit + 1, buffer);
    });
  }
  const Cut cut = choose_cut(plan, threads());
  if (cut.units * cut.slice_parts == 1) return engine().gather(plan, 0, plan.positions);
  std::atomic<bool> good{true};
  share(cut.threads, cut.units * cut.slice_parts, [&](int, Size unit) {
    const Size begin = unit / cut.slice_parts * cut.per_unit;
    const Size end = std::min(begin + cut.per_unit, plan.positions);
    const Size part = unit % cut.slice_parts * cut.slice_part;
    bool whole;
    if (cut.slice_parts == 1) {
      whole = engine().gather(plan, begin, end);
    } else {
      Plan piece = plan;
      narrow(piece, part, std::min(part + cut.slice_part, plan.width));
      whole = engine().gather(piece, begin, end);
    }
    if (!whole) good.store(false, std::memory_order_relaxed);
  });
  return good;
}

bool run_scatter(Plan& plan, Reduction reduction, ElementType type) {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  const Store store = pick_store(plan, reduction, type);
  if (const Bands bands = choose_bands(plan); bands.count > 0) {
    return run_bands(plan, bands, [&](Size unit, char* buffer) {
      return engine().scatter_bands(plan, store, bands, unit, unit + 1, buffer);
    });
  }
  const Sharing sharing = choose_sharing(plan, threads());
  if (sharing.threads == 1) return engine().scatter(plan, store, Owner{});
  std::atomic<bool> good{true};
  share(sharing.threads, sharing.threads, [&](int, Size part) {
    Plan piece = plan;
    Owner owner;
    if (sharing.position >= 0) {
      Position& dim = piece.position[sharing.position];
      const Size begin = dim.size * part / sharing.threads;
      const Size end = dim.size * (part + 1) / sharing.threads;
      piece.indices += begin * dim.index;
      piece.far += begin * dim.far;
      piece.near += begin * dim.near;
      piece.positions = piece.positions / dim.size * (end - begin);
      dim.size = end - begin;
      piece.near_linear = false;  // the cut leaves gaps between runs
    } else if (sharing.slice_part > 0) {
      const Size begin = part * sharing.slice_part;
      narrow(piece, begin, std::min(begin + sharing.slice_part, plan.width));
    } else {
      owner = {sharing.threads, part, sharing.shift};
    }
    if (!engine().scatter(piece, store, owner)) good.store(false, std::memory_order_relaxed);
  });
  return good;
}

Outside run_check(Plan& check) {
  simplify(check);
  if (check.positions == 0 || check.column_count == 0) return {};
  const Cut cut = choose_cut(check, threads());
  if (cut.units == 1) return engine().check(check, 0, check.positions);
  std::vector<Outside> found(static_cast<std::size_t>(cut.units));
  share(cut.threads, cut.units, [&](int, Size unit) {
    const Size begin = unit * cut.per_unit;
    found[static_cast<std::size_t>(unit)] =
        engine().check(check, begin, std::min(begin + cut.per_unit, check.positions));
  });
  Outside all;
  for (const Outside& part : found) {
    if (all.count == 0 && part.count > 0) all = {0, part.entry, part.value};
    all.count += part.count;
  }
  return all;
}

}  // namespace ndgather
