// gil.h - releasing the GIL during long work, and handling signals meanwhile.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

#include "../threads.h"
#include "arrays.h"

namespace ndgather {

inline constexpr double kReleaseFrom = 10'000;  // nanoseconds; for shorter work, releasing the GIL takes too long
inline constexpr double kLookFrom = 1000;       // nanoseconds; shorter work does not read the clock

inline std::atomic<unsigned long> main_thread;  // Python's main thread, the only thread that handles signals

// Runs work that may wait for the GIL. When the interpreter exits, Python 3.13 and earlier unwind daemon threads that wait
// for the GIL, and destructors would release Python objects without the GIL. So the threads sleep here, as in Python 3.14.
template <class Work>
auto or_sleep(Work work) {
  try {
    return work();
  } catch (...) {  // no other exceptions are thrown, and leaving this block would terminate the process
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Releases the GIL during work that is long enough. If the work may stop early, the GIL is reacquired from time to time to
// find out whether a signal handler raises an exception or forks.
class GilRelease {
 public:
  GilRelease(double nanoseconds, bool may_stop)
      : may_stop_(may_stop && main_thread == PyThread_get_thread_ident()),
        state_(nanoseconds >= kReleaseFrom ? PyEval_SaveThread() : nullptr) {}
  // Waiting for the GIL may unwind the thread; see or_sleep().
  ~GilRelease() noexcept(false) {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  Stop* stop() noexcept { return may_stop_ || state_ == nullptr ? &stop_ : nullptr; }

 private:
  static bool must_stop(void* self) noexcept {
    return or_sleep([release = static_cast<GilRelease*>(self)] {
      if (release->state_ != nullptr && !release->may_stop_) return false;
      if (release->state_ != nullptr) PyEval_RestoreThread(std::exchange(release->state_, nullptr));
      const int before = forks();
      const bool must = release->may_stop_ && (PyErr_CheckSignals() < 0 || forks() != before);
      release->state_ = PyEval_SaveThread();
      return must;
    });
  }

  bool may_stop_;
  PyThreadState* state_;
  Stop stop_{must_stop, this};
};

// Repeats a call in a forked child. A signal handler may fork in the middle of a call. The child has lost the other threads
// and their unfinished tasks, so it stops as if the handler had raised an exception, and starts again. Handlers run only
// while the call writes to its own memory.
template <class Attempt>
PyObject* begun_anew_in_a_child(Attempt attempt) {
  for (;;) {
    const int before = forks();
    PyObject* const result = attempt();
    if (result != nullptr || forks() == before || PyErr_Occurred() != nullptr) return result;
  }
}

// Runs `work`, which is estimated to take `nanoseconds`. The GIL is released from the start if the estimate is long enough,
// and otherwise after 5 ms; work below 1 us never releases it. Returns true if a signal handler raised an exception, or if
// this is a child that the handler forked. In both cases, the output of the work is meaningless.
template <class Work>
bool stopped(double nanoseconds, bool may_stop, Work work) {
  if (nanoseconds < kLookFrom) {
    work(static_cast<Stop*>(nullptr));
    return false;
  }
  GilRelease release(nanoseconds, may_stop);
  Stop* const stop = release.stop();
  work(stop);
  return stop != nullptr && stop->wanted();
}

}  // namespace ndgather
