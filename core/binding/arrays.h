// arrays.h - what a call has to know of NumPy arrays: their bytes, shapes and strides, and new ones.
#pragma once

#include "dlpack.h"
#include "python.h"

namespace ndgather {

// The bytes that an array may touch.
struct Extent {
  const char* begin;
  const char* end;
  bool meets(const Extent& other) const {
    return begin < other.end && other.begin < end && begin != end && other.begin != other.end;
  }
};

inline constexpr char kBfloat = 'B';  // a kind of number that NumPy has no letter for

// A view of an array, of NumPy or of another library, with a shape and strides of its own: another thread may set the
// shape of an array whenever the GIL is given up, or a finaliser while the result is allocated.
class View {
 public:
  View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  void take(PyArrayObject* of);
  // False: it has no memory that the CPU reads, or elements that are not whole bytes.
  bool take(const dlpack::Tensor& of);
  PyArrayObject* numpy() const { return numpy_; }  // null: of another library
  dlpack::DataType type() const { return type_; }  // of the elements, of another library

  // The letter that NumPy has for numbers as the core reads them, kBfloat, or 0 for all other elements.
  char kind() const;
  bool has_type_of(const View& other) const;
  const Array& array() const { return array_; }
  Size element() const { return element_; }  // in bytes
  bool is_empty() const { return is_empty_; }
  bool has_shape(const Shape& shape) const;
  bool has_memory_of(const View& other) const;  // all of it, in the same order
  Extent extent() const;
  PyObject* shape_tuple() const;  // () before it is taken

  // Whether it can take a result of this shape: it is written to, so its elements must not share memory.
  Refusal refuse_as_out(const Shape& shape, bool is_writeable) const;

 private:
  void copy(const Array& of, Size element, std::size_t unit);
  bool may_overlap_itself() const;

  Size shape_[kMaxRank], strides_[kMaxRank];
  Array array_{nullptr, 0, shape_, strides_};
  PyArrayObject* numpy_ = nullptr;
  dlpack::DataType type_{};
  Size element_ = 0;
  bool is_empty_ = false;
};

PyObject* shape_tuple(const Size* shape, Size rank);

// Whether an object is a contiguous array of one axis, with the NumPy type of this number.
bool is_vector(PyObject* object, int type);

// A new array of the type of `like`; large ones live in reusable memory. Refused: `made` is not set.
Refusal make_array(PyArrayObject* like, const Shape& shape, PyArrayObject*& made);

// Makes an array of a plain number, or of nested lists and tuples of them. Refused by Rule::fallback: Python converts them.
// The caller releases what is made, also then.
Refusal make_array_of_lists(PyObject* lists, PyArrayObject*& made);

// Replaces such an array by one of the type of `like`. Refused by Rule::fallback if that does not hold a number.
Refusal convert_numbers(PyArrayObject*& numbers, const View& like);

// How many bytes a result takes, at least one element. False: more than there can be.
bool count_bytes(const Shape& shape, Size element, Size& bytes, bool& empty);

// Views an array of NumPy, if it can take a result of this type and shape.
Refusal view_out(PyObject* out, const View& like, const Shape& shape, View& view);

// Makes NumPy's interface to pool.h, once in a process. False: a Python exception is set.
bool make_memory_handler();

}  // namespace ndgather
