// slice.h - walking slices that are not one run of bytes.
#pragma once

#include "walk.h"

namespace ndgather::NDGATHER_ISA {

// Calls visit(indexed offset, dense offset) for every run of plan.width bytes of one slice. Always inlined: as a
// function of its own it would hand over what `visit` holds by way of memory.
template <class Visit>
[[gnu::always_inline]] inline void each_run(const Plan& plan, Visit visit) noexcept {
  if (plan.slice_rank == 0) return visit(0, 0);
  const SliceDim inner = plan.slice[plan.slice_rank - 1];
  Size coordinate[kMaxRank];
  for (int d = 0; d < plan.slice_rank - 1; ++d) coordinate[d] = 0;
  Size indexed = 0, dense = 0;
  for (;;) {
#pragma GCC unroll 8
    for (Size e = 0; e < inner.size; ++e) visit(indexed + e * inner.indexed, dense + e * inner.dense);
    int d = plan.slice_rank - 2;
    for (; d >= 0; --d) {
      const SliceDim& dim = plan.slice[d];
      indexed += dim.indexed;
      dense += dim.dense;
      if (++coordinate[d] < dim.size) break;
      indexed -= dim.size * dim.indexed;
      dense -= dim.size * dim.dense;
      coordinate[d] = 0;
    }
    if (d < 0) return;
  }
}

// Calls visit(indexed offset, dense offset) for n slices of one run each.
template <class Visit>
[[gnu::always_inline]] inline void each_single_run(const Size* at, const DenseOffsets& dense, Size n,
                                                   Visit visit) noexcept {
  if (dense.listed == nullptr) {
    const auto [first, step, none] = dense;
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) visit(at[i], first + i * step);
  } else {
    for (Size i = 0; i < n; ++i) visit(at[i], dense.listed[i]);
  }
}

// Calls visit(indexed offset, dense offset) for every run of n slices, slice after slice.
template <class Visit>
[[gnu::always_inline]] inline void each_slice(const Plan& plan, const Size* at, const DenseOffsets& dense, Size n,
                                              Visit visit) noexcept {
  if (plan.slice_rank == 0) return each_single_run(at, dense, n, visit);
  for (Size i = 0; i < n; ++i) {
    const Size from = at[i], to = dense.listed != nullptr ? dense.listed[i] : dense.first + i * dense.step;
    each_run(plan, [=](Size indexed, Size offset) { visit(from + indexed, to + offset); });
  }
}

}  // namespace ndgather::NDGATHER_ISA
