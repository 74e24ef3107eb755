// jax_ffi.h - the function that XLA calls for gathers and scatters of JAX on a CPU.
#pragma once

#include "python.h"

namespace ndgather {

// A capsule for jax.ffi.register_ffi_target and the version of XLA's interface that it was built for, as two numbers;
// a new reference.
PyObject* make_jax_handler();

}  // namespace ndgather
