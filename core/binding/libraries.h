// libraries.h - arrays of other libraries, in the memory of the CPU, which are exchanged in C by DLPack.
#pragma once

#include "arrays.h"

namespace ndgather {

// A type of arrays, and what has to be asked before an array of it counts as a piece of memory. Kept for good.
struct Library {
  PyTypeObject* type;
  const dlpack::Table* table;
  // Null or None: there is no such thing.
  PyObject* gradient;    // name of an attribute: whether the array takes part in a gradient
  PyObject* records;     // function: whether gradients are recorded at all
  PyObject* negated;     // function of an array: whether its numbers are meant with the other sign
  PyObject* conjugated;  // the same for complex numbers
  // A tuple: of functions, whether more is done with operations than carrying them out; and of tuples of a dict, a key
  // and the very value that it has where nothing is.
  PyObject* transforms;
  PyObject* written;  // function of an array: called after it has been written to
  PyObject* bytes;    // a tuple: what the attribute dtype is where integers of a byte are whole ones

  // These refuse by Rule::fallback where more is at work than a piece of memory, or where that is not known; and by
  // Rule::gradient where nothing is but a gradient that is recorded.
  Refusal refuse_transforms() const;
  Refusal describe(PyObject* array, dlpack::Tensor& tensor) const;
  Refusal borrow(PyObject* from, View& view) const;
  Refusal export_managed(PyObject* from, dlpack::Managed*& exported) const;
  Refusal import_managed(dlpack::Managed* taken_over, PyObject*& imported) const;

 private:
  Refusal refuse_parts_of_bytes(PyObject* of, dlpack::DataType type) const;
  Refusal refuse_views(PyObject* of, dlpack::DataType type) const;
};

// Null: calls with such an object are for Python.
const Library* library_of(PyObject* object);

// A result for another library, with its description and its elements in one block of memory. Null: there is no memory.
dlpack::Managed* make_managed(const Shape& shape, dlpack::DataType type, Size bytes);

}  // namespace ndgather
