// exchange.cpp - see exchange.h.
#include "exchange.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "../pool.h"
#include "call.h"
#include "dlpack.h"

namespace ndgather {
namespace {

using dlpack::DataType;

// After a foreign function has failed: what it raised is nobody's concern, unless it stops the call.
Refusal forget_error() {
  if (PyErr_Occurred() != nullptr &&
      (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))) {
    return {Rule::raised};
  }
  PyErr_Clear();
  return {Rule::fallback};
}

bool is_integer(DataType type) { return type.code == dlpack::kInt || type.code == dlpack::kUInt; }
bool is_inexact(DataType type) { return !is_integer(type) && type.code != dlpack::kBool; }

PyObject* dtype_name;  // of the attribute

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
  PyObject* written;     // function of an array: is told that it has been written to
  PyObject* bytes;       // a tuple: what the attribute dtype is where integers of a byte are whole ones

  // Refused: something is true, or cannot be known.
  static Refusal refuse_if(PyObject* answer) {
    if (answer == nullptr) return forget_error();
    const int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth == 0 ? Refusal{} : forget_error();
  }

  Refusal refuse_transforms() const {
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

  // DLPack may be told of integers of less than a byte as of whole ones.
  Refusal refuse_parts_of_bytes(PyObject* of, DataType type) const {
    if (bytes == Py_None || !is_integer(type) || type.bits != 8) return {};
    PyObject* const dtype = PyObject_GetAttr(of, dtype_name);
    Py_XDECREF(dtype);  // only its address is of interest
    for (Py_ssize_t n = 0, count = PyTuple_Size(bytes); n < count; ++n) {
      if (PyTuple_GetItem(bytes, n) == dtype) return {};
    }
    return forget_error();
  }

  // Integers have no gradient and no sign to be meant otherwise.
  Refusal refuse_views(PyObject* of, DataType type) const {
    if (!is_inexact(type)) return refuse_parts_of_bytes(of, type);
    if (gradient != Py_None) {
      Refusal refusal = refuse_if(PyObject_GetAttr(of, gradient));
      if (refusal.rule == Rule::fallback) refusal = refuse_if(PyObject_CallNoArgs(records));
      if (refusal) return refusal;
    }
    if (negated != Py_None) {
      if (auto refusal = refuse_if(PyObject_CallFunctionObjArgs(negated, of, nullptr))) return refusal;
    }
    if (conjugated == Py_None || type.code != dlpack::kComplex) return {};
    return refuse_if(PyObject_CallFunctionObjArgs(conjugated, of, nullptr));
  }
};

// Grows only, so that it is read without a lock.
constexpr int kMostLibraries = 64;
Library libraries[kMostLibraries];
std::atomic<int> library_count;
std::mutex growing;

const Library* library_of(PyObject* object) {
  const int count = library_count.load(std::memory_order_acquire);
  for (int n = 0; n < count; ++n) {
    if (libraries[n].type == Py_TYPE(object)) return libraries + n;
  }
  return nullptr;
}

// Null: the type offers no exchange of this version.
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

// False: elements of another kind than DLPack has, or in another byte order.
bool read_type(PyArrayObject* of, DataType& type) {
  static constexpr std::uint8_t kCodes[] = {dlpack::kInt, dlpack::kUInt, dlpack::kFloat, dlpack::kComplex, dlpack::kBool};
  static constexpr char kKinds[] = "iufcb";
  const char* const kind = std::strchr(kKinds, PyArray_DESCR(of)->kind);
  if (kind == nullptr || *kind == 0 || !is_number_of_numpy(of) || PyArray_ISBYTESWAPPED(of)) return false;
  type = {kCodes[kind - kKinds], static_cast<std::uint8_t>(PyArray_ITEMSIZE(of) * 8), 1};
  return true;
}

bool take(const dlpack::Tensor& tensor, View& view) {
  const int bits = tensor.type.bits * tensor.type.lanes;
  if (tensor.device_type != dlpack::kCpu || tensor.rank < 0 || tensor.rank > kMaxRank || bits == 0 || bits % 8 != 0) {
    return false;
  }
  static_assert(sizeof(std::int64_t) == sizeof(Size));
  const auto* strides = reinterpret_cast<const Size*>(tensor.strides);
  Size dense[kMaxRank], elements = 1;
  for (int d = tensor.rank - 1; d >= 0 && strides == nullptr; --d) {
    dense[d] = elements;
    elements *= std::max<Size>(tensor.shape[d], 1);
  }
  view.take({static_cast<char*>(tensor.data) + tensor.byte_offset, tensor.rank,
             reinterpret_cast<const Size*>(tensor.shape), strides != nullptr ? strides : dense},
            bits / 8, bits / 8);
  return tensor.data != nullptr || view.is_empty();  // else a stand-in without memory
}

// Whether each element is one number of 8 to 64 bits, as the core has them.
bool has_width(DataType type) {
  return type.lanes == 1 && (type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64);
}

Refusal read_index_type(const View& indices, DataType type, IndexType& index) {
  if (!is_integer(type) || !has_width(type)) {
    return {indices.is_empty() && is_inexact(type) ? Rule::fallback : Rule::index_dtype};  // as an empty list may have
  }
  index = integer_type<IndexType>(type.code == dlpack::kInt, indices.element());
  return {};
}

// False: not known.
bool read_element_type(DataType type, ElementType& element) {
  static constexpr char kKinds[] = {'i', 'u', 'f', 0, kBfloat, 'c', 'b'};  // in the order of Code
  return type.lanes == 1 && type.code < sizeof kKinds && element_type(kKinds[type.code], type.bits / 8, element);
}

// A result, its description and its elements in one block of memory.
struct Result {
  dlpack::Managed managed;
  std::int64_t shape[1];  // and the strides after it

  // Null where there is no memory.
  static Result* make(const Shape& shape, DataType type, Size bytes) {
    const std::size_t head = sizeof(Result) + 2 * sizeof(std::int64_t) * static_cast<std::size_t>(shape.rank);
    const std::size_t whole = head + kAlignment + static_cast<std::size_t>(bytes);
    const bool is_large = whole >= pool::kLarge;
    void* block = is_large ? pool::allocate(whole) : std::malloc(whole);
    if (block == nullptr) return nullptr;
    auto* made = static_cast<Result*>(block);
    std::int64_t* strides = made->shape + shape.rank;
    std::int64_t elements = 1;
    for (int d = shape.rank - 1; d >= 0; --d) {
      made->shape[d] = shape.size[d];
      strides[d] = elements;
      elements *= std::max<Size>(shape.size[d], 1);
    }
    const auto first = reinterpret_cast<std::uintptr_t>(block) + head + kAlignment - 1;
    void* data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
    made->managed = {{dlpack::kMajorVersion, 3}, nullptr, is_large ? to_pool : to_system, 0,
                     {data, dlpack::kCpu, 0, shape.rank, type, made->shape, strides, 0}};
    return made;
  }

  // Called by whoever drops the array last, on any thread, with or without the GIL.
  static void to_pool(dlpack::Managed* self) { pool::release(self); }
  static void to_system(dlpack::Managed* self) { std::free(self); }

  static constexpr std::size_t kAlignment = 64;
};

class ExchangedCall : Call {
 public:
  ExchangedCall(Kind kind, PyObject* const* given) : Call(kind, given) {}
  ~ExchangedCall() {
    if (exported_ != nullptr && exported_->deleter != nullptr) exported_->deleter(exported_);
    if (made_ != nullptr) made_->managed.deleter(&made_->managed);
    Py_XDECREF(result_);
  }

  PyObject* run() {
    Refusal refusal = read_arguments();
    if (!refusal) refusal = read_shapes();
    if (!refusal) refusal = provide_out();
    if (!refusal) refusal = carry_out();
    if (!refusal) refusal = deliver();
    if (!refusal) return std::exchange(result_, nullptr);
    return refusal.rule == Rule::raised ? nullptr : refused(refusal);
  }

 private:
  Refusal view(PyObject* object, View& view, DataType& type);
  Refusal read_arguments();
  Refusal provide_out();
  Refusal view_out(PyObject* out, const Shape& shape);
  Refusal deliver();

  DataType data_type_{};
  const Library* library_ = nullptr;     // the last one that was met
  dlpack::Managed* exported_ = nullptr;  // the caller's `out`
  Result* made_ = nullptr;
  PyObject* result_ = nullptr;
};

Refusal ExchangedCall::view(PyObject* object, View& view, DataType& type) {
  if (PyArray_CheckExact(object)) {
    view.take(array(object));
    return {read_type(array(object), type) ? Rule::none : Rule::fallback};
  }
  const Library* library = library_of(object);
  if (library == nullptr) return {Rule::fallback};
  if (library != library_) {
    if (auto refusal = library->refuse_transforms()) return refusal;
    library_ = library;
  }
  dlpack::Tensor tensor;
  if (library->table->borrow(object, &tensor) != 0) return forget_error();
  type = tensor.type;
  if (!take(tensor, view)) return {Rule::fallback};
  return library->refuse_views(object, type);
}

Refusal ExchangedCall::read_arguments() {
  DataType type;
  // Options come first: an __index__ may run any code, and what is viewed is held by nobody.
  if (auto refusal = read_options()) return refusal;
  if (auto refusal = view(given_[kIndices], indices_, type)) return refusal;
  if (auto refusal = read_index_type(indices_, type, plan_.index_type)) return refusal;
  if (auto refusal = view(given_[kData], data_, data_type_)) return refusal;
  plan_.element = plan_.width = data_.element();
  if (scatters(kind_)) {
    const int position = position_among(given_[kReduction], reduction_names);
    if (position < 0) return {Rule::fallback};  // mean, or unknown
    reduction_ = static_cast<Reduction>(position);
    if (auto refusal = view(given_[kUpdates], updates_, type)) return refusal;
    if (type != data_type_) return {Rule::fallback};
    if (reduction_ == Reduction::none) return {};
    PyObject* const arithmetic = given_[kArithmetic];
    if (arithmetic != Py_None) type_ = read_arithmetic(arithmetic, plan_);
    const bool is_known = arithmetic != Py_None || read_element_type(data_type_, type_);
    if (given_[kUseInitVal] != Py_True || !is_known ||
        loops().pick_store(plan_, reduction_, type_, false) == nullptr) {
      return {Rule::fallback};
    }
  } else if (PyObject* fill = given_[kFillValue]; fill != Py_None) {
    View element;
    if (plan_.mode != Mode::fill) return {Rule::fallback};
    if (auto refusal = view(fill, element, type)) return refusal;
    if (type != data_type_ || element.array().rank != 0) return {Rule::fallback};
    plan_.fill = element.array().bytes;
  }
  return {};
}

Refusal ExchangedCall::provide_out() {
  Shape whole;
  const Shape& shape = result_shape(whole);
  PyObject* const out = given_[kOut];
  callers_out_ = out != Py_None;
  if (callers_out_) return view_out(out, shape);
  if (PyArray_CheckExact(given_[kData])) {
    PyArrayObject* made = nullptr;
    if (auto refusal = make_array(array(given_[kData]), shape, made)) return refusal;
    result_ = object(made);
    out_.take(made);
    return {};
  }
  Size bytes;
  bool empty;
  if (!count_bytes(shape, plan_.element, bytes, empty)) return {Rule::result_size};
  made_ = Result::make(shape, data_type_, empty ? 0 : bytes);
  if (made_ == nullptr) return {Rule::result_size};
  take(made_->managed.tensor, out_);
  return {};
}

Refusal ExchangedCall::view_out(PyObject* out, const Shape& shape) {
  DataType type;
  bool is_writeable = true;
  if (PyArray_CheckExact(out)) {
    is_writeable = PyArray_ISWRITEABLE(array(out));
  } else if (const Library* library = library_of(out)) {
    // A borrowed view does not say whether it may be written to.
    if (library->table->export_managed(out, &exported_) != 0) return forget_error();
    if (exported_->version.major != dlpack::kMajorVersion) return {Rule::fallback};
    is_writeable = (exported_->flags & dlpack::kReadOnly) == 0;
  } else {
    return {Rule::out_type};
  }
  if (auto refusal = view(out, out_, type)) return refusal;
  if (type != data_type_) return {Rule::out_dtype};
  if (auto refusal = out_.refuse_as_out(shape, is_writeable)) return refusal;
  if (auto refusal = check_overlaps()) return refusal;
  result_ = Py_NewRef(out);
  return {};
}

// Makes the result an object of its library, or tells the library that `out` has changed.
Refusal ExchangedCall::deliver() {
  if (made_ != nullptr) {
    dlpack::Managed* given_away = &std::exchange(made_, nullptr)->managed;
    void* imported = nullptr;
    if (library_of(given_[kData])->table->import_managed(given_away, &imported) != 0) return forget_error();
    result_ = static_cast<PyObject*>(imported);
  } else if (const Library* library = exported_ != nullptr ? library_of(result_) : nullptr;
             library != nullptr && library->written != Py_None) {
    PyObject* told = PyObject_CallFunctionObjArgs(library->written, result_, nullptr);
    if (told == nullptr) return {Rule::raised};
    Py_DECREF(told);
  }
  return {};
}

}  // namespace

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
  for (PyObject* kept : {type, made.gradient, made.records, made.negated, made.conjugated, made.transforms,
                         made.written, made.bytes}) {
    Py_INCREF(kept);
  }
  libraries[count] = made;
  library_count.store(count + 1, std::memory_order_release);
  Py_RETURN_TRUE;
}

PyObject* run_exchanged(Kind kind, PyObject* const* given) { return ExchangedCall(kind, given).run(); }

}  // namespace ndgather
