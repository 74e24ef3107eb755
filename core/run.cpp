// run.cpp - carrying out whole plans.
#include "run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "threads.h"

namespace ndgather {

extern const Engine engine_baseline;
#ifdef NDGATHER_X86_64
extern const Engine engine_avx2;
extern const Engine engine_avx512;
#endif

namespace {

// Builds for tests take the engine that the environment names, so that one machine tests them all.
[[maybe_unused]] bool wanted([[maybe_unused]] const char* name) noexcept {
#ifdef NDGATHER_ENGINE_BY_NAME
  const char* only = std::getenv("NDGATHER_ENGINE");
  return only == nullptr || std::strcmp(only, name) == 0;
#else
  return true;
#endif
}

const Engine& pick_engine() noexcept {
#ifdef NDGATHER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && wanted("avx512")) return engine_avx512;
  if (__builtin_cpu_supports("x86-64-v3") && wanted("avx2")) return engine_avx2;
#endif
  return engine_baseline;
}

// Shares bands between threads; each has a part of the buffer of its own.
template <class Work>
bool run_bands(const Bands& bands, char* buffer, Work work) noexcept {
  std::atomic<bool> good{true};
  share(bands.threads, bands.count, [&](int seat, Size unit) {
    if (!work(unit, buffer + seat * bands.buffer)) good.store(false, std::memory_order_relaxed);
  });
  return good;
}

// Memory for the bands of all threads; null where there is none, and the plain loop does the work.
std::unique_ptr<char[]> bands_buffer(const Bands& bands) noexcept {
  const Size bytes = bands.buffer * bands.threads;
  if (bytes == 0) return nullptr;
  return std::unique_ptr<char[]>(new (std::nothrow) char[static_cast<std::size_t>(bytes)]);
}

// Settles how the places of a plan are reached: in bands, or one after the other, with or without
// asking for them ahead.
Bands choose_walk(Plan& plan) noexcept {
  Bands bands = choose_bands(plan, threads());
  plan.ahead = places_are_far(plan);
  if (plan.positions < kSampleFrom || plan.width > kLine || (bands.count == 0 && !plan.ahead)) {
    return bands;
  }
  const Sample sample = engine().sample(plan);
  if (sample.follows()) bands = {};
  if (sample.follows() || !sample.spreads()) plan.ahead = false;
  return bands;
}

}  // namespace

const Engine& engine() noexcept {
  static const Engine& picked = pick_engine();
  return picked;
}

bool run_gather(Plan& plan) noexcept {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  const Bands bands = choose_walk(plan);
  if (const auto buffer = bands_buffer(bands)) {
    return run_bands(bands, buffer.get(), [&](Size unit, char* part) noexcept {
      return engine().gather_bands(plan, bands, unit, unit + 1, part);
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

bool run_scatter(Plan& plan, Reduction reduction, ElementType type) noexcept {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  const Bands bands = choose_walk(plan);
  if (const auto buffer = bands_buffer(bands)) {
    const Store store = engine().pick_store(plan, reduction, type);
    return run_bands(bands, buffer.get(), [&](Size unit, char* part) noexcept {
      return engine().scatter_bands(plan, store, bands, unit, unit + 1, part);
    });
  }
  const Sharing sharing = choose_sharing(plan, threads());
  if (sharing.threads == 1 || (sharing.shift >= 0 && !engine().sample(plan).spreads())) {
    return engine().scatter(plan, engine().pick_store(plan, reduction, type), Owner{});
  }
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
    const Store store = engine().pick_store(piece, reduction, type);
    if (!engine().scatter(piece, store, owner)) good.store(false, std::memory_order_relaxed);
  });
  return good;
}

Outside run_check(Plan& check) noexcept {
  simplify(check);
  if (check.positions == 0 || check.column_count == 0) return {};
  const Cut cut = choose_cut(check, threads());
  const std::unique_ptr<Outside[]> found(
      cut.units > 1 ? new (std::nothrow) Outside[static_cast<std::size_t>(cut.units)] : nullptr);
  if (found == nullptr) return engine().check(check, 0, check.positions);
  share(cut.threads, cut.units, [&](int, Size unit) {
    const Size begin = unit * cut.per_unit;
    found[static_cast<std::size_t>(unit)] =
        engine().check(check, begin, std::min(begin + cut.per_unit, check.positions));
  });
  Outside all;
  for (Size unit = 0; unit < cut.units; ++unit) {
    const Outside& part = found[static_cast<std::size_t>(unit)];
    if (all.count == 0 && part.count > 0) all = {0, part.entry, part.value};
    all.count += part.count;
  }
  return all;
}

}  // namespace ndgather
