// fast_call.h - the public functions, which call the core without a frame of Python: such a frame costs as
// much as a small gather.
#pragma once

#include "python.h"

namespace ndgather {

// fast_call(kind, answer, misuse, names, required, positional, defaults, doc, module): the public function
// of a kind.
PyObject* make_fast_call(PyObject*, PyObject* arguments);

}  // namespace ndgather
