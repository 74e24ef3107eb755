// machine.h - what the engine knows of the machine that it runs on.
#pragma once

#include "plan.h"

namespace ndgather {

// Sizes of caches in bytes: those that the system tells, else common ones.
struct Caches {
  Size second_level = Size{1} << 20;  // of one core
  Size last_level = Size{1} << 25;    // shared
};

const Caches& caches() noexcept;

}  // namespace ndgather
