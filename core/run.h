// run.h - carrying out whole plans: simplified, scheduled, and shared between threads.
#pragma once

#include "loops.h"
#include "threads.h"

namespace ndgather {

// All of these may be left early by a `stop`; their answers mean nothing then.

// False: an index is outside its axis, and the dense array is partly written.
bool run_gather(Plan& plan, Stop* stop = nullptr) noexcept;

// False: an index is outside its axis, and the indexed array is partly written.
bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop = nullptr) noexcept;

// Checks every entry of indices; changes nothing.
Outside run_check(Plan& check, Stop* stop = nullptr) noexcept;

// The first entry of indices that is out of bounds, in terms of the arguments of a call.
struct BadEntry {
  Size position[kMaxRank];  // in indices
  int column;               // which index of its tuple it is
  Size axis, size;          // of data
  Size total;               // entries of indices
};
BadEntry locate(const Outside& bad, const Plan& plan, const Array& data, const Array& indices, const Options& options);

}  // namespace ndgather
