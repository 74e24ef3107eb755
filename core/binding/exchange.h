// exchange.h - calls on arrays of other libraries, in the memory of the CPU, which are exchanged in C by DLPack.
#pragma once

#include "arguments.h"

namespace ndgather {

// accept_exchange(type, gradient, records, negated, conjugated, transforms, written, bytes): from now on calls with
// arguments of exactly this type are carried out here. False where the type offers no exchange.
PyObject* accept_exchange(PyObject*, PyObject* arguments);

// Carries out a call, as run() does. The result is of the kind of `data`. Refused by Rule::fallback where an argument
// is neither of NumPy nor of an accepted type, or more than a piece of memory.
PyObject* run_exchanged(Kind kind, PyObject* const* given);

}  // namespace ndgather
