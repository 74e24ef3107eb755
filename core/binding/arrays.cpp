// arrays.cpp - see arrays.h.
#include "arrays.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../pool.h"
#include "../tuning.h"

namespace ndgather {
namespace {

PyObject* memory_handler;  // a PyDataMem_Handler capsule over pool.h

void* handler_malloc(void*, std::size_t bytes) { return pool::allocate(bytes); }
void* handler_calloc(void*, std::size_t count, std::size_t size) {
  if (size != 0 && count > SIZE_MAX / size) return nullptr;
  void* const block = pool::allocate(count * size);
  return block == nullptr ? nullptr : std::memset(block, 0, count * size);
}
void* handler_realloc(void*, void* block, std::size_t bytes) { return pool::resize(block, bytes); }
void handler_free(void*, void* block, std::size_t) { pool::release(block); }

PyDataMem_Handler handler = {"ndgather", 1, {nullptr, handler_malloc, handler_calloc, handler_realloc, handler_free}};

}  // namespace

// `unit` is the number of bytes that a stride of 1 stands for.
inline void View::copy(Array of, Size element, std::size_t unit) {
  array_ = {of.bytes, of.rank, shape_, strides_};
  element_ = element;
  is_empty_ = false;
  // Replace the strides of axes of size 0 or 1 with 0, because they are arbitrary and may be so large that products overflow.
  for (int d = 0; d < of.rank; ++d) {
    const Size size = shape_[d] = of.shape[d];
    is_empty_ |= size == 0;
    strides_[d] = size <= 1 ? 0 : static_cast<Size>(static_cast<std::size_t>(of.strides[d]) * unit);
  }
  if (is_empty_) std::fill_n(strides_, of.rank, 0);
}

void View::take(PyArrayObject* of) {
  borrow(of);
  copy(array_, PyArray_ITEMSIZE(of), 1);
}

bool View::take(const dlpack::Tensor& of) {
  const int bits = of.type.bits * of.type.lanes;
  if (of.device_type != dlpack::kCpu || of.rank < 0 || of.rank > kMaxRank || bits == 0 || bits % 8 != 0) return false;
  static_assert(sizeof(std::int64_t) == sizeof(Size));
  const auto *shape = reinterpret_cast<const Size*>(of.shape), *strides = reinterpret_cast<const Size*>(of.strides);
  if (strides == nullptr && of.rank > 0) return false;  // as in versions before 1.2
  type_ = of.type;
  char* const first = static_cast<char*>(of.data) + of.byte_offset;
  copy({first, of.rank, shape, strides}, bits / 8, static_cast<std::size_t>(bits / 8));
  return of.data != nullptr || is_empty_;  // no memory: a placeholder such as a tensor that is being traced
}

char View::kind() const {
  static constexpr char kKinds[] = {'i', 'u', 'f', 0, kBfloat, 'c', 'b'};  // in the order of dlpack::Code
  if (numpy_ == nullptr) return type_.lanes == 1 && type_.code < sizeof kKinds ? kKinds[type_.code] : 0;
  const int number = PyArray_TYPE(numpy_);
  const bool is_number = PyTypeNum_ISNUMBER(number) || number == NPY_BOOL;
  return is_number && !PyArray_ISBYTESWAPPED(numpy_) ? PyArray_DESCR(numpy_)->kind : 0;
}

bool View::has_type_of(const View& other) const {
  if (numpy_ == nullptr && other.numpy_ == nullptr) return type_ == other.type_;
  if (numpy_ == nullptr || other.numpy_ == nullptr) {
    return kind() != 0 && kind() == other.kind() && element_ == other.element_;
  }
  return PyArray_EquivTypes(PyArray_DESCR(numpy_), PyArray_DESCR(other.numpy_));
}

bool View::has_shape(const Shape& shape) const {
  return array_.rank == shape.rank && std::equal(shape_, shape_ + shape.rank, shape.size);
}

bool View::has_memory_of(const View& other) const {
  return array_.bytes == other.array_.bytes && array_.rank == other.array_.rank &&
         std::equal(shape_, shape_ + array_.rank, other.shape_) &&
         std::equal(strides_, strides_ + array_.rank, other.strides_);
}

// Returns false only if the strides prove that elements do not overlap, because no stride is less than the span of the axes
// with smaller strides. For example, 3 elements of 8 bytes span 24 bytes, so the next stride must be at least 24.
bool View::may_overlap_itself() const {
  struct Reach {
    Size stride, size;
  } dims[kMaxRank];
  if (is_empty_) return false;
  int rank = 0;
  for (int d = 0; d < array_.rank; ++d) {
    if (shape_[d] > 1) dims[rank++] = {std::abs(strides_[d]), shape_[d]};
  }
  std::sort(dims, dims + rank, [](const Reach& a, const Reach& b) { return a.stride < b.stride; });
  Size covered = element_;
  for (int d = 0; d < rank; ++d) {
    if (dims[d].stride < covered) return true;
    covered += (dims[d].size - 1) * dims[d].stride;
  }
  return false;
}

Extent View::extent() const {
  if (is_empty_) return {array_.bytes, array_.bytes};
  Extent extent{array_.bytes, array_.bytes + element_};
  for (int d = 0; d < array_.rank; ++d) {
    const Size reach = (shape_[d] - 1) * strides_[d];
    (reach < 0 ? extent.begin : extent.end) += reach;
  }
  return extent;
}

Refusal View::refuse_as_out(const Shape& shape, bool is_writeable) const {
  if (!has_shape(shape)) return {Rule::out_shape};
  if (!is_writeable) return {Rule::out_read_only};
  return {may_overlap_itself() ? Rule::out_overlaps_itself : Rule::none};
}

PyObject* View::shape_tuple() const { return ndgather::shape_tuple(shape_, array_.rank); }

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

bool is_vector(PyObject* object, int type) {
  return PyArray_CheckExact(object) && PyArray_EquivTypenums(PyArray_TYPE(array(object)), type) &&
         PyArray_NDIM(array(object)) == 1 && PyArray_ISCARRAY_RO(array(object));
}

bool count_bytes(const Shape& shape, Size element, Size& bytes, bool& empty) {
  bytes = element;
  empty = false;
  for (int d = 0; d < shape.rank; ++d) {
    empty |= shape.size[d] == 0;
    if (shape.size[d] == 0) continue;  // NumPy requires the product of the other sizes to fit even then
    // The first comparison avoids a division, which would take as long as the rest of this function.
    if (std::max(bytes, shape.size[d]) > INT32_MAX && bytes > PTRDIFF_MAX / shape.size[d]) return false;
    bytes *= shape.size[d];
  }
  return true;
}

Refusal make_array(PyArrayObject* like, const Shape& shape, PyArrayObject*& made) {
  Size bytes;
  bool empty;
  if (!count_bytes(shape, PyArray_ITEMSIZE(like), bytes, empty)) return {Rule::result_size};
  void* block = nullptr;
  if (!empty && bytes >= kLimits.pooled_bytes) {
    // If this fails, NumPy tries to allocate the memory, and sets the exception if it fails too.
    block = pool::allocate(static_cast<std::size_t>(bytes));
  }
  PyArray_Descr* descr = PyArray_DESCR(like);
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  made = array(PyArray_NewFromDescr(&PyArray_Type, descr, shape.rank, reinterpret_cast<const npy_intp*>(shape.size), nullptr,
                                    block, block == nullptr ? 0 : NPY_ARRAY_CARRAY, nullptr));
  if (made == nullptr) {
    pool::release(block);
    return {Rule::raised};
  }
  if (block != nullptr) {
    // The array owns its memory. If NumPy's current handler were replaced instead and memory ran out before it was restored,
    // all later arrays would be affected.
    reinterpret_cast<PyArrayObject_fields*>(made)->mem_handler = Py_NewRef(memory_handler);
    PyArray_ENABLEFLAGS(made, NPY_ARRAY_OWNDATA);
  }
  return {};
}

Refusal view_out(PyObject* out, const View& like, const Shape& shape, View& view) {
  if (!PyArray_CheckExact(out)) return {PyArray_Check(out) ? Rule::fallback : Rule::out_type};
  view.take(array(out));
  if (!view.has_type_of(like)) return {Rule::out_dtype};
  return view.refuse_as_out(shape, PyArray_ISWRITEABLE(array(out)));
}

bool make_memory_handler() {
  memory_handler = PyCapsule_New(&handler, "mem_handler", nullptr);
  return memory_handler != nullptr;
}

}  // namespace ndgather
