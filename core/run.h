// run.h - a plan is simplified, given its loop, and shared between threads.
#pragma once

#include "engine.h"

namespace ndgather {

// False: an index value was out of bounds, and the near array is partly written.
bool run_gather(Plan& plan) noexcept;

// The same for a scatter; the far array is partly written then.
bool run_scatter(Plan& plan, Reduction reduction, ElementType type) noexcept;

// Looks at every entry of indices; changes nothing.
Outside run_check(Plan& check) noexcept;

}  // namespace ndgather
