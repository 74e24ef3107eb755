// python.h - the headers of Python and NumPy, which only the binding includes.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ndgather_numpy_api
#ifndef NDGATHER_IMPORTS_NUMPY  // module.cpp defines it, because it imports NumPy's function table
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../plan.h"

namespace ndgather {

static_assert(kMaxRank == NPY_MAXDIMS);
static_assert(sizeof(npy_intp) == sizeof(Size));

inline PyArrayObject* array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }
inline PyObject* object(PyArrayObject* array) { return reinterpret_cast<PyObject*>(array); }

}  // namespace ndgather
