// cursor.h - walking the positions of a plan run by run: a run is a stretch of the innermost dim.
#pragma once

#include <algorithm>

#include "choose.h"
#include "offsets.h"

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
    const int d = plan.position_rank - 1;
    const Position& inner = plan.position[d];
    move(inner, n);
    left -= n;
    if (left > 0) return;
    move(inner, -inner.size);
    left = inner.size;
    coordinate[d] = 0;  // runs after the first begin at 0
    next(d - 1, 1);
  }

  // How many positions are left in the two innermost dims.
  Size left_of_plane() const noexcept {
    const int d = plan.position_rank - 1;
    return left + (plan.position[d - 1].size - coordinate[d - 1] - 1) * plan.position[d].size;
  }

  // Steps over n <= left_of_plane() positions.
  void advance_in_plane(Size n) noexcept {
    const int d = plan.position_rank - 1;
    const Position& inner = plan.position[d];
    const Size done = inner.size - left;
    const Size runs = (done + n) / inner.size, rest = (done + n) % inner.size;
    move(inner, rest - done);
    left = inner.size - rest;
    if (runs > 0) next(d - 1, runs);
  }

 private:
  void move(const Position& dim, Size steps) noexcept {
    index += steps * dim.index;
    far += steps * dim.far;
    near += steps * dim.near;
  }

  // Steps on in dim d, and where it ends in the one outside.
  void next(int d, Size steps) noexcept {
    for (; d >= 0; --d, steps = 1) {
      const Position& dim = plan.position[d];
      move(dim, steps);
      coordinate[d] += steps;
      if (coordinate[d] < dim.size) return;
      move(dim, -dim.size);
      coordinate[d] = 0;
    }
  }
};

// Where the positions of a block start in the far array, whatever their index tuples say.
struct Bases {
  alignas(kLine) Size far[kBlock + kShortRun];  // from the first position of the innermost dim on

  explicit Bases(const Plan& plan) noexcept {
    const Position& inner = plan.position[plan.position_rank - 1];
    const Size step = plan.run > 0 ? plan.run_far : inner.far;
    const Size end = plan.run + std::min(inner.size, kBlock);
    const Size first_run = plan.run > 0 ? plan.run : end;
    for (Size i = 0; i < first_run; ++i) far[i] = i * step;
    for (Size i = first_run; i < end; ++i) far[i] = far[i - plan.run] + plan.runs_far;
  }

  // The base of the next position, and how far the bases of the ones from there on lie from it.
  struct From {
    Size first;
    const Size* bases;
  };
  From from(const Cursor& cursor) const noexcept {
    const Plan& plan = cursor.plan;
    if (plan.run == 0) return {cursor.far, far};
    const Size done = plan.position[plan.position_rank - 1].size - cursor.left;
    return {cursor.far + done / plan.run * plan.runs_far, far + done % plan.run};
  }
};

}  // namespace ndgather::NDGATHER_ISA
