// run.cpp - carrying out whole plans.
#include "run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

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

#ifdef NDGATHER_X86_64
// Intel's processors gather in less time by vectors of 256 bits (model 106, of the time by 512: out of caches
// 0.8 to 0.95, out of memory 0.95 to 1.0), and scatter in less by AVX-512 (by AVX2 1.0 to 1.07).
Engine engine_of_both() noexcept {
  Engine both = engine_avx512;
  both.gather = engine_avx2.gather;
  both.gather_bands = engine_avx2.gather_bands;
  both.gather_tiles = engine_avx2.gather_tiles;
  return both;
}
#endif

const Engine& pick_engine() noexcept {
#ifdef NDGATHER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && wanted("both") &&
      (__builtin_cpu_is("intel") || !wanted("avx512"))) {  // or by name
    static const Engine both = engine_of_both();
    return both;
  }
  if (__builtin_cpu_supports("x86-64-v4") && wanted("avx512")) return engine_avx512;
  if (__builtin_cpu_supports("x86-64-v3") && wanted("avx2")) return engine_avx2;
#endif
  return engine_baseline;
}

// The band that is next in turn. Two threads in neighbouring bands ask for lines of each other's, ahead of
// them: for spells of calls looks into 4096 x 2200 floats took 11.5 ms, else 5.8 (4096 x 4096: 22 and 14).
// So each goes through some by itself, not far from the others: 6.2 to 7.4 (15), and no such spells.
Size band_in_turn(const Bands& bands, Size turn) noexcept {
  constexpr Size kByItself = 4;
  const Size group = kByItself * bands.threads;
  const Size within = turn % group;
  if (bands.stretches > 1 || turn - within + group > bands.count) return turn;
  return turn - within + within % bands.threads * kByItself + within / bands.threads;
}

// Shares bands between threads; each has a part of the buffer of its own.
template <class Work>
bool run_bands(const Bands& bands, char* buffer, Stop* stop, Work work) noexcept {
  std::atomic<bool> good{true};
  share(bands.threads, bands.stretches, bands.count, stop, [&](int seat, Size turn) {
    if (!work(band_in_turn(bands, turn), buffer + seat * bands.buffer)) {
      good.store(false, std::memory_order_relaxed);
    }
  });
  return good;
}

// Memory to work in, out of the pool. Null where none is wanted, or where there is none: the plain
// loop does the work then.
char* scratch(Size bytes) noexcept {
  if (bytes == 0) return nullptr;
  return static_cast<char*>(memory::allocate(static_cast<std::size_t>(bytes)));
}

// Settles how the places of a plan are reached: in bands, or one after the other; past the caches or
// through them; and what is asked for ahead.
Bands choose_walk(Plan& plan, int threads) noexcept {
  if (const Size part = choose_slice_parts(plan).part) split_slices(plan, part);
  if (choose_order(plan)) simplify(plan);
  Bands bands = choose_bands(plan, threads);
  plan.asks_ahead = leaves_caches(plan);
  plan.asks_for_rows = next_row_is_wanted(plan);
  plan.streams = writes_past_caches(plan);
  plan.patience = choose_patience(plan);
  if (bands.count > 0 && engine().sample(plan).follows()) bands = {};
  if (bands.count == 0 && runs_are_short(plan)) join_runs(plan);
  return bands;
}

// Settles how the runs of a small plan are walked.
void choose_runs(Plan& plan) noexcept {
  plan.asks_for_rows = next_row_is_wanted(plan);
  if (runs_are_short(plan)) join_runs(plan);
}

// What the notes of a round take, up to a line.
Size bytes_of_notes(const Sharing& sharing) noexcept {
  return (sharing.round * Places::width(sharing.wide) + kLine - 1) / kLine * kLine;
}

// Whether no place is noted twice: where the last note is all that counts, the others are dropped.
bool note_once(const Places& places, const Sharing& sharing, char* memory, bool last_counts) noexcept {
  const int owners = sharing.threads;
  constexpr Size kWord = sizeof(std::uint64_t);
  const Marks marks{reinterpret_cast<std::uint64_t*>(memory), sharing.marks / kWord, sharing.shift, owners};
  const auto bound = [&](Size stretch) {
    return places.begin + (places.end - places.begin) * stretch / owners;
  };
  std::atomic<bool> once{true};
  share(owners, owners, owners, nullptr, [&](int, Size stretch) {
    std::memset(marks.map(stretch), 0, static_cast<std::size_t>(sharing.marks));
    if (!engine().mark(places, marks, bound(stretch), bound(stretch + 1), stretch, last_counts)) {
      once.store(false, std::memory_order_relaxed);
    }
  });
  if (!once && !last_counts) return false;
  once.store(true, std::memory_order_relaxed);
  share(owners, owners, owners, nullptr, [&](int, Size part) {
    if (!engine().join_later(marks, marks.each * part / owners, marks.each * (part + 1) / owners)) {
      once.store(false, std::memory_order_relaxed);
    }
  });
  if (once || !last_counts) return once;
  share(owners, owners, owners - 1, nullptr, [&](int, Size stretch) {
    engine().drop_marked(places, marks, bound(stretch), bound(stretch + 1), stretch);
  });
  return true;
}

// Shares a scatter by place, round by round: all threads write down the checked places of the
// positions; then each applies what it owns of all of them, in order, or some positions where no place is
// noted twice. False: an index value was out of bounds.
bool run_by_place(const Plan& plan, Store store, bool last_counts, const Sharing& sharing, char* memory,
                  Stop* stop) noexcept {
  const int owners = sharing.threads;
  const Size round =
      stop == nullptr ? sharing.round : std::min(sharing.round, choose_stretch(plan) * owners);
  Places places{memory, 0, 0, plan.far_span().lowest, plan.near_span().lowest,
                sharing.wide, owners};
  // Owners begin with a line.
  places.lowest_far -= bytes_after(plan.far + places.lowest_far, kLine);
  // Some pieces for each thread, so that one that wakes late holds up nobody; on lines of their own.
  const Size piece = (round / (4 * owners) + kLine) / kLine * kLine;
  std::atomic<bool> good{true};
  for (Size begin = 0; begin < plan.positions; begin = places.end) {
    if (stop != nullptr && stop->reached(0)) return true;
    places.begin = begin;
    places.end = std::min(begin + round, plan.positions);
    share(owners, owners, (places.end - begin + piece - 1) / piece, nullptr, [&](int, Size unit) {
      const Size from = begin + unit * piece;
      if (!engine().note(plan, places, from, std::min(from + piece, places.end))) {
        good.store(false, std::memory_order_relaxed);
      }
    });
    if (!good) return false;
    if (sharing.marks > 0 && note_once(places, sharing, memory + bytes_of_notes(sharing), last_counts)) {
      const Size part = (places.end - places.begin + sharing.parts - 1) / sharing.parts;
      share(owners, sharing.stretches, sharing.parts, nullptr, [&](int, Size unit) {
        const Size from = std::min(begin + unit * part, places.end);
        engine().apply_noted(plan, store, places, from, std::min(from + part, places.end));
      });
      continue;
    }
    engine().divide(places);
    share(owners, owners, owners, nullptr, [&](int, Size owner) {
      engine().apply(plan, store, places, static_cast<int>(owner));
    });
  }
  return true;
}

// Looks at all positions of a simplified check plan, and names the first that is out of bounds.
Outside look_at_all(const Plan& check, Stop* stop) noexcept {
  if (is_small(check)) return engine().check(check, 0, check.positions);
  const Cut cut = choose_cut(check, threads());
  const std::unique_ptr<Outside[]> found(
      cut.units > 1 ? new (std::nothrow) Outside[static_cast<std::size_t>(cut.units)] : nullptr);
  if (found == nullptr) return engine().check(check, 0, check.positions);
  share(cut.threads, cut.stretches, cut.units, stop, [&](int, Size unit) {
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

// A gather of a simplified plan that has at least one position.
bool run_simplified(Plan& plan, int threads, Stop* stop) noexcept {
  if (is_small(plan)) {
    choose_runs(plan);
    return engine().gather(plan, 0, plan.positions);
  }
  plan.any_order = true;
  if (const Size rest = choose_slice_parts(plan).rest) {
    const Size parts = plan.slice[plan.slice_rank - 1].size - rest;
    Plan last = plan;
    cut_slices(last, parts, rest);
    cut_slices(plan, 0, parts);
    simplify(last);
    if (!run_simplified(last, threads, stop)) return false;
  }
  const Bands bands = choose_walk(plan, threads);
  if (char* const buffer = scratch(bands.buffer * bands.threads)) {
    const bool inside = run_bands(bands, buffer, stop, [&](Size unit, char* part) noexcept {
      return engine().gather_bands(plan, bands, unit, unit + 1, part);
    });
    memory::release(buffer);
    return inside;
  }
  if (const Bands tiles = choose_tiles(plan, threads); tiles.count > 0) {
    std::atomic<bool> inside{true};
    const Size turns = (tiles.count + tiles.together - 1) / tiles.together;
    share(tiles.threads, tiles.stretches, turns, stop, [&](int, Size turn) {
      const Size begin = turn * tiles.together;
      if (!engine().gather_tiles(plan, tiles, begin, std::min(begin + tiles.together, tiles.count))) {
        inside.store(false, std::memory_order_relaxed);
      }
    });
    return inside;
  }
  const Cut cut = choose_cut(plan, threads);
  if (cut.units * cut.slice_parts == 1) return engine().gather(plan, 0, plan.positions);
  std::atomic<bool> good{true}, far_away{false};
  plan.far_away = &far_away;
  share(cut.threads, cut.stretches, cut.units * cut.slice_parts, stop, [&](int, Size unit) {
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
  plan.far_away = nullptr;
  return good;
}

}  // namespace

const Engine& engine() noexcept {
  static const Engine& picked = pick_engine();
  return picked;
}

bool run_gather(Plan& plan, Stop* stop) noexcept {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  const Packing packing = choose_packing(plan, threads());
  char* const packed = scratch(packing.bytes);
  if (packed == nullptr) return run_simplified(plan, threads(), stop);
  Plan copy;
  pack(plan, copy, packed);
  run_simplified(copy, packing.threads, nullptr);
  const bool inside = run_simplified(plan, packing.threads, stop);
  memory::release(packed);
  return inside;
}

Scatter::Scatter(Plan& plan, Reduction reduction, ElementType type) noexcept
    : plan_(plan), reduction_(reduction), type_(type) {
  simplify(plan);
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return;
  plan.scatters = true;
  if (is_small(plan)) {
    choose_runs(plan);
    return;
  }
  bands_ = choose_walk(plan, threads());
  // To add to a row it has to be read.
  plan.streams = plan.streams && reduction == Reduction::none;
  memory_ = scratch(bands_.buffer * bands_.threads);
  if (memory_ != nullptr) return;
  bands_ = {};
  sharing_ = choose_sharing(plan, reduction == Reduction::none, threads(), engine().sample);
  if (!sharing_.by_place) return;
  memory_ = scratch(bytes_of_notes(sharing_) + sharing_.threads * sharing_.marks);
  if (memory_ == nullptr) sharing_ = {};  // one thread does the work
}

bool Scatter::replaces(const Plan& copy) noexcept {
  const bool packed = copy.positions == 1 && copy.slice_rank == 0;
  if (bands_.count == 0 || !packed || copy.width != bands_.written) return false;
  plan_.origin = copy.far + (plan_.far - copy.near);
  return true;
}

bool Scatter::run(Stop* stop) noexcept {
  const Plan& plan = plan_;
  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return true;
  if (bands_.count > 0) {
    const Store store = engine().pick_store(plan, reduction_, type_);
    return run_bands(bands_, memory_, stop, [&](Size unit, char* part) noexcept {
      return engine().scatter_bands(plan, store, bands_, unit, unit + 1, part);
    });
  }
  if (sharing_.by_place) {
    const Store store = engine().pick_store(plan, reduction_, type_);
    return run_by_place(plan, store, reduction_ == Reduction::none, sharing_, memory_, stop);
  }
  std::atomic<bool> good{true};
  // In order: each stretch of positions after the one before it.
  const auto run_part = [&](const Plan& part, int seat) {
    const Store store = engine().pick_store(part, reduction_, type_);
    const Size stretch = choose_stretch(part);
    for (Size begin = 0; begin < part.positions; begin += stretch) {
      if (stop != nullptr && stop->reached(seat)) return;
      const Size end = begin + std::min(stretch, part.positions - begin);
      if (!engine().scatter(part, store, begin, end)) {
        good.store(false, std::memory_order_relaxed);
        return;
      }
    }
  };
  const Sharing& sharing = sharing_;
  if (sharing.threads == 1) {
    run_part(plan, 0);
    return good;
  }
  share(sharing.threads, sharing.stretches, sharing.parts, nullptr, [&](int seat, Size part) {
    Plan piece = plan;
    if (sharing.position >= 0) {
      Position& dim = piece.position[sharing.position];
      const Position steps = plan.steps(sharing.position);
      const Size begin = steps.size * part / sharing.parts;
      const Size end = steps.size * (part + 1) / sharing.parts;
      piece.indices += begin * steps.index;
      piece.far += begin * steps.far;
      piece.near += begin * steps.near;
      piece.positions = piece.positions / steps.size * (end - begin);
      dim.size = dim.size / steps.size * (end - begin);
      piece.near_linear = false;  // the cut leaves gaps between runs
    } else if (sharing.slice_part > 0) {
      const Size begin = part * sharing.slice_part;
      narrow(piece, begin, std::min(begin + sharing.slice_part, plan.width));
    }
    run_part(piece, seat);
  });
  return good;
}

Outside run_check(Plan& check, Stop* stop) noexcept {
  if (check.positions == 0 || check.column_count == 0) return {};
  // Entries that strides of 0 repeat are looked at once.
  const int rank = check.position_rank;
  Size whole[kMaxRank], once[kMaxRank];
  Size repeats = 1;
  for (int d = 0; d < rank; ++d) {
    Position& dim = check.position[d];
    whole[d] = dim.size;
    if (dim.index == 0) {
      repeats *= dim.size;
      dim.size = 1;
    }
    once[d] = dim.size;
  }
  check.positions /= repeats;
  simplify(check);
  // Indices that lie in another order are looked at in that; which is the first is asked in C order.
  if (check.position_rank > 1) {
    Plan ordered = check;
    ordered.any_order = true;
    choose_order(ordered);
    simplify(ordered);
    if (look_at_all(ordered, stop).count == 0) return {};
  }
  Outside all = look_at_all(check, stop);
  if (all.count == 0 || repeats == 1) return all;
  // The first of the repeated entries comes before the others: its place among all of them.
  Size position = all.entry / check.column_count, step = check.column_count;
  all.entry %= check.column_count;
  for (int d = rank - 1; d >= 0; --d) {
    all.entry += position % once[d] * step;
    position /= once[d];
    step *= whole[d];
  }
  all.count *= repeats;
  return all;
}

}  // namespace ndgather
