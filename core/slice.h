// slice.h - walking a slice that is no single run of bytes.
#pragma once

#include "plan.h"

namespace ndgather {

// Calls visit(far offset, near offset) for every place of the first `rank` dims of one slice.
template <class Visit>
void each_of_slice(const Plan& plan, int rank, Visit visit) noexcept {
  Size coordinate[kMaxRank];
  for (int d = 0; d < rank; ++d) coordinate[d] = 0;
  Size far = 0, near = 0;
  for (;;) {
    visit(far, near);
    int d = rank - 1;
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
void each_of_slice(const Plan& plan, Visit visit) noexcept {
  each_of_slice(plan, plan.slice_rank, visit);
}

}  // namespace ndgather
