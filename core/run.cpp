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

bool run_bands(const Plan& plan, const Bands& bands) {
  int seats = 1;
  if (nanoseconds(plan) > 60'000) seats = static_cast<int>(std::min<Size>(threads(), bands.count));
  const auto buffer = std::make_unique<char[]>(static_cast<std::size_t>(bands.buffer * seats));
  std::atomic<bool> good{true};
  share(seats, bands.count, [&](int seat, Size unit) {
    if (!engine().gather_bands(plan, bands, unit, unit + 1, buffer.get() + seat * bands.buffer)) {
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
  if (const Bands bands = choose_bands(plan); bands.count > 0) return run_bands(plan, bands);
  plan.stream = choose_stream(plan);
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
