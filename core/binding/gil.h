// gil.h - giving up the GIL around long work, and looking for signals meanwhile.
#pragma once

#include <thread>

#include "../threads.h"
#include "python.h"

namespace ndgather {

// In nanoseconds. Shorter work keeps the GIL: giving it up and taking it back costs as much.
inline constexpr double kReleaseFrom = 10'000;

// Shorter work does not look at the clock.
inline constexpr double kLookFrom = 1000;

// Gives up the GIL around work that is worth it, and takes it back now and then during work that may be left
// half done, to see whether a signal handler raises or forks.
class GilRelease {
 public:
  GilRelease(double nanoseconds, bool may_stop);
  // Waiting for the GIL may unwind the thread: see `or_sleep`.
  ~GilRelease() noexcept(false) {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  Stop* stop() noexcept { return may_stop_ || state_ == nullptr ? &stop_ : nullptr; }

 private:
  static bool must_stop(void* self) noexcept;

  bool may_stop_;
  PyThreadState* state_;
  Stop stop_{must_stop, this};
};

// Does work that may wait for the GIL. When the interpreter ends, up to Python 3.13, such a wait unwinds a daemon thread, whose
// destructors would then release Python objects without the GIL. The thread sleeps instead, as from Python 3.14 on.
template <class Work>
auto or_sleep(Work work) {
  try {
    return work();
  } catch (...) {  // nothing else is thrown; to leave this block would end the process
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Asks which thread of Python is the main one, as only its calls look for signals. False: a Python exception is set.
bool find_main_thread();

// A signal handler may fork in the middle of a call. The child has lost the other threads and what they had begun: it
// leaves the call as if the handler had raised, and begins it anew. Handlers run only while nothing is written that is
// not the call's own.
template <class Attempt>
PyObject* begun_anew_in_a_child(Attempt attempt) {
  for (;;) {
    const int before = forks();
    PyObject* const result = attempt();
    if (result != nullptr || forks() == before || PyErr_Occurred() != nullptr) return result;
  }
}

// Does `work`, without the GIL where that is worth it, or once it has taken 5 ms whatever was estimated; 0 nanoseconds: with the
// GIL to the end. True: a signal handler has raised an exception, or this is the child that it forked, and what was done means
// nothing.
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
