// run.h - a plan is simplified, given its loop, and shared between threads.
#pragma once

#include "engine.h"
#include "memory.h"
#include "threads.h"

namespace ndgather {

// All of these may be left early by a `stop`; their answers mean nothing then.

// False: an index value was out of bounds, and the near array is partly written.
bool run_gather(Plan& plan, Stop* stop = nullptr) noexcept;

// A scatter whose loop has been chosen, and which has the memory for that. No destructor gives it back:
// at the end of the interpreter a thread that waits for the GIL in between may be ended by unwinding.
class Scatter {
 public:
  Scatter(Plan& plan, Reduction reduction, ElementType type) noexcept;

  // Whether run() reads what `copy` would bring to the far array, and writes all of that: then `copy` need
  // not be run.
  bool replaces(const Plan& copy) noexcept;

  // Whether run() looks at all index values before it writes anything.
  bool looks_first() const noexcept {
    return sharing_.by_place && plan_.positions <= sharing_.round;
  }

  // False: an index value was out of bounds, and the far array is partly written unless looks_first.
  bool run(Stop* stop = nullptr) noexcept;

  void release() noexcept { memory::release(memory_); }

 private:
  Plan& plan_;
  Reduction reduction_;
  ElementType type_;
  Bands bands_;
  Sharing sharing_;
  char* memory_ = nullptr;  // for bands, or for sharing by place
};

inline bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop = nullptr)
    noexcept {
  Scatter scatter(plan, reduction, type);
  const bool inside = scatter.run(stop);
  scatter.release();
  return inside;
}

// Looks at every entry of indices; changes nothing.
Outside run_check(Plan& check, Stop* stop = nullptr) noexcept;

}  // namespace ndgather
