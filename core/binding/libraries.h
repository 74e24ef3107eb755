// libraries.h - arrays of other libraries in CPU memory, exchanged through the C interface of DLPack.
#pragma once

#include "arrays.h"

namespace ndgather {

// An array type, and the checks required before its arrays can be treated as plain memory. Never released.
struct Library {
  PyTypeObject* type;
  const dlpack::Table* table;
  // The following are null or None if the library has no equivalent.
  PyObject* gradient;    // name of an attribute that is true if the array needs a gradient
  PyObject* records;     // function that returns whether gradients are being recorded
  PyObject* negated;     // function that returns whether an array is lazily negated
  PyObject* conjugated;  // function that returns whether a complex array is lazily conjugated
  // A tuple of checks for whether operations are transformed (for example traced) instead of just carried out: functions
  // that return it, or tuples (dict, key, value) where dict[key] is not value if they are transformed.
  PyObject* transforms;
  PyObject* written;  // function that is called with an array after it has been written to
  PyObject* bytes;    // tuple of the values of the attribute dtype for true 8-bit integers

  // These refuse by Rule::gradient if a gradient is recorded, and by Rule::fallback if an array may be more than plain
  // memory.
  Refusal refuse_transforms() const;
  Refusal describe(PyObject* array, dlpack::Tensor& tensor) const;
  Refusal borrow(PyObject* from, View& view) const;
  Refusal export_managed(PyObject* from, dlpack::Managed*& exported) const;
  Refusal import_managed(dlpack::Managed* taken_over, PyObject*& imported) const;

 private:
  Refusal refuse_parts_of_bytes(PyObject* of, dlpack::DataType type) const;
  Refusal refuse_views(PyObject* of, dlpack::DataType type) const;
};

// Returns the library of an array, or null if Python must handle the object.
const Library* library_of(PyObject* object);

// Allocates a result for another library, with its description and elements in one block. Returns null if out of memory.
dlpack::Managed* make_managed(const Shape& shape, dlpack::DataType type, Size bytes);

}  // namespace ndgather
