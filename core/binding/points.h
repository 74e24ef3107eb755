// points.h - functions for arrays that are stored in chunks: points are sorted by chunk, and moved chunk by chunk.
#pragma once

#include "../group.h"
#include "python.h"

namespace ndgather {

// Reads where axis d is cut. False: a Python exception is set.
bool read_axis(PyObject* steps, int d, Size size, GridAxis& axis);

PyObject* sort_points_by_name(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* move_points(PyObject*, PyObject* args);

}  // namespace ndgather
