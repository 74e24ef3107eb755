// lists.cpp - making arrays from nested lists and tuples of plain numbers, which new users often pass.
//
// Only exact lists, tuples, bool, int and float are read. Reading them runs no Python code, so a list cannot change between
// two items while this thread holds the GIL. All sizes and types are checked again when items are read. Python handles lists
// that differ from what the first pass has found.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "../threads.h"
#include "arrays.h"

namespace ndgather {
namespace {

Py_ssize_t length(PyObject* list) { return PyList_CheckExact(list) ? PyList_Size(list) : PyTuple_Size(list); }
bool is_list(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

// An item of a list or tuple, or null with an exception set if another thread has shortened the list.
class Item {
 public:
  Item(PyObject* list, Py_ssize_t n) : object_(PySequence_GetItem(list, n)) {}
  ~Item() { Py_XDECREF(object_); }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;
  operator PyObject*() const { return object_; }

 private:
  PyObject* object_;
};

int type_of(PyObject* number) {
  if (PyLong_CheckExact(number)) return NPY_INT64;
  if (PyFloat_CheckExact(number)) return NPY_FLOAT64;
  return PyBool_Check(number) ? NPY_BOOL : NPY_NOTYPE;
}

// Finds the shape by following the first item of each list, and returns the type of the first number.
int first_number(PyObject* object, Shape& shape) {
  if (!is_list(object)) return type_of(object);
  const Py_ssize_t size = length(object);
  if (size == 0 || shape.rank == kMaxRank) return NPY_NOTYPE;
  shape.append(&size, 1);
  const Item first(object, 0);
  return first == nullptr ? NPY_NOTYPE : first_number(first, shape);
}

bool read(PyObject* number, int type, char*& to) {
  if (type_of(number) != type) return false;
  int overflow = 0;
  if (type == NPY_BOOL) {
    *to++ = number == Py_True;
  } else if (type == NPY_INT64) {
    *reinterpret_cast<std::int64_t*>(to) = PyLong_AsLongLongAndOverflow(number, &overflow);
    to += sizeof(std::int64_t);
  } else {
    *reinterpret_cast<double*>(to) = PyFloat_AsDouble(number);
    to += sizeof(double);
  }
  return overflow == 0;
}

// Reads all numbers in order. Returns false if a length or type differs from the first one.
bool read_all(PyObject* object, const Size* size, const Size* end, int type, char*& to) {
  if (size == end) return read(object, type, to);
  if (!is_list(object) || length(object) != *size) return false;
  for (Py_ssize_t n = 0; n < *size; ++n) {
    const Item item(object, n);
    if (item == nullptr || !read_all(item, size + 1, end, type, to)) return false;
  }
  return true;
}

// Converts numbers. Returns false if a number is out of range for an integer type, or if a finite number becomes infinite.
template <class To, class From>
bool store(const void* numbers, Size count, void* converted) {
  const auto* const from = static_cast<const From*>(numbers);
  auto* const to = static_cast<To*>(converted);
  for (Size n = 0; n < count; ++n) {
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(from[n])) return false;
    }
    to[n] = static_cast<To>(from[n]);
    if constexpr (std::is_same_v<From, double>) {
      if (std::isinf(to[n]) != std::isinf(from[n])) return false;
    }
  }
  return true;
}

struct Conversion {
  int from;
  char kind;
  Size bytes;
  int to;
  bool (*store)(const void* numbers, Size count, void* converted);
};

template <class To>
constexpr Conversion from_integers(char kind, int to) {
  return {NPY_INT64, kind, sizeof(To), to, store<To, std::int64_t>};
}

// The supported conversions. Conversions to float types may round.
constexpr Conversion kConversions[] = {
    from_integers<std::int8_t>('i', NPY_INT8),     from_integers<std::int16_t>('i', NPY_INT16),
    from_integers<std::int32_t>('i', NPY_INT32),   from_integers<std::uint8_t>('u', NPY_UINT8),
    from_integers<std::uint16_t>('u', NPY_UINT16), from_integers<std::uint32_t>('u', NPY_UINT32),
    from_integers<std::uint64_t>('u', NPY_UINT64), from_integers<float>('f', NPY_FLOAT32),
    from_integers<double>('f', NPY_FLOAT64),       {NPY_FLOAT64, 'f', sizeof(float), NPY_FLOAT32, store<float, double>},
};

}  // namespace

Refusal make_array_of_lists(PyObject* lists, PyArrayObject*& made) {
  Shape shape;
  const int type = first_number(lists, shape);
  bool is_read = false;
  if (type != NPY_NOTYPE) {
    made = array(PyArray_SimpleNew(shape.rank, reinterpret_cast<const npy_intp*>(shape.size), type));
    if (made == nullptr && PyErr_ExceptionMatches(PyExc_MemoryError)) return {Rule::raised};
    char* to = made == nullptr ? nullptr : PyArray_BYTES(made);
    is_read = made != nullptr && read_all(lists, shape.size, shape.size + shape.rank, type, to);
  }
  PyErr_Clear();
  return {is_read ? Rule::none : Rule::fallback};
}

Refusal convert_numbers(PyArrayObject*& numbers, const View& like) {
  const auto* const found = std::find_if(std::cbegin(kConversions), std::cend(kConversions), [&](const Conversion& each) {
    return each.from == PyArray_TYPE(numbers) && each.kind == like.kind() && each.bytes == like.element();
  });
  if (found == std::cend(kConversions)) return {Rule::fallback};
  PyObject* const converted = PyArray_SimpleNew(PyArray_NDIM(numbers), PyArray_DIMS(numbers), found->to);
  if (converted == nullptr) return {Rule::raised};
  const DefaultEnvironment environment;
  const bool holds = found->store(PyArray_DATA(numbers), PyArray_SIZE(numbers), PyArray_DATA(array(converted)));
  Py_DECREF(std::exchange(numbers, array(converted)));
  return {holds ? Rule::none : Rule::fallback};
}

}  // namespace ndgather
