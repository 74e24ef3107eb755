// gil.cpp - see gil.h.
#include "gil.h"

namespace ndgather {
namespace {

// In nanoseconds. Shorter work does not look for signals.
constexpr double kStopFrom = 20'000'000;
static_assert(kReleaseFrom <= kStopFrom);

bool ask_for_main_thread() {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* main = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
  PyObject* ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
  const bool is_main = ident != nullptr && PyLong_Check(ident) && PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();
  PyErr_Clear();
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
  return is_main;
}

// Signal handlers run on the main thread alone, so only its calls look for signals. Asked once, as it runs Python code:
// a handler may raise within, which would then be lost. In a forked child another thread may be the main one.
bool is_main_thread() {
  thread_local int asked = -1;
  thread_local bool is_main = false;
  if (asked != forks()) {
    asked = forks();
    is_main = ask_for_main_thread();
  }
  return is_main;
}

}  // namespace

GilRelease::GilRelease(double nanoseconds, bool may_stop)
    : stops_(may_stop && nanoseconds >= kStopFrom && is_main_thread()),
      state_(nanoseconds >= kReleaseFrom ? PyEval_SaveThread() : nullptr) {}

bool GilRelease::must_stop(void* self) noexcept {
  PyThreadState*& state = static_cast<GilRelease*>(self)->state_;
  PyEval_RestoreThread(state);
  const int before = forks();
  const bool must = PyErr_CheckSignals() < 0 || forks() != before;
  state = PyEval_SaveThread();
  return must;
}

}  // namespace ndgather
