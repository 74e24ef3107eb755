// run.h - a plan is simplified, given its loop, and shared between threads.
#pragma once

#include "engine.h"
#include "threads.h"

namespace ndgather {

// All of these may be left early by a `stop`; their answers mean nothing then.

// False: an index value was out of bounds, and the near array is partly written.
bool run_gather(Plan& plan, Stop* stop = nullptr) noexcept;

// The same for a scatter; the far array is partly written then.
bool run_scatter(Plan& plan, Reduction reduction, ElementType type, Stop* stop = nullptr) noexcept;

// Looks at every entry of indices; changes nothing.
Outside run_check(Plan& check, Stop* stop = nullptr) noexcept;

}  // namespace ndgather
