// points.cpp - functions for arrays that are stored in chunks: sorting points by chunk, and moving the points of a chunk.
#include <algorithm>

#include "../group.h"
#include "call.h"
#include "gil.h"

namespace ndgather {
namespace {

// Plans a move: sets the slices of both arrays, and the dims that places and positions refer to.
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
  move.plan.loop_rank = positions;
  for (int d = 0; d < positions; ++d) move.plan.loop[d] = {dense.shape[d], 0, 0, dense.strides[d]};
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
    move.plan.slice[d] = {size, 0, written.strides[first_written + d], read.strides[first_read + d]};
  }
  simplify(move.plan);
  return true;
}

// Reads how axis d is divided into chunks. Returns false with a Python exception set if the steps do not match its size.
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

// A gather whose data is stored elsewhere. Only the shape of the `data` argument is used.
class PointCall : Call {
 public:
  PointCall(Kind kind, PyObject* const* given) : Call(kind, given) {}
  PyObject* sort(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions);

 private:
  Refusal plan_points(PyObject* steps, PointGrid& grid);
  bool fits(const PointGrid& grid, Size begin, PyArrayObject* places, PyArrayObject* positions) const {
    const Size n = PyArray_SIZE(positions);
    return begin >= 0 && n <= plan_.positions - begin && n <= Size{UINT32_MAX} && PyArray_ITEMSIZE(positions) == 4 &&
           PyArray_SIZE(places) == n && PyArray_ITEMSIZE(places) == (grid.is_wide() ? 8 : 4) && PyArray_ISCARRAY(places) &&
           PyArray_ISCARRAY(positions);
  }
};

PyObject* PointCall::sort(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions) {
  Refusal refusal = read_arguments();
  if (!refusal && library_ != nullptr) return do_not_fit("indices");  // nothing keeps their memory alive
  PointGrid grid;
  if (!refusal) refusal = plan_points(steps, grid);
  const Size n = PyArray_SIZE(positions);
  if (!refusal && !fits(grid, begin, places, positions)) return do_not_fit("places or positions");
  bool inside = true;
  SortedPoints sorted(refusal ? 0 : n);
  if (!sorted.memory) return PyErr_NoMemory();
  if (!refusal) {
    GilRelease release(static_cast<double>(n) * 20, false);
    inside = ndgather::sort_points(plan_, grid, begin, sorted, PyArray_BYTES(places),
                                   static_cast<std::uint32_t*>(PyArray_DATA(positions)));
  }
  if (!inside) refusal = first_bad();
  if (refusal) return refused(refusal);
  npy_intp count = sorted.groups;
  PyObject* chunks = PyArray_SimpleNew(1, &count, NPY_INTP);
  PyObject* starts = PyArray_SimpleNew(1, &count, NPY_INTP);
  if (chunks != nullptr && starts != nullptr) {
    list_groups(sorted, static_cast<Size*>(PyArray_DATA(array(chunks))), static_cast<Size*>(PyArray_DATA(array(starts))));
  }
  return Py_BuildValue("(NN)", chunks, starts);
}

// Plans offsets that contain the coordinates on the axes that determine a chunk: the axes of index tuples, all axes for
// gather_elements, and otherwise the batch axes and the gathered axis.
Refusal PointCall::plan_points(PyObject* steps, PointGrid& grid) {
  const Array& data = data_.array();
  const Array& indices = indices_.array();
  const bool tuples = kind_ == Kind::gather_nd, elements = kind_ == Kind::gather_elements;
  const Size depth = tuples ? indices.shape[indices.rank - 1] : 1;
  grid.rank = elements ? data.rank : static_cast<int>(options_.batch_dims + depth);
  Size shape[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < grid.rank; ++d) {
    shape[d] = data.shape[tuples || elements || d < options_.batch_dims ? d : options_.axis];
    if (!read_axis(steps, d, shape[d], grid.axis[d])) return {Rule::raised};
  }
  if (!grid.complete()) {
    PyErr_SetString(PyExc_ValueError, "the coordinates have more than 63 bits");
    return {Rule::raised};
  }
  for (int d = 0; d < grid.rank; ++d) strides[d] = shape[d] > 1 ? Size{1} << grid.axis[d].shift : 0;
  Options local = options_;  // in terms of these axes
  if (kind_ == Kind::gather) local.axis = options_.batch_dims;
  plan_coordinates({nullptr, grid.rank, shape, strides}, local);
  return {};
}

}  // namespace

PyObject* sort_points(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Given given;
  if (count != 5 || !PyTuple_Check(args[1]) || !is_vector(args[4], NPY_UINT32) ||
      (!is_vector(args[3], NPY_UINT32) && !is_vector(args[3], NPY_UINT64))) {
    return do_not_fit();
  }
  const Size begin = PyLong_AsSsize_t(args[2]);
  if ((begin == -1 && PyErr_Occurred()) || !given.read(args[0])) return nullptr;
  if (!given.is_gather_of_arrays()) return refused_for_python();
  return begun_anew_in_a_child([&] {
    PointCall call(given.kind, given.each);
    return or_sleep([&] { return call.sort(args[1], begin, array(args[3]), array(args[4])); });
  });
}

PyObject* move_points(PyObject*, PyObject* args) {
  PyObject *chunk_array, *dense_array, *bits, *places, *positions, *starts, *stops, *reduction, *arithmetic;
  Size block;
  if (!PyArg_ParseTuple(args, "O!O!O!OOnOOOO", &PyArray_Type, &chunk_array, &PyArray_Type, &dense_array, &PyTuple_Type, &bits,
                        &places, &positions, &block, &starts, &stops, &reduction, &arithmetic)) {
    return nullptr;
  }
  View chunk, dense;
  chunk.take(array(chunk_array));
  dense.take(array(dense_array));
  PointMove move;
  move.to_dense = reduction == Py_None;
  const int which = move.to_dense ? 0 : position_among(reduction, reduction_names);
  ElementType type = ElementType::opaque;
  PyArrayObject* const written = array(move.to_dense ? dense_array : chunk_array);
  const Size element = PyArray_ITEMSIZE(written);
  if (which < 0 || element == 0 || !PyArray_ISWRITEABLE(written) || PyDataType_REFCHK(PyArray_DESCR(written)) ||
      !PyArray_EquivTypes(PyArray_DESCR(array(chunk_array)), PyArray_DESCR(array(dense_array))) ||
      (which > 0 && !read_element_type(chunk, arithmetic, move.plan, type))) {
    return do_not_fit("arrays");
  }
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
    const DefaultEnvironment environment(which > 0);
    for (Size r = 0; r < runs && inside; ++r) {
      const Size first = start[r], end = stop[r];  // read only once, because another thread may change them
      inside = first >= 0 && first <= end && end <= n &&
               (move.plan.slice_bytes() == 0 || move.run(PyArray_BYTES(array(places)) + first * (move.is_wide ? 8 : 4),
                                                         position + first, end - first, first / block * block));
    }
  }
  if (!inside) return do_not_fit("points");
  Py_RETURN_NONE;
}

}  // namespace ndgather
