// threads.h - the threads of the core. They are created when first needed, sleep between calls, and are recreated after a
// fork.
#pragma once

#include <atomic>
#include <cfenv>
#include <chrono>
#include <thread>
#include <type_traits>

#include "tuning.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define NDGATHER_HAS_FORK
#endif

namespace ndgather {

int threads() noexcept;

// Also ends a pause, see usable_threads(), so that the next call uses this number of threads.
void set_threads(int count) noexcept;

// Returns how many threads a call may use now. Returns 1 for a while if callers had to wait for an interrupted thread.
int usable_threads() noexcept;

// Creates the team and its fork handlers, before the first call.
void prepare_threads() noexcept;

// Returns a number that differs in a forked child, where the threads and unfinished tasks do not exist.
int forks() noexcept;

// Whether threads are still awake because a call was shared a moment ago.
bool threads_are_awake() noexcept;

// Allows a long call to stop early. The caller then discards its output.
class Stop {
 public:
  // `ask` returns whether to stop. The thread that creates this object calls it for the first time after `first`, and then
  // repeatedly.
  Stop(bool (*ask)(void* context) noexcept, void* context,
       std::chrono::milliseconds first = std::chrono::milliseconds(5)) noexcept
      : ask_(ask), context_(context), first_(first) {}

  // Whether to stop before the next task. Any thread that works on the call may ask.
  bool reached() noexcept;

  // Whether to stop before the next block of positions. Reads the clock every 16 blocks, or before each block while blocks
  // are slow, for example because their memory is read from disk.
  struct Pace {
    int blocks = 0, looks = 0;  // number of blocks until the clock is read next, and number of times it has been read
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
  std::chrono::nanoseconds next_{};  // when to call ask_ again
  std::atomic<bool> wanted_{false};
};

// Calls work(worker, task) for every task in [0, tasks), on the caller's thread (worker 0) and at most workers - 1 others.
// Returns after all tasks are done or, if `stop` is not null and requests it, after all started tasks are done. If the team
// is busy with another call, the caller does all tasks. Each worker first executes its own range of tasks, so that its caches
// hold the same data in successive calls, and then tasks of other ranges.
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

// Whether this thread rounds to nearest, keeps subnormal numbers, and traps no exceptions. May return false even if it does.
inline bool has_default_environment() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  unsigned short x87;  // used for long double
  asm volatile("fnstcw %0" : "=m"(x87));
  return (_mm_getcsr() & 0xffc0u) == 0x1f80u && (x87 & 0x0f3f) == 0x033f;
#else
  return false;
#endif
}

// Sets the default environment and later restores the caller's. The caller's environment may flush subnormal numbers to zero,
// as after torch.set_flush_denormal or in XLA's threads, or use another rounding mode.
class DefaultEnvironment {
 public:
  explicit DefaultEnvironment(bool wanted = true) noexcept : changed_(wanted && !has_default_environment()) {
    if (!changed_) return;
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultEnvironment() {
    if (changed_) std::fesetenv(&callers_);
  }
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
  bool changed_;
  std::fenv_t callers_;
};

}  // namespace ndgather
