// ranges.cpp - copying ranges of an array along one axis, such as rows of different lengths.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "call.h"
#include "gil.h"

namespace ndgather {
namespace {

// Calls visit(from, to) for every position in `rank` dims.
template <class Visit>
void each_step(const Dim* dim, int rank, const char* from, char* to, const Visit& visit) noexcept {
  if (rank == 0) return visit(from, to);
  for (Size i = 0; i < dim->size; ++i) {
    each_step(dim + 1, rank - 1, from + i * dim->indexed, to + i * dim->dense, visit);
  }
}

// Copies ranges between two arrays whose axes are in the same order.
class RangeCopy {
 public:
  // Returns false if the shapes do not match.
  bool plan(const Array& from, const Array& to, int axis, Size element);
  // Returns false if a range is out of bounds. The numbers must not be changed by another thread after they are checked.
  bool set_ranges(const Size* starts, const Size* lengths, const Size* places, Size count);
  double bytes() const { return static_cast<double>(total_) * static_cast<double>(step_bytes()); }
  void run(Stop* stop) const noexcept;

 private:
  struct Task {
    Size range, offset;  // where the task begins; it ends where the next one begins
  };

  void copy_task(const Task& first, const Task& last) const noexcept;
  Size step_bytes() const { return plan_.positions * plan_.slice_bytes(); }

  Plan plan_;  // copies one step of the axis: the axes before it are loop dims, and the axes after it are slice dims
  Dim axis_;
  Size to_size_;  // size of the axis in the array that is written; axis_.size is its size in the other array
  const Size *starts_ = nullptr, *lengths_ = nullptr, *places_ = nullptr;
  Size total_ = 0;  // steps of the axis to copy
  Size count_ = 0;
};

bool RangeCopy::plan(const Array& from, const Array& to, int axis, Size element) {
  if (from.rank != to.rank || axis < 0 || axis >= from.rank) return false;
  plan_.indexed = from.bytes;
  plan_.dense = to.bytes;
  plan_.element = plan_.width = element;
  plan_.positions = 1;
  for (int d = 0; d < from.rank; ++d) {
    const Dim dim{from.shape[d], 0, from.strides[d], to.strides[d]};
    if (d == axis) {
      axis_ = dim;
      to_size_ = to.shape[d];
      continue;
    }
    if (dim.size != to.shape[d]) return false;
    (d < axis ? plan_.loop[plan_.loop_rank++] : plan_.slice[plan_.slice_rank++]) = dim;
    plan_.positions *= d < axis ? dim.size : 1;
  }
  simplify(plan_);
  return true;
}

bool RangeCopy::set_ranges(const Size* starts, const Size* lengths, const Size* places, Size count) {
  for (Size r = 0; r < count; ++r) {
    if (lengths[r] == 0) continue;
    if (lengths[r] < 0 || starts[r] < 0 || places[r] < 0) return false;
    if (lengths[r] > axis_.size || starts[r] > axis_.size - lengths[r]) return false;
    if (lengths[r] > to_size_ || places[r] > to_size_ - lengths[r]) return false;
    total_ += lengths[r];
  }
  starts_ = starts;
  lengths_ = lengths;
  places_ = places;
  count_ = count;
  return true;
}

void RangeCopy::copy_task(const Task& first, const Task& last) const noexcept {
  const Size width = plan_.width;
  const bool is_joined = plan_.slice_rank == 0 && axis_.indexed == width && axis_.dense == width;
  each_step(plan_.loop, plan_.loop_rank, plan_.indexed, plan_.dense, [&](const char* from, char* to) {
    for (Size r = first.range; r < count_ && r <= last.range; ++r) {
      if (r + kLimits.rows_ahead < count_ && lengths_[r + kLimits.rows_ahead] > 0) {
        const char* const next = from + starts_[r + kLimits.rows_ahead] * axis_.indexed;
        const Size wanted = std::min(2 * kTuning.prefetch_bytes, lengths_[r + kLimits.rows_ahead] * width);
        for (Size b = 0; b < wanted; b += kLine) prefetch(next + b);
      }
      const Size begin = r == first.range ? first.offset : 0;
      const Size end = r == last.range ? last.offset : lengths_[r];
      if (begin >= end) continue;
      const char* const first_step = from + (starts_[r] + begin) * axis_.indexed;
      char* const place = to + (places_[r] + begin) * axis_.dense;
      if (is_joined) {
        std::memcpy(place, first_step, static_cast<std::size_t>((end - begin) * width));
        continue;
      }
      for (Size i = 0; i < end - begin; ++i) {
        each_step(plan_.slice, plan_.slice_rank, first_step + i * axis_.indexed, place + i * axis_.dense,
                  [=](const char* in, char* out) { std::memcpy(out, in, static_cast<std::size_t>(width)); });
      }
    }
  });
}

void RangeCopy::run(Stop* stop) const noexcept {
  const Size all = total_ * step_bytes();
  if (all == 0) return;
  const Size wanted = std::min({all / kLimits.range_task_bytes, usable_threads() * kTuning.tasks_each, kLimits.range_tasks});
  const Size parts = std::max<Size>(1, wanted);
  Task border[kLimits.range_tasks + 1];
  border[0] = {0, 0};
  Size before = 0, next = 1;
  for (Size r = 0; r < count_ && next < parts; ++r) {
    for (; next < parts && total_ * next / parts < before + lengths_[r]; ++next) {
      border[next] = {r, total_ * next / parts - before};
    }
    before += lengths_[r];
  }
  border[parts] = {count_, 0};
  share(static_cast<int>(std::min<Size>(usable_threads(), parts)), parts, stop,
        [&](int, Size task) noexcept { copy_task(border[task], border[task + 1]); });
}

// Reads a vector of `count` numbers, or of any length if `count` is negative.
bool read_numbers(PyObject* object, const Size*& numbers, Size& count) {
  if (!is_vector(object, NPY_INTP) || (count >= 0 && PyArray_SIZE(array(object)) != count)) return false;
  numbers = static_cast<const Size*>(PyArray_DATA(array(object)));
  count = PyArray_SIZE(array(object));
  return true;
}

// Copies ranges to an array. Returns false with an exception set if they do not match the arrays or if the call was stopped.
bool copy(PyArrayObject* data, int axis, PyArrayObject* to, const Size* const ranges[3], Size count, bool may_stop) {
  View from_view, to_view;
  from_view.take(data);
  to_view.take(to);
  RangeCopy ranged;
  if (PyArray_ITEMSIZE(data) != PyArray_ITEMSIZE(to) || !PyArray_ISWRITEABLE(to) || PyDataType_REFCHK(PyArray_DESCR(data)) ||
      PyDataType_REFCHK(PyArray_DESCR(to)) ||
      !ranged.plan(from_view.array(), to_view.array(), axis, PyArray_ITEMSIZE(data)) ||
      !ranged.set_ranges(ranges[0], ranges[1], ranges[2], count)) {
    return do_not_fit("ranges") != nullptr;
  }
  return !stopped(ranged.bytes() / 4, may_stop, [&](Stop* stop) { ranged.run(stop); });
}

// Copies ranges to a new array, `length` steps long. Returns null if `length` is too large or an exception is set.
PyObject* copy_to_new(PyArrayObject* data, int axis, Size length, const Size* const ranges[3], Size count) {
  View view;
  view.take(data);
  Shape shape;
  shape.append(view.array().shape, view.array().rank);
  shape.size[axis] = length;
  PyArrayObject* result = nullptr;
  if (make_array(data, shape, result)) return nullptr;
  if (copy(data, axis, result, ranges, count, true)) return object(result);
  Py_DECREF(result);
  return nullptr;
}

}  // namespace

PyObject* copy_ranges(PyObject*, PyObject* args) {
  PyObject *data, *vectors[3], *out;
  int axis;
  Size count = -1;
  if (!PyArg_ParseTuple(args, "O!iOOOO!", &PyArray_Type, &data, &axis, &vectors[0], &vectors[1], &vectors[2], &PyArray_Type,
                        &out)) {
    return nullptr;
  }
  const Size* ranges[3];
  for (int i = 0; i < 3; ++i) {
    if (!read_numbers(vectors[i], ranges[i], count)) return do_not_fit("ranges");
  }
  const std::unique_ptr<Size[]> own(new (std::nothrow) Size[static_cast<std::size_t>(3 * count)]);
  if (own == nullptr) return PyErr_NoMemory();
  for (int i = 0; i < 3; ++i) {
    Size* const to = own.get() + i * count;
    std::copy_n(ranges[i], count, to);
    ranges[i] = to;
  }
  if (!copy(array(data), axis, array(out), ranges, count, false)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* gather_ranges(PyObject*, PyObject* const* args, Py_ssize_t argument_count) {
  if (argument_count != 5) return PyErr_Format(PyExc_TypeError, "gather_ranges takes 5 arguments");
  PyArrayObject* const data = array(args[0]);
  const bool by_lengths = args[3] == Py_True;
  const Size *starts, *ends;
  Size count = -1;
  if (!PyArray_CheckExact(args[0]) || PyDataType_REFCHK(PyArray_DESCR(data)) || PyArray_ITEMSIZE(data) == 0 ||
      !PyLong_CheckExact(args[4]) || !read_numbers(args[1], starts, count) || !read_numbers(args[2], ends, count)) {
    Py_RETURN_NONE;
  }
  const long axis = PyLong_AsLong(args[4]);
  if (axis == -1 && PyErr_Occurred()) PyErr_Clear();
  if (axis < 0 || axis >= PyArray_NDIM(data)) Py_RETURN_NONE;
  npy_intp places = count + 1;
  PyObject* const offsets = PyArray_SimpleNew(1, &places, NPY_INT64);
  const std::unique_ptr<Size[]> own(new (std::nothrow) Size[static_cast<std::size_t>(2 * count)]);
  if (offsets == nullptr || own == nullptr) {
    Py_XDECREF(offsets);
    return PyErr_NoMemory();
  }
  const Size size = PyArray_DIM(data, static_cast<int>(axis));
  auto* const offset = static_cast<Size*>(PyArray_DATA(array(offsets)));
  Size *const first = own.get(), *const length = first + count;
  bool fits = true;
  offset[0] = 0;
  for (Size r = 0; r < count && fits; ++r) {
    const Size start = starts[r], end = ends[r];  // read only once, because another thread may change them
    // If the difference wraps around, the range is refused, because its span is negative or its start is out of bounds.
    const Size span = by_lengths ? end : static_cast<Size>(static_cast<std::size_t>(end) - static_cast<std::size_t>(start));
    fits = span == 0 || (span > 0 && span <= size && start >= 0 && start <= size - span);
    fits = fits && offset[r] <= PTRDIFF_MAX - span;
    first[r] = start;
    length[r] = span;
    offset[r + 1] = fits ? offset[r] + span : 0;
  }
  PyObject* values = nullptr;
  if (fits) {
    const Size* const ranges[] = {first, length, offset};
    values = begun_anew_in_a_child([&] { return copy_to_new(data, static_cast<int>(axis), offset[count], ranges, count); });
  }
  if (values != nullptr) return Py_BuildValue("(NN)", values, offsets);
  Py_DECREF(offsets);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace ndgather
