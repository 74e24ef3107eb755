// threads.h - the threads of the engine: asleep soon after a call, made when first needed, made anew in a forked child.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

#include "tuning.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define NDGATHER_HAS_FORK
#endif

namespace ndgather {

int threads() noexcept;
void set_threads(int count) noexcept;

// How many of them a call may use now: one for a while after a caller had to wait for another thread, whose processor
// others want too.
int usable_threads() noexcept;

// Creates the team and its fork handlers, before the first call.
void prepare_threads() noexcept;

// Changes when this process is forked from another. The threads stay behind then, and what they had begun is not done.
int forks() noexcept;

// Whether help comes at once, as a call was shared a moment ago.
bool threads_are_awake() noexcept;

// Lets a long call be left before its end. What it has written by then is for nobody.
class Stop {
 public:
  // `ask` says whether to stop. It is called on the thread that makes this object: once `first` has passed, then now and then.
  Stop(bool (*ask)(void* context) noexcept, void* context,
       std::chrono::milliseconds first = std::chrono::milliseconds(5)) noexcept
      : ask_(ask), context_(context), first_(first) {}

  // Whether to stop before the next task. Asked by any thread that works on the call.
  bool reached() noexcept;

  // The same before the next block of positions. Looks at the clock every 16 blocks, or before each while blocks are slow, as if
  // their memory were read from a disk.
  struct Pace {
    int blocks = 0, looks = 0;  // until the clock is looked at, and how often it was
    std::chrono::nanoseconds looked{};
  };
  bool reached(Pace& pace) noexcept { return --pace.blocks < 0 && look(pace); }

  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }

 private:
  bool look(Pace& pace) noexcept;

  bool (*ask_)(void*) noexcept;
  void* context_;
  const std::chrono::milliseconds first_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::nanoseconds next_{};  // when the caller's thread asks
  std::atomic<bool> wanted_{false};
};

// Calls work(worker, task) for every task in [0, tasks), on the caller's thread (worker 0) and at most workers - 1
// others. Returns when all are done, or when `stop` (if not null) is reached and those that were begun are done. Where
// the team is busy with another call, the caller does all of it. A worker begins with a range of its own, in order, so
// that call after call it finds the same in its caches, and helps with the others when that is done.
using Task = void (*)(void* context, int worker, Size task) noexcept;
void share(int workers, Size tasks, Stop* stop, Task run, void* context) noexcept;

template <class Work>
void share(int workers, Size tasks, Stop* stop, Work&& work) noexcept {
  share(
      workers, tasks, stop,
      [](void* context, int worker, Size task) noexcept {
        (*static_cast<std::remove_reference_t<Work>*>(context))(worker, task);
      },
      &work);
}

}  // namespace ndgather
