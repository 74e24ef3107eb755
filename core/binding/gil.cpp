// gil.cpp - see gil.h.
#include "gil.h"

#include <atomic>
#include <utility>

namespace ndgather {
namespace {

std::atomic<unsigned long> main_thread;

}  // namespace

bool find_main_thread() {
  PyObject* const threading = PyImport_ImportModule("threading");
  PyObject* const main = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
  PyObject* const ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
  if (ident != nullptr) main_thread = PyLong_AsUnsignedLong(ident);
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
#ifdef NDGATHER_HAS_FORK
  // The thread that forks becomes the main thread of the child.
  pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
#endif
  return PyErr_Occurred() == nullptr;
}

GilRelease::GilRelease(double nanoseconds, bool may_stop)
    : may_stop_(may_stop && main_thread == PyThread_get_thread_ident()),
      state_(nanoseconds >= kReleaseFrom ? PyEval_SaveThread() : nullptr) {}

bool GilRelease::must_stop(void* self) noexcept {
  return or_sleep([release = static_cast<GilRelease*>(self)] {
    if (release->state_ != nullptr && !release->may_stop_) return false;
    if (release->state_ != nullptr) PyEval_RestoreThread(std::exchange(release->state_, nullptr));
    const int before = forks();
    const bool must = release->may_stop_ && (PyErr_CheckSignals() < 0 || forks() != before);
    release->state_ = PyEval_SaveThread();
    return must;
  });
}

}  // namespace ndgather
