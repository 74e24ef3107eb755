// loops.h - the loops, compiled from the same source (loops.cpp) for each instruction set.
#pragma once

#include "schedule.h"
#include "threads.h"

namespace ndgather {

// Always inlined, because GCC removes calls to functions that only prefetch: it regards them as free of side effects.
template <bool Write = false>
[[gnu::always_inline]] inline void prefetch(const char* at) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(at, Write);
#else
  (void)at;
#endif
}

// The result of checking indices.
struct Outside {
  Size count = 0;           // number of out-of-bounds entries
  Size entry = 0;           // number of the first such entry, counting positions and columns in C order
  std::uint64_t value = 0;  // its value, as 64 bits
};

// The offset of an out-of-bounds position in mode `fill`. Valid offsets are never the most negative number.
inline constexpr Size kOutside = PTRDIFF_MIN;

// The offsets of n slices in the dense array: listed[i] for slice i, or first + i * step if `listed` is null.
struct DenseOffsets {
  Size first, step;
  const Size* listed;  // or null
};

// Moves n slices in order between n checked offsets and the dense array. Duplicate updates are applied in order, as in the
// loops of the specifications.
using Store = void (*)(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n) noexcept;

struct Loops {
  const char* name;  // of the instruction set
  // These handle the positions [begin, end). They return false if the mode does not handle an out-of-bounds index. By
  // then, part of the output may have been written, but nothing outside the arrays was accessed.
  bool (*gather)(const Plan&, const Schedule&, Size begin, Size end) noexcept;
  bool (*scatter)(const Plan&, const Schedule&, Store, Size begin, Size end) noexcept;
  // Runs one band of a scatter, or of a gather if `store` is null.
  bool (*run_band)(const Plan&, const Schedule&, Store, Size number, char* buffer) noexcept;
  bool (*record_offsets)(const Plan&, Size begin, Size end, const Records&) noexcept;
  void (*apply_owned)(const Plan&, const Schedule&, Store, const Partition&, int owner) noexcept;
  Outside (*check)(const Plan&, Size begin, Size end) noexcept;
  bool (*shares_lines)(const Plan&) noexcept;
  // Returns nullptr if the type does not support the reduction.
  Store (*pick_store)(const Plan&, Reduction, ElementType, bool nontemporal) noexcept;
};

// Returns the loops for this processor, or for the instruction set that the environment variable NDGATHER_INSTRUCTION_SET
// names (baseline, avx2, avx512) if the processor supports it.
const Loops& loops() noexcept;

}  // namespace ndgather
