// run.h - a plan is simplified, given its loop, and shared between threads.
#pragma once

#include "engine.h"

namespace ndgather {

// False: an index value was out of bounds, and the near array is partly written. Throws
// std::bad_alloc before anything is touched.
bool run_gather(Plan& plan);

// The same for a scatter; the far array is partly written then.
bool run_scatter(Plan& plan, Reduction reduction, ElementType type);

// Looks at every entry of indices; changes nothing.
Outside run_check(Plan& check);

}  // namespace ndgather
