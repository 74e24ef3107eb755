// loops.cpp - the loops for the instruction set that the macro NDGATHER_ISA names; see CMakeLists.txt.
#include <cstdlib>

#include "panels.h"

#define NDGATHER_JOINED(a, b) a##b
#define NDGATHER_NAMED(a, b) NDGATHER_JOINED(a, b)
#define NDGATHER_LOOPS NDGATHER_NAMED(loops_, NDGATHER_ISA)
#define NDGATHER_QUOTED(a) #a
#define NDGATHER_NAME(a) NDGATHER_QUOTED(a)

namespace ndgather::NDGATHER_ISA {

// Counts the out-of-bounds entries in n tuples of one run, and finds the first of them.
template <class Policy, class Index>
Outside find_outside(const Plan& plan, const char* index, Size n) noexcept {
  Outside found;
  for (Size i = 0; i < n; ++i, index += plan.inner().index) {
    for (int c = 0; c < plan.column_count; ++c) {
      std::uint64_t position = 0;
      std::int64_t value;
      read_values(plan.index_type, index + c * plan.column_stride, 0, 1, &value);
      if (Policy::resolve(static_cast<Index>(value), plan.column[c], position)) continue;
      if (found.count++ == 0) found = {1, i * plan.column_count + c, static_cast<std::uint64_t>(value)};
    }
  }
  return found;
}

inline Outside check(const Plan& plan, Size begin, Size end) noexcept {
  const Walk<void> walk(plan);
  Outside all;
  Stop::Pace pace;
  Cursor cursor(plan, begin);
  for (Size done = begin; done < end;) {
    if (plan.stop != nullptr && plan.stop->reached(pace)) break;
    const Size n = std::min({end - done, cursor.left, walk.offsets.affine ? 4 * kLimits.affine_block : kLimits.block});
    if (!walk.offsets.compute(plan, cursor.index, 0, walk.bases, n, nullptr)) {
      const Outside found = with_policy(plan, [&](auto policy) {
        using Policy = decltype(policy);
        const bool is_u64 = plan.index_type == IndexType::u64;
        return (is_u64 ? find_outside<Policy, std::uint64_t> : find_outside<Policy, std::int64_t>)(plan, cursor.index, n);
      });
      if (all.count == 0 && found.count > 0) all = {0, done * plan.column_count + found.entry, found.value};
      all.count += found.count;
    }
    cursor.advance(n);
    done += n;
  }
  return all;
}

// Whether many sampled slices share cache lines. Such slices need no prefetching: the hardware prefetches adjacent slices by
// itself and keeps repeated ones in the cache. True if 256 sampled slices begin in fewer than 160 cache lines.
inline bool shares_lines(const Plan& plan) noexcept {
  const Walk<> walk(plan);
  Size lines[2 * kLimits.line_samples], count = 0;
  for (Size s = 0; s < kLimits.line_samples; ++s) {
    const Cursor cursor(plan, plan.positions / kLimits.line_samples * s);
    Size at[2];
    if (cursor.left < 2 || !walk.block(cursor, 2, at)) continue;
    if (std::abs(at[0] - at[1]) <= kLine) at[1] = at[0];
    for (const Size offset : at) lines[count++] = offset / kLine;
  }
  std::sort(lines, lines + count);
  return std::unique(lines, lines + count) - lines < count * 5 / 8;
}

}  // namespace ndgather::NDGATHER_ISA

namespace ndgather {

extern const Loops NDGATHER_LOOPS;
const Loops NDGATHER_LOOPS{
    .name = NDGATHER_NAME(NDGATHER_ISA),
    .gather = NDGATHER_ISA::gather,
    .scatter = NDGATHER_ISA::scatter,
    .run_band = NDGATHER_ISA::run_band,
    .record_offsets = NDGATHER_ISA::record_offsets,
    .apply_owned = NDGATHER_ISA::apply_owned,
    .check = NDGATHER_ISA::check,
    .shares_lines = NDGATHER_ISA::shares_lines,
    .pick_store = NDGATHER_ISA::pick_store,
};

}  // namespace ndgather
