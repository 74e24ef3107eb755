// functions.h - the functions of the module that have a file of their own; see _core.pyi.
#pragma once

#include "python.h"

namespace ndgather {

PyObject* make_fast_call(PyObject*, PyObject* arguments);
PyObject* accept_exchange(PyObject*, PyObject* arguments);
PyObject* sort_points(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* move_points(PyObject*, PyObject* arguments);

// A capsule for jax.ffi.register_ffi_target and the version of XLA's interface that it was built for, as two numbers.
PyObject* make_jax_handler();

}  // namespace ndgather
