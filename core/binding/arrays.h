// arrays.h - views of arrays, and new NumPy arrays.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ndgather_numpy_api
#ifndef NDGATHER_IMPORTS_NUMPY  // defined by module.cpp, which imports NumPy's function table
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../plan.h"
#include "dlpack.h"

namespace ndgather {

static_assert(kMaxRank == NPY_MAXDIMS);
static_assert(sizeof(npy_intp) == sizeof(Size));

inline PyArrayObject* array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }
inline PyObject* object(PyArrayObject* array) { return reinterpret_cast<PyObject*>(array); }

// The range of bytes that contains all elements of an array.
struct Extent {
  const char* begin;
  const char* end;
  bool meets(const Extent& other) const {
    return begin < other.end && other.begin < end && begin != end && other.begin != other.end;
  }
};

inline constexpr char kBfloat = 'B';  // NumPy has no letter for this kind

// A view of an array of NumPy or of another library. It copies the shape and strides, because other threads may change
// the shape of an array while the GIL is released, and finalizers may change it while the result is allocated.
class View {
 public:
  View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Views a new array without copying its shape, which nobody else can change.
  void borrow(PyArrayObject* of) {
    numpy_ = of;
    array_ = {static_cast<char*>(PyArray_DATA(of)), PyArray_NDIM(of), PyArray_DIMS(of), PyArray_STRIDES(of)};
  }
  void take(PyArrayObject* of);
  // Returns false if the CPU cannot read the tensor's memory, or if elements are not whole bytes.
  bool take(const dlpack::Tensor& of);
  PyArrayObject* numpy() const { return numpy_; }  // null for arrays of other libraries
  dlpack::DataType type() const { return type_; }  // element type, for arrays of other libraries

  // Returns NumPy's letter for the kind of number, or kBfloat. Returns 0 if elements are not numbers in native byte order.
  char kind() const;
  bool has_type_of(const View& other) const;
  const Array& array() const { return array_; }
  Size element() const { return element_; }  // in bytes
  bool is_empty() const { return is_empty_; }
  bool has_shape(const Shape& shape) const;
  bool has_memory_of(const View& other) const;  // whether both have the same address, shape and strides
  Extent extent() const;
  PyObject* shape_tuple() const;  // () for an empty view

  // Refuses `out` if its shape differs, if it is read-only, or if its elements share memory.
  Refusal refuse_as_out(const Shape& shape, bool is_writeable) const;

 private:
  void copy(Array of, Size element, std::size_t unit);
  bool may_overlap_itself() const;

  Size shape_[kMaxRank], strides_[kMaxRank];
  Array array_{nullptr, 0, shape_, strides_};
  PyArrayObject* numpy_ = nullptr;
  dlpack::DataType type_{};
  Size element_ = 0;
  bool is_empty_ = false;
};

PyObject* shape_tuple(const Size* shape, Size rank);

// Whether an object is a contiguous 1-d array with this NumPy type number.
bool is_vector(PyObject* object, int type);

// Allocates an uninitialized array with the dtype of `like`. Large arrays use reusable memory.
Refusal make_array(PyArrayObject* like, const Shape& shape, PyArrayObject*& made);

// Converts a plain number, or nested lists and tuples of numbers, to an array. Returns Rule::fallback if Python must
// convert the numbers. The caller must release `made` in any case.
Refusal make_array_of_lists(PyObject* lists, PyArrayObject*& made);

// Converts an array of make_array_of_lists to the dtype of `like`. Returns Rule::fallback if a number does not fit.
Refusal convert_numbers(PyArrayObject*& numbers, const View& like);

// Computes the size of a result in bytes, or of one element if the result is empty. Returns false if the size does not fit.
bool count_bytes(const Shape& shape, Size element, Size& bytes, bool& empty);

// Views the caller's `out`, a NumPy array, or refuses it if the dtype or shape does not match.
Refusal view_out(PyObject* out, const View& like, const Shape& shape, View& view);

// Creates NumPy's interface to pool.h, once per process. Returns false with a Python exception set if it fails.
bool make_memory_handler();

}  // namespace ndgather
