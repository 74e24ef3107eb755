// arrays.cpp - see arrays.h.
#include "arrays.h"

#include <algorithm>
#include <cstdlib>

#include "../pool.h"

namespace ndgather {
namespace {

PyObject* memory_handler;  // a PyDataMem_Handler capsule over pool.h

void* handler_malloc(void*, std::size_t bytes) { return pool::allocate(bytes); }
void* handler_calloc(void*, std::size_t count, std::size_t size) {
  return pool::allocate_zeroed(count * size);
}
void* handler_realloc(void*, void* block, std::size_t bytes) {
  return pool::resize(block, bytes);
}
void handler_free(void*, void* block, std::size_t) { pool::release(block); }

PyDataMem_Handler handler = {
    "ndgather", 1, {nullptr, handler_malloc, handler_calloc, handler_realloc, handler_free}};

Array view(PyArrayObject* of) {
  return {static_cast<char*>(PyArray_DATA(of)), PyArray_NDIM(of),
          reinterpret_cast<const Size*>(PyArray_DIMS(of)),
          reinterpret_cast<const Size*>(PyArray_STRIDES(of))};
}

bool has_no_elements(const Array& of) {
  return std::find(of.shape, of.shape + of.rank, 0) != of.shape + of.rank;
}

// True unless the strides surely keep the elements of `of` apart: sorted by size, each stride steps over all
// that the smaller ones reach.
bool may_overlap_itself(const Array& of, Size element) {
  struct Reach {
    Size stride, size;
  } dims[kMaxRank];
  if (has_no_elements(of)) return false;
  int rank = 0;
  for (int d = 0; d < of.rank; ++d) {
    if (of.shape[d] > 1) dims[rank++] = {std::abs(of.strides[d]), of.shape[d]};
  }
  std::sort(dims, dims + rank, [](const Reach& a, const Reach& b) { return a.stride < b.stride; });
  Size covered = element;
  for (int d = 0; d < rank; ++d) {
    if (dims[d].stride < covered) return true;
    covered += (dims[d].size - 1) * dims[d].stride;
  }
  return false;
}

}  // namespace

void ShapeSnapshot::take(PyArrayObject* of) {
  const Array now = view(of);
  array_.bytes = now.bytes;
  array_.rank = now.rank;
  std::copy_n(now.shape, now.rank, shape_);
  // Strides that nobody steps by may be any number, too large to be multiplied: they are 0 here.
  const bool none = has_no_elements(now);
  for (int d = 0; d < now.rank; ++d) {
    strides_[d] = none || shape_[d] == 1 ? 0 : now.strides[d];
  }
}

bool ShapeSnapshot::has_shape(const Shape& shape) const {
  return array_.rank == shape.rank && std::equal(shape_, shape_ + shape.rank, shape.size);
}

PyObject* ShapeSnapshot::shape_tuple() const { return ndgather::shape_tuple(shape_, array_.rank); }

PyObject* shape_tuple(const Size* shape, Size rank) {
  PyObject* tuple = PyTuple_New(rank);
  for (Size d = 0; tuple != nullptr && d < rank; ++d) {
    PyObject* size = PyLong_FromSsize_t(shape[d]);
    if (size == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, d, size);
  }
  return tuple;
}

Extent extent_of(PyArrayObject* array) {
  const Array of = view(array);
  if (has_no_elements(of)) return {of.bytes, of.bytes};
  Extent extent{of.bytes, of.bytes + PyArray_ITEMSIZE(array)};
  for (int d = 0; d < of.rank; ++d) {
    const Size reach = (of.shape[d] - 1) * of.strides[d];
    (reach < 0 ? extent.begin : extent.end) += reach;
  }
  return extent;
}

bool same_memory(PyArrayObject* a, PyArrayObject* b) {
  const Array first = view(a), second = view(b);
  return first.bytes == second.bytes && first.rank == second.rank &&
         std::equal(first.shape, first.shape + first.rank, second.shape) &&
         std::equal(first.strides, first.strides + first.rank, second.strides);
}

Refusal make_array(PyArrayObject* like, const Shape& shape, PyArrayObject*& made) {
  Size bytes = PyArray_ITEMSIZE(like);
  bool empty = false;
  for (int d = 0; d < shape.rank; ++d) {
    empty |= shape.size[d] == 0;
    if (shape.size[d] == 0) continue;  // NumPy wants the others to stay within bounds all the same
    if (bytes > PTRDIFF_MAX / shape.size[d]) return {Rule::result_size};
    bytes *= shape.size[d];
  }
  void* block = nullptr;
  if (!empty && bytes >= static_cast<Size>(pool::kLarge)) {
    // Without such a block NumPy is asked, and finds the words where it has no memory either.
    block = pool::allocate(static_cast<std::size_t>(bytes));
  }
  PyArray_Descr* descr = PyArray_DESCR(like);
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  made = array(PyArray_NewFromDescr(
      &PyArray_Type, descr, shape.rank, reinterpret_cast<const npy_intp*>(shape.size), nullptr, block,
      block == nullptr ? 0 : NPY_ARRAY_CARRAY, nullptr));
  if (made == nullptr) {
    pool::release(block);
    return {Rule::raised};
  }
  if (block != nullptr) {
    // The array owns its memory. Going by NumPy's current handler instead, set before and set back after,
    // would leave ours in place for all arrays to come where the way back finds no memory.
    reinterpret_cast<PyArrayObject_fields*>(made)->mem_handler = Py_NewRef(memory_handler);
    PyArray_ENABLEFLAGS(made, NPY_ARRAY_OWNDATA);
  }
  return {};
}

Refusal check_out(PyObject* out, PyArrayObject* like, const Shape& shape) {
  if (!PyArray_CheckExact(out)) return {PyArray_Check(out) ? Rule::fallback : Rule::out_type};
  const Array of = view(array(out));
  if (!PyArray_EquivTypes(PyArray_DESCR(array(out)), PyArray_DESCR(like))) return {Rule::out_dtype};
  if (of.rank != shape.rank || !std::equal(of.shape, of.shape + of.rank, shape.size)) {
    return {Rule::out_shape};
  }
  if (!PyArray_ISWRITEABLE(array(out))) return {Rule::out_read_only};
  if (may_overlap_itself(of, PyArray_ITEMSIZE(array(out)))) return {Rule::out_overlaps_itself};
  return {};
}

bool make_memory_handler() {
  memory_handler = PyCapsule_New(&handler, "mem_handler", nullptr);
  return memory_handler != nullptr;
}

}  // namespace ndgather
