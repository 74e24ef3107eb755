// scatter.h - the walk of a gather with the two arrays swapped: stores that assign or reduce, and the loop over them.
#pragma once

#include "gather.h"
#include "reduction.h"

namespace ndgather::NDGATHER_ISA {

template <class Apply>
void each_update(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n, Apply apply) noexcept {
  each_slice(plan, at, updates, n, [=, to = plan.indexed, from = static_cast<const char*>(plan.dense)](
                                       Size indexed, Size dense) { apply(to + indexed, from + dense); });
}

template <Reduction R, class T>
void reduce_element(char* to, const char* from) noexcept {
  T old, update;
  std::memcpy(&old, to, sizeof(T));
  std::memcpy(&update, from, sizeof(T));
  old = reduce<R, T>(old, update);  // which leaves what is padding in it alone
  std::memcpy(to, &old, sizeof(T));
}

template <Reduction R, class T>
[[gnu::noinline]] void reduce_run(char* __restrict to, const char* __restrict from, Size bytes) noexcept {
  for (Size b = 0; b < bytes; b += Size{sizeof(T)}) reduce_element<R, T>(to + b, from + b);
}

template <Reduction R, class T>
[[gnu::noinline]] void reduce_spaced(char* to, const char* from, const SliceDim& line) noexcept {
  for (Size e = 0; e < line.size; ++e) reduce_element<R, T>(to + e * line.indexed, from + e * line.dense);
}

// Slices of more than one element: by runs, or by lines along their last dim. One walk for all types, as walks of their
// own would be half of the engine, and a call is little beside a run.
[[gnu::noinline]] inline void reduce_runs(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n,
                                          void (*reduce)(char*, const char*, Size) noexcept) noexcept {
  each_update(plan, at, updates, n, [=, width = plan.width](char* to, const char* from) { reduce(to, from, width); });
}

[[gnu::noinline]] inline void reduce_lines(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n,
                                           void (*reduce)(char*, const char*, const SliceDim&) noexcept) noexcept {
  Plan lines = plan;
  const SliceDim& line = plan.slice[--lines.slice_rank];
  each_update(lines, at, updates, n, [&](char* to, const char* from) { reduce(to, from, line); });
}

template <Reduction R, class T>
void store_reduced(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  if (plan.width != Size{sizeof(T)}) return reduce_runs(plan, at, updates, n, reduce_run<R, T>);
  if (plan.slice_rank > 0) return reduce_lines(plan, at, updates, n, reduce_spaced<R, T>);
  each_single_run(at, updates, n, [to = plan.indexed, from = static_cast<const char*>(plan.dense)](
                                      Size indexed, Size dense) { reduce_element<R, T>(to + indexed, from + dense); });
}

// One-byte elements that C++ knows nothing of: the result for every pair is in a table.
inline void store_table(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  each_update(plan, at, updates, n, [table = plan.table, width = plan.width](char* to, const char* from) {
    for (Size b = 0; b < width; ++b) {
      to[b] = table[static_cast<unsigned char>(to[b]) * 256 + static_cast<unsigned char>(from[b])];
    }
  });
}

template <int Width>
void store_elements(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  each_update(plan, at, updates, n, [](char* to, const char* from) { std::memcpy(to, from, Width); });
}

template <void copy(char*, const char*, Size) noexcept>
void store_rows(const Plan& plan, const Size* at, const DenseOffsets& updates, Size n) noexcept {
  each_update(plan, at, updates, n, [width = plan.width](char* to, const char* from) { copy(to, from, width); });
}

inline void copy_bytes(char* to, const char* from, Size width) noexcept {
  std::memcpy(to, from, static_cast<std::size_t>(width));
}

inline Store pick_assignment(const Plan& plan, bool nontemporal) noexcept {
  switch (plan.width) {
    case 1: return store_elements<1>;
    case 2: return store_elements<2>;
    case 4: return store_elements<4>;
    case 8: return store_elements<8>;
    case 16: return store_elements<16>;
    case 32: return store_elements<32>;
    default: break;
  }
  if (plan.width < kLine) return store_rows<copy_bytes>;
  return nontemporal ? store_rows<write_row> : store_rows<copy_row>;
}

template <class T>
Store pick_reduced(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::add: return store_reduced<Reduction::add, T>;
    case Reduction::sub: return store_reduced<Reduction::sub, T>;
    case Reduction::mul: return store_reduced<Reduction::mul, T>;
    default: break;
  }
  if constexpr (!is_complex<T>) {
    if (reduction == Reduction::min) return store_reduced<Reduction::min, T>;
    if (reduction == Reduction::max) return store_reduced<Reduction::max, T>;
  }
  return nullptr;
}

// nullptr where the reduction has no meaning for the type.
inline Store pick_store(const Plan& plan, Reduction reduction, ElementType type, bool nontemporal) noexcept {
  if (reduction == Reduction::none) return pick_assignment(plan, nontemporal);
  switch (type) {
    case ElementType::i8: return pick_reduced<std::int8_t>(reduction);
    case ElementType::i16: return pick_reduced<std::int16_t>(reduction);
    case ElementType::i32: return pick_reduced<std::int32_t>(reduction);
    case ElementType::i64: return pick_reduced<std::int64_t>(reduction);
    case ElementType::u8: return pick_reduced<std::uint8_t>(reduction);
    case ElementType::u16: return pick_reduced<std::uint16_t>(reduction);
    case ElementType::u32: return pick_reduced<std::uint32_t>(reduction);
    case ElementType::u64: return pick_reduced<std::uint64_t>(reduction);
    case ElementType::f16: return pick_reduced<Half>(reduction);
    case ElementType::bf16: return pick_reduced<BFloat>(reduction);
    case ElementType::f32: return pick_reduced<float>(reduction);
    case ElementType::f64: return pick_reduced<double>(reduction);
    case ElementType::long_double: return pick_reduced<long double>(reduction);
    case ElementType::c64: return pick_reduced<std::complex<float>>(reduction);
    case ElementType::c128: return pick_reduced<std::complex<double>>(reduction);
    case ElementType::complex_long_double: return pick_reduced<std::complex<long double>>(reduction);
    case ElementType::boolean: return pick_reduced<Bool>(reduction);
    case ElementType::table: return store_table;
    default: return nullptr;
  }
}

// A block of updates, some of which may be left out.
struct Updates : Block {
  Size listed[kBlock];
};

// Keeps the updates whose index is inside, in order, and lists where they are.
inline void drop_outside(Updates& block, Size step) noexcept {
  Size kept = 0;
  for (Size i = 0; i < block.n; ++i) {
    const Size at = block.at[i];
    block.at[kept] = at;
    block.listed[kept] = block.dense + i * step;
    kept += Size{at != kOutside};
  }
  block.n = kept;
}

// Applies the updates at the positions [begin, end), in C order. False: an index is outside its axis, and the
// indexed array is partly written.
inline bool scatter(const Plan& plan, const Schedule& schedule, Store store, Size begin, Size end) noexcept {
  const Size step = plan.inner().dense;
  const bool good = walk_blocks<Updates, true>(plan, schedule, begin, end, [&](Updates& block) {
    const bool all = block.good;
    if (!all) drop_outside(block, step);
    store(plan, block.at, {block.dense, step, all ? nullptr : block.listed}, block.n);
  });
  if (schedule.nontemporal) finish_writes();
  return good;
}

}  // namespace ndgather::NDGATHER_ISA
