// run.h - a plan is simplified, given its loop, and shared between threads.
#pragma once

#include <memory>

#include "engine.h"
#include "memory.h"
#include "threads.h"

namespace ndgather {

// All of these may be left early by a `stop`; their answers mean nothing then.

// False: an index value was out of bounds, and the near array is partly written.
bool run_gather(Plan& plan, Stop* stop = nullptr) noexcept;

// Memory to work in, out of the pool.
struct Release {
  void operator()(char* block) const noexcept { memory::release(block); }
};
using Scratch = std::unique_ptr<char, Release>;

// A scatter whose loop has been chosen, and which has the memory for that.
class Scatter {
 public:
  Scatter(Plan& plan, Reduction reduction, ElementType type) noexcept;

  // Whether run() looks at all index values before it writes anything.
  bool looks_first() const noexcept {
    return sharing_.by_place && plan_.positions <= sharing_.round;
  }

  // False: an index value was out of bounds, and the far array is partly written unless looks_first.
  bool run(Stop* stop = nullptr) noexcept;

 private:
  Plan& plan_;
  Reduction reduction_;
  ElementType type_;
  Bands bands_;
  Sharing sharing_;
  Scratch memory_;  // for bands, or for sharing by place
};

inline bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop = nullptr)
    noexcept {
  return Scatter(plan, reduction, type).run(stop);
}

// Looks at every entry of indices; changes nothing.
Outside run_check(Plan& check, Stop* stop = nullptr) noexcept;

}  // namespace ndgather
