// slice.h - walking slices that are no single run of bytes: which bytes of the far array belong to which
// of the near array.
#pragma once

#include "choose.h"

namespace ndgather::NDGATHER_ISA {

// Calls visit(far offset, near offset) for every place of the first `rank` dims of one slice. Always
// inlined: a function of its own gets what `visit` holds by way of memory, which takes longer than some
// elements (boxes of 2 by 4 floats take 0.3 of the time).
template <class Visit>
[[gnu::always_inline]] inline void each_of_slice(const Plan& plan, int rank, Visit visit) noexcept {
  if (rank == 0) return visit(0, 0);
  const Slice inner = plan.slice[rank - 1];
  Size coordinate[kMaxRank];
  for (int d = 0; d < rank - 1; ++d) coordinate[d] = 0;
  Size far = 0, near = 0;
  for (;;) {
    for (Size e = 0; e < inner.size; ++e) visit(far + e * inner.far, near + e * inner.near);
    int d = rank - 2;
    for (; d >= 0; --d) {
      const Slice& dim = plan.slice[d];
      far += dim.far;
      near += dim.near;
      if (++coordinate[d] < dim.size) break;
      far -= dim.size * dim.far;
      near -= dim.size * dim.near;
      coordinate[d] = 0;
    }
    if (d < 0) return;
  }
}

// The same for every run of plan.width bytes.
template <class Visit>
[[gnu::always_inline]] inline void each_of_slice(const Plan& plan, Visit visit) noexcept {
  each_of_slice(plan, plan.slice_rank, visit);
}

// Calls apply(far, near) for n positions, in order. What it needs is copied first: the compiler has to
// expect that a store changes anything that is pointed to.
template <class Byte, class Apply>
[[gnu::noinline]] void each_position(char* far, const Size* at, const NearPlaces<Byte>& places, Size n,
                                     Apply apply) noexcept {
  const auto [near, step, listed] = places;
  if (listed == nullptr) {
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) apply(far + at[i], near + i * step);
  } else {
#pragma GCC unroll 8
    for (Size i = 0; i < n; ++i) apply(far + at[i], near + listed[i]);
  }
}

// The same for the runs of slices, of which those of one place stay in order too. Long slices go one after
// the other; short ones element by element, and for each of them all positions, so that a column of a
// transposed array is looked up in one go.
template <class Byte, class Apply>
void each_run(const Plan& plan, char* far, const Size* at, const NearPlaces<Byte>& places, Size n,
              Apply apply) noexcept {
  if (plan.slice_rank == 0) return each_position(far, at, places, n, apply);
  if (!has_long_slices(plan)) {
    each_of_slice(plan, [&](Size far_offset, Size near_offset) {
      const NearPlaces<Byte> run{places.near + near_offset, places.step, places.listed};
      each_position(far + far_offset, at, run, n, apply);
    });
    return;
  }
  const int outer = plan.slice_rank - 1;
  const auto [size, far_step, near_step] = plan.slice[outer];
  for (Size i = 0; i < n; ++i) {
    char* const place = far + at[i];
    Byte* const near = places.near + (places.listed ? places.listed[i] : i * places.step);
    each_of_slice(plan, outer, [=](Size far_offset, Size near_offset) {
      char* first = place + far_offset;
      Byte* second = near + near_offset;
#pragma GCC unroll 4
      for (Size e = 0; e < size; ++e) apply(first + e * far_step, second + e * near_step);
    });
  }
}

}  // namespace ndgather::NDGATHER_ISA
