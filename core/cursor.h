// cursor.h - walking the positions of a plan run by run: a run is a stretch of the innermost dim.
#pragma once

#include "plan.h"

namespace ndgather::NDGATHER_ISA {

struct Cursor {
  const Plan& plan;
  const char* index;   // of the next position
  Size far;            // its base offset
  char* near;          // its place in the near array
  Size left;           // positions left in this run
  Size coordinate[kMaxRank];

  Cursor(const Plan& p, Size begin) noexcept : plan(p), index(p.indices), far(0), near(p.near) {
    for (int d = plan.position_rank - 1; d >= 0; --d) {
      const Position& dim = plan.position[d];
      const Size at = begin % dim.size;
      begin /= dim.size;
      coordinate[d] = at;
      index += at * dim.index;
      far += at * dim.far;
      near += at * dim.near;
    }
    const int inner = plan.position_rank - 1;
    left = plan.position[inner].size - coordinate[inner];
  }

  // Steps over n <= left positions; at the end of a run on to the next.
  void advance(Size n) noexcept {
    int d = plan.position_rank - 1;
    const Position& inner = plan.position[d];
    index += n * inner.index;
    far += n * inner.far;
    near += n * inner.near;
    left -= n;
    if (left > 0) return;
    index -= inner.size * inner.index;
    far -= inner.size * inner.far;
    near -= inner.size * inner.near;
    left = inner.size;
    coordinate[d] = 0;  // runs after the first begin at 0
    while (--d >= 0) {
      const Position& dim = plan.position[d];
      index += dim.index;
      far += dim.far;
      near += dim.near;
      if (++coordinate[d] < dim.size) return;
      index -= dim.size * dim.index;
      far -= dim.size * dim.far;
      near -= dim.size * dim.near;
      coordinate[d] = 0;
    }
  }
};

}  // namespace ndgather::NDGATHER_ISA
