// threads.h - the threads of the engine: asleep soon after a call, made when first needed, made anew
// in a forked child.
#pragma once

#include <atomic>
#include <chrono>
#include <type_traits>

#include "plan.h"

namespace ndgather {

int threads() noexcept;
void set_threads(int count) noexcept;

// Makes what a fork must not meet half made.
void prepare_threads() noexcept;

// Whether help comes at once, as a call was shared a moment ago; or is worth waking, as this is asked for
// one call soon after the other.
bool threads_at_hand() noexcept;

// Lets a long call be left before its end. What it has written by then is for nobody.
class Stop {
 public:
  // `ask` says whether to stop; it is called on the caller's thread, now and then.
  Stop(bool (*ask)(void* context) noexcept, void* context) noexcept : ask_(ask), context_(context) {}

  // For whoever is about to start a piece of work; the caller's thread has seat 0.
  bool reached(int seat) noexcept;

  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }

 private:
  bool (*ask_)(void*) noexcept;
  void* context_;
  std::chrono::steady_clock::time_point next_{};  // of the caller's thread
  std::atomic<bool> wanted_{false};
};

// Calls task(context, seat, unit) for every unit in [0, units), on the caller's thread (seat 0) and
// at most seats - 1 others. Returns when all are done, or when `stop` (if not null) is reached and
// those that were begun are done. Where the team is busy with another call, the caller does all of
// it. The units are dealt out in `stretches` (at most 64), each in order: a seat begins with one of its
// own as long as there are enough, so that call after call it finds the same in its caches, and helps with
// the others when that is done. With one stretch, the seats go through the units side by side.
using Task = void (*)(void* context, int seat, Size unit) noexcept;
void share(int seats, int stretches, Size units, Stop* stop, Task task, void* context) noexcept;

template <class Work>
void share(int seats, int stretches, Size units, Stop* stop, Work&& work) noexcept {
  share(
      seats, stretches, units, stop,
      [](void* context, int seat, Size unit) noexcept {
        (*static_cast<std::remove_reference_t<Work>*>(context))(seat, unit);
      },
      &work);
}

}  // namespace ndgather
