// points.cpp - see points.h.
#include "points.h"

#include <algorithm>

#include "arrays.h"
#include "calls.h"
#include "gil.h"

namespace ndgather {
namespace {

PyObject* do_not_fit(const char* what) { return PyErr_Format(PyExc_ValueError, "%s do not fit", what); }

bool is_vector(PyObject* object, int type) {
  return PyArray_CheckExact(object) && PyArray_TYPE(array(object)) == type && PyArray_NDIM(array(object)) == 1 &&
         PyArray_ISCARRAY_RO(array(object));
}

// What is moved: the slice of both arrays, and the dims that places and positions go by.
bool plan_move(PointMove& move, const Array& chunk, const Array& dense, PyObject* bits, Size element) {
  move.chunk_rank = static_cast<int>(PyTuple_Size(bits));
  const int slices = chunk.rank - move.chunk_rank, positions = dense.rank - slices;
  if (slices < 0 || positions < 0) return false;
  int all = 0;
  for (int d = 0; d < move.chunk_rank; ++d) {
    const long each = PyLong_AsLong(PyTuple_GetItem(bits, d));
    if (each < 0 || each > 63 || (all += static_cast<int>(each)) > 63) return false;
    move.chunk[d] = {chunk.shape[d], chunk.strides[d], static_cast<int>(each)};
  }
  move.is_wide = all > 32;
  for (int d = 0; d < positions; ++d) {
    PointMove::Dim* last = move.dense + move.dense_rank - 1;
    if (move.dense_rank > 0 && last->stride == dense.shape[d] * dense.strides[d]) {
      *last = {last->size * dense.shape[d], dense.strides[d], 0};
    } else {
      move.dense[move.dense_rank++] = {dense.shape[d], dense.strides[d], 0};
    }
  }
  if (move.dense_rank == 0) move.dense[move.dense_rank++] = {1, 0, 0};
  const Array& written = move.to_dense ? dense : chunk;
  const Array& read = move.to_dense ? chunk : dense;
  const int first_written = written.rank - slices, first_read = read.rank - slices;
  move.plan.indexed = written.bytes;
  move.plan.dense = read.bytes;
  move.plan.element = move.plan.width = element;
  move.plan.slice_rank = slices;
  for (int d = 0; d < slices; ++d) {
    const Size size = written.shape[first_written + d];
    if (size != read.shape[first_read + d]) return false;
    move.plan.slice[d] = {size, written.strides[first_written + d], read.strides[first_read + d]};
  }
  simplify(move.plan);
  return true;
}

}  // namespace

bool read_axis(PyObject* steps, int d, Size size, GridAxis& axis) {
  PyObject* step = d < PyTuple_Size(steps) ? PyTuple_GetItem(steps, d) : nullptr;
  axis = {size, 0, 0, nullptr, 0, 0, 0, 0};
  if (step != nullptr && PyLong_Check(step)) {
    axis.step = PyLong_AsSsize_t(step);
    axis.chunks = axis.step > 0 ? size / axis.step + (size % axis.step != 0) : 0;
    if (axis.step > 0) return true;
  } else if (step != nullptr && is_vector(step, NPY_INTP) && PyArray_SIZE(array(step)) > 0) {
    axis.cuts = static_cast<const Size*>(PyArray_DATA(array(step)));
    axis.chunks = PyArray_SIZE(array(step)) - 1;
    const Size* const end = axis.cuts + axis.chunks;
    if (*axis.cuts == 0 && *end == size && std::is_sorted(axis.cuts, end + 1)) return true;
  }
  if (!PyErr_Occurred()) do_not_fit("steps");
  return false;
}

PyObject* sort_points_by_name(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 5 + kArgumentCount || !PyTuple_Check(args[1]) || !is_vector(args[4], NPY_UINT32) ||
      (!is_vector(args[3], NPY_UINT32) && !is_vector(args[3], NPY_UINT64))) {
    return do_not_fit("arguments");
  }
  const int kind = position_among(args[0], kind_names);
  const Size begin = PyLong_AsSsize_t(args[2]);
  if (kind < 0 || scatters(static_cast<Kind>(kind))) return do_not_fit("kind");
  if (begin == -1 && PyErr_Occurred()) return nullptr;
  return sort_points(static_cast<Kind>(kind), args + 5, args[1], begin, array(args[3]), array(args[4]));
}

PyObject* move_points(PyObject*, PyObject* args) {
  PyObject *chunk_array, *dense_array, *bits, *places, *positions, *starts, *stops, *reduction, *arithmetic;
  Size block;
  if (!PyArg_ParseTuple(args, "O!O!O!OOnOOOO", &PyArray_Type, &chunk_array, &PyArray_Type, &dense_array, &PyTuple_Type,
                        &bits, &places, &positions, &block, &starts, &stops, &reduction, &arithmetic)) {
    return nullptr;
  }
  PointMove move;
  move.to_dense = reduction == Py_None;
  const int which = move.to_dense ? 0 : position_among(reduction, reduction_names);
  ElementType type = ElementType::opaque;
  PyArrayObject* const written = array(move.to_dense ? dense_array : chunk_array);
  const Size element = PyArray_ITEMSIZE(written);
  if (which < 0 || element == 0 || !PyArray_ISWRITEABLE(written) || PyDataType_REFCHK(PyArray_DESCR(written)) ||
      !PyArray_EquivTypes(PyArray_DESCR(array(chunk_array)), PyArray_DESCR(array(dense_array))) ||
      (which > 0 && !read_element_type(array(chunk_array), arithmetic, move.plan, type))) {
    return do_not_fit("arrays");
  }
  View chunk, dense;
  chunk.take(array(chunk_array));
  dense.take(array(dense_array));
  if (!plan_move(move, chunk.array(), dense.array(), bits, element)) {
    if (PyErr_Occurred()) return nullptr;
    return do_not_fit("shapes");
  }
  move.store = loops().pick_store(move.plan, static_cast<Reduction>(which), type, false);
  if (move.store == nullptr || block <= 0 || !is_vector(places, move.is_wide ? NPY_UINT64 : NPY_UINT32) ||
      !is_vector(positions, NPY_UINT32) || !is_vector(starts, NPY_INTP) || !is_vector(stops, NPY_INTP) ||
      PyArray_SIZE(array(starts)) != PyArray_SIZE(array(stops)) ||
      PyArray_SIZE(array(places)) != PyArray_SIZE(array(positions))) {
    return do_not_fit("points");
  }
  const Size runs = PyArray_SIZE(array(starts)), n = PyArray_SIZE(array(places));
  const auto* const start = static_cast<const Size*>(PyArray_DATA(array(starts)));
  const auto* const stop = static_cast<const Size*>(PyArray_DATA(array(stops)));
  const auto* const position = static_cast<const std::uint32_t*>(PyArray_DATA(array(positions)));
  bool inside = true;
  {
    GilRelease release(1e9, false);
    for (Size r = 0; r < runs && inside; ++r) {
      inside = start[r] >= 0 && start[r] <= stop[r] && stop[r] <= n &&
               (move.plan.slice_bytes() == 0 ||
                move.run(PyArray_BYTES(array(places)) + start[r] * (move.is_wide ? 8 : 4), position + start[r],
                         stop[r] - start[r], start[r] / block * block));
    }
  }
  if (!inside) return do_not_fit("points");
  Py_RETURN_NONE;
}

}  // namespace ndgather
