// libraries.cpp - see libraries.h.
#include "libraries.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "../pool.h"
#include "call.h"

namespace ndgather {
namespace {

using dlpack::DataType;

bool is_integer(DataType type) { return type.code == dlpack::kInt || type.code == dlpack::kUInt; }

PyObject* dtype_name;  // the attribute name "dtype"

// Refuses the call if the answer is true or unknown.
Refusal refuse_if(PyObject* answer) {
  if (answer == nullptr) return forget_error();
  const int truth = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return truth == 0 ? Refusal{} : forget_error();
}

// Entries are never removed, so the list can be read without a lock.
constexpr int kMostLibraries = 64;
Library libraries[kMostLibraries];
std::atomic<int> library_count;
std::mutex growing;

// Returns null if the type does not support this version of the exchange.
const dlpack::Table* table_of(PyObject* type) {
  PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const auto* table = capsule == nullptr
                          ? nullptr
                          : static_cast<const dlpack::Table*>(PyCapsule_GetPointer(capsule, dlpack::kTableName));
  Py_XDECREF(capsule);
  while (table != nullptr && table->version.major > dlpack::kMajorVersion) table = table->previous;
  const bool is_known = table != nullptr && table->version.major == dlpack::kMajorVersion;
  return is_known && table->borrow != nullptr ? table : nullptr;
}

struct Result {
  dlpack::Managed managed;
  std::int64_t shape[1];  // followed by the other sizes and by the strides

  // Called by the last owner, on any thread, with or without the GIL.
  static void to_pool(dlpack::Managed* self) { pool::release(self); }
  static void to_system(dlpack::Managed* self) { std::free(self); }
};

}  // namespace

Refusal Library::refuse_transforms() const {
  for (Py_ssize_t n = 0, count = PyTuple_Size(transforms); n < count; ++n) {
    PyObject* const each = PyTuple_GetItem(transforms, n);
    if (PyTuple_Check(each)) {
      PyObject* const value = PyDict_GetItemWithError(PyTuple_GetItem(each, 0), PyTuple_GetItem(each, 1));
      if (value != PyTuple_GetItem(each, 2)) return forget_error();
    } else if (auto refusal = refuse_if(PyObject_CallNoArgs(each))) {
      return refusal;
    }
  }
  return {};
}

// Libraries may describe integers of less than a byte as 8-bit integers. The dtype attribute distinguishes them.
Refusal Library::refuse_parts_of_bytes(PyObject* of, DataType type) const {
  if (bytes == Py_None || !is_integer(type) || type.bits != 8) return {};
  PyObject* const dtype = PyObject_GetAttr(of, dtype_name);
  Py_XDECREF(dtype);  // only the address is compared
  for (Py_ssize_t n = 0, count = PyTuple_Size(bytes); n < count; ++n) {
    if (PyTuple_GetItem(bytes, n) == dtype) return {};
  }
  return forget_error();
}

// Integers need no further checks, because they have no gradient and are never lazily negated.
Refusal Library::refuse_views(PyObject* of, DataType type) const {
  if (is_integer(type) || type.code == dlpack::kBool) return refuse_parts_of_bytes(of, type);
  Refusal recorded;
  if (gradient != Py_None) {
    recorded = refuse_if(PyObject_GetAttr(of, gradient));
    if (recorded.rule == Rule::fallback) recorded = refuse_if(PyObject_CallNoArgs(records));
    if (recorded.rule == Rule::raised) return recorded;
    if (recorded) recorded.rule = Rule::gradient;
  }
  if (negated != Py_None) {
    if (auto refusal = refuse_if(PyObject_CallFunctionObjArgs(negated, of, nullptr))) return refusal;
  }
  if (conjugated == Py_None || type.code != dlpack::kComplex) return recorded;
  const Refusal refusal = refuse_if(PyObject_CallFunctionObjArgs(conjugated, of, nullptr));
  return refusal ? refusal : recorded;
}

Refusal Library::describe(PyObject* array, dlpack::Tensor& tensor) const {
  return table->borrow(array, &tensor) != 0 ? forget_error() : Refusal{};
}

Refusal Library::borrow(PyObject* from, View& view) const {
  dlpack::Tensor tensor;
  if (auto refusal = describe(from, tensor)) return refusal;
  if (!view.take(tensor)) return {Rule::fallback};
  return refuse_views(from, tensor.type);
}

Refusal Library::export_managed(PyObject* from, dlpack::Managed*& exported) const {
  if (table->export_managed(from, &exported) != 0) return forget_error();
  return {exported->version.major == dlpack::kMajorVersion ? Rule::none : Rule::fallback};
}

Refusal Library::import_managed(dlpack::Managed* taken_over, PyObject*& imported) const {
  void* made = nullptr;
  if (table->import_managed(taken_over, &made) != 0) return forget_error();
  imported = static_cast<PyObject*>(made);
  return {};
}

const Library* library_of(PyObject* object) {
  const int count = library_count.load(std::memory_order_acquire);
  for (int n = 0; n < count; ++n) {
    if (libraries[n].type == Py_TYPE(object)) return libraries + n;
  }
  return nullptr;
}

dlpack::Managed* make_managed(const Shape& shape, DataType type, Size bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t head = sizeof(Result) + 2 * sizeof(std::int64_t) * static_cast<std::size_t>(shape.rank);
  const std::size_t whole = head + kAlignment + static_cast<std::size_t>(bytes);
  const bool is_large = whole >= std::size_t{kLimits.pooled_bytes};
  void* const block = is_large ? pool::allocate(whole) : std::malloc(whole);
  if (block == nullptr) return nullptr;
  auto* const made = static_cast<Result*>(block);
  std::int64_t* const strides = made->shape + shape.rank;
  std::int64_t elements = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    made->shape[d] = shape.size[d];
    strides[d] = elements;
    elements *= std::max<Size>(shape.size[d], 1);
  }
  const auto first = reinterpret_cast<std::uintptr_t>(block) + head + kAlignment - 1;
  void* const data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
  made->managed = {{dlpack::kMajorVersion, 3},
                   nullptr,
                   is_large ? Result::to_pool : Result::to_system,
                   0,
                   {data, dlpack::kCpu, 0, shape.rank, type, made->shape, strides, 0}};
  return &made->managed;
}

PyObject* accept_exchange(PyObject*, PyObject* arguments) {
  Library made{};
  PyObject* type;
  if (!PyArg_ParseTuple(arguments, "O!OOOOO!OO", &PyType_Type, &type, &made.gradient, &made.records, &made.negated,
                        &made.conjugated, &PyTuple_Type, &made.transforms, &made.written, &made.bytes)) {
    return nullptr;
  }
  if (made.bytes != Py_None && !PyTuple_Check(made.bytes)) return PyErr_Format(PyExc_TypeError, "bytes is no tuple");
  if (dtype_name == nullptr && (dtype_name = PyUnicode_InternFromString("dtype")) == nullptr) return nullptr;
  made.type = reinterpret_cast<PyTypeObject*>(type);
  made.table = table_of(type);
  if (made.table == nullptr) {
    if (forget_error().rule == Rule::raised) return nullptr;
    Py_RETURN_FALSE;
  }
  const std::lock_guard lock(growing);
  const int count = library_count.load(std::memory_order_relaxed);
  for (int n = 0; n < count; ++n) {
    if (libraries[n].type == made.type) Py_RETURN_TRUE;
  }
  if (count == kMostLibraries) Py_RETURN_FALSE;
  Py_INCREF(arguments);  // and so keep the type and all members of the library
  libraries[count] = made;
  library_count.store(count + 1, std::memory_order_release);
  Py_RETURN_TRUE;
}

}  // namespace ndgather
