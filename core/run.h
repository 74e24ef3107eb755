// run.h - running plans: simplifying them, scheduling them, and dividing the work among threads.
#pragma once

#include "loops.h"
#include "threads.h"

namespace ndgather {

// A `stop` may end any of these functions early; their results are then meaningless. run_gather and run_scatter return false
// if an index is out of bounds. Part of the output may have been written by then, unless plan.all_or_nothing is set.
bool run_gather(Plan& plan, Stop* stop = nullptr) noexcept;
bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop = nullptr) noexcept;

// Checks every entry of indices.
Outside run_check(Plan& check, Stop* stop = nullptr) noexcept;

// The first out-of-bounds entry of indices, in terms of the arguments of a call.
struct BadEntry {
  Size position[kMaxRank];  // in indices
  int column;               // number of the index in its tuple
  Size axis, size;          // the axis of data that it addresses, and the size of this axis
  Size total;               // number of entries of indices
};
BadEntry locate(const Outside& bad, const Plan& plan, const Array& data, const Array& indices, const Options& options);

}  // namespace ndgather
