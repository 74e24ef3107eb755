// threads.h - the threads of the engine: asleep soon after a call, made when first needed, made anew
// in a forked child.
#pragma once

#include <type_traits>

#include "plan.h"

namespace ndgather {

int threads() noexcept;
void set_threads(int count) noexcept;

// Makes what a fork must not meet half made.
void prepare_threads() noexcept;

// Whether a call was shared a moment ago, so that help comes at once.
bool threads_awake() noexcept;

// Calls task(context, seat, unit) for every unit in [0, units), on the caller's thread (seat 0) and
// at most seats - 1 others. Returns when all are done. Where the team is busy with another call,
// the caller does all of it. Units are taken in order; which seat gets which is left open.
using Task = void (*)(void* context, int seat, Size unit) noexcept;
void share(int seats, Size units, Task task, void* context) noexcept;

template <class Work>
void share(int seats, Size units, Work&& work) noexcept {
  share(
      seats, units,
      [](void* context, int seat, Size unit) noexcept {
        (*static_cast<std::remove_reference_t<Work>*>(context))(seat, unit);
      },
      &work);
}

}  // namespace ndgather
