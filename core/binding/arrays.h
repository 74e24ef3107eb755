// arrays.h - what a call has to know of NumPy arrays: their bytes, shapes and strides, and new ones.
#pragma once

#include "python.h"

namespace ndgather {

// A view with a shape and strides of its own: another thread may set the shape of an array whenever the GIL
// is given up, or a finaliser while the result is allocated.
class ShapeSnapshot {
 public:
  ShapeSnapshot() = default;
  ShapeSnapshot(const ShapeSnapshot&) = delete;
  ShapeSnapshot& operator=(const ShapeSnapshot&) = delete;

  void take(PyArrayObject* of);
  const Array& array() const { return array_; }
  bool has_shape(const Shape& shape) const;
  PyObject* shape_tuple() const;  // () before it is taken

 private:
  Size shape_[kMaxRank], strides_[kMaxRank];
  Array array_{nullptr, 0, shape_, strides_};
};

PyObject* shape_tuple(const Size* shape, Size rank);

// The bytes that an array may touch.
struct Extent {
  const char* begin;
  const char* end;
  bool meets(const Extent& other) const {
    return begin < other.end && other.begin < end && begin != end && other.begin != other.end;
  }
};
Extent extent_of(PyArrayObject* of);

bool same_memory(PyArrayObject* a, PyArrayObject* b);

// A new array of the type of `like`; large ones live in reusable memory. Refused: `made` is not set.
Refusal make_array(PyArrayObject* like, const Shape& shape, PyArrayObject*& made);

// Whether a given `out` can take a result of this type and shape, and shares no memory with itself.
Refusal check_out(PyObject* out, PyArrayObject* like, const Shape& shape);

// Makes NumPy's interface to pool.h, once in a process. False: a Python exception is set.
bool make_memory_handler();

}  // namespace ndgather
