// loops.h - the loops, compiled once for each instruction set from the same source (loops.cpp).
#pragma once

#include "schedule.h"
#include "threads.h"

namespace ndgather {

// Always inlined, as everything that only prefetches: GCC takes such a function for one without effect, and drops calls.
template <bool Write = false>
[[gnu::always_inline]] inline void prefetch(const char* at) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(at, Write);
#else
  (void)at;
#endif
}

// What a check of the index values found.
struct Outside {
  Size count = 0;           // entries outside their axes
  Size entry = 0;           // the first of them, counted over positions and columns in C order
  std::uint64_t value = 0;  // its 64 bits
};

// The offset of a position whose index is outside its axis, where the mode is `fill`. No real offset is the most
// negative number.
inline constexpr Size kOutside = PTRDIFF_MIN;

// Where n slices lie in the dense array: every `step` bytes from `first`, or at the listed offsets.
struct DenseOffsets {
  Size first, step;
  const Size* listed;  // null: all of them, one step apart
};

// Moves n slices, in order, between n checked offsets and the dense array: repeated updates are applied one after the
// other, as the loops of the specifications have it.
using Store = void (*)(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n) noexcept;

struct Loops {
  const char* name;  // of the instruction set
  // These return false where an index is outside its axis and the mode has no answer to that: nothing outside of the
  // arrays was touched then, and what is written to is partly written. Positions are those in [begin, end).
  bool (*gather)(const Plan&, const Schedule&, Size begin, Size end) noexcept;
  bool (*scatter)(const Plan&, const Schedule&, Store, Size begin, Size end) noexcept;
  // One band of a scatter, or of a gather where the store is null.
  bool (*run_band)(const Plan&, const Schedule&, Store, Size number, char* buffer) noexcept;
  bool (*record_offsets)(const Plan&, Size begin, Size end, const Records&) noexcept;
  void (*apply_owned)(const Plan&, const Schedule&, Store, const Partition&, int owner) noexcept;
  Outside (*check)(const Plan&, Size begin, Size end) noexcept;
  bool (*shares_lines)(const Plan&) noexcept;
  // nullptr where the reduction has no meaning for the type.
  Store (*pick_store)(const Plan&, Reduction, ElementType, bool nontemporal) noexcept;
};

// Those for this processor, or for the instruction set that the environment variable NDGATHER_INSTRUCTION_SET names
// (baseline, avx2, avx512) where the processor has it.
const Loops& loops() noexcept;

}  // namespace ndgather
