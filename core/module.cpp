// module.cpp - the binding, and the only file that knows Python and NumPy.
//
// One crossing per call: arguments are looked at, the result is allocated, the plan is made and
// carried out. What does not fit is refused with a Rule and a few numbers; ndgather/errors has the words.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "memory.h"
#include "run.h"
#include "threads.h"

namespace {

using namespace ndgather;

static_assert(kMaxRank == NPY_MAXDIMS);
static_assert(sizeof(npy_intp) == sizeof(Size));

PyObject* refused_type;                 // _core.Refused
PyObject* mode_names[4];                // interned, in the order of Mode
PyObject* drop_name;                    // what Mode::fill is called where nothing is filled
PyObject* reduction_names[6];           // in the order of Reduction
PyObject* large_handler;                // a PyDataMem_Handler capsule over memory.h

// Work shorter than this keeps the GIL: giving it up and taking it back costs as much.
constexpr double kReleaseFrom = 10'000;  // nanoseconds
// Shorter work does not look out for signals.
constexpr double kStopFrom = 20'000'000;
static_assert(kReleaseFrom <= kStopFrom);

PyObject* refuse(Rule rule, Size first = 0, Size second = 0) {
  PyObject* facts = Py_BuildValue("inn", static_cast<int>(rule), first, second);
  if (facts != nullptr) {
    PyErr_SetObject(refused_type, facts);
    Py_DECREF(facts);
  }
  return nullptr;
}

PyObject* refuse(const Refusal& refusal) {
  return refuse(refusal.rule, refusal.first, refusal.second);
}

// ---------------------------------------------------------------------------------------------
// Arguments

// Which argument a refusal is about.
enum Argument : Size { kData, kIndices, kUpdates, kOption, kSecondOption, kFill, kOut };

PyArrayObject* array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

Array view(PyArrayObject* of) {
  return {static_cast<char*>(PyArray_DATA(of)), PyArray_NDIM(of),
          reinterpret_cast<const Size*>(PyArray_DIMS(of)),
          reinterpret_cast<const Size*>(PyArray_STRIDES(of))};
}

// A view with a shape and strides of its own: another thread may set the shape of an array whenever
// the GIL is given up, or a finaliser while the result is allocated.
struct Held {
  Size shape[kMaxRank], strides[kMaxRank];
  Array array;
  explicit Held(PyArrayObject* of) : array(view(of)) {
    bool none = false;
    for (int d = 0; d < array.rank; ++d) none |= (shape[d] = array.shape[d]) == 0;
    // Strides that nobody steps by may be any number, too large to be multiplied: they are 0 here.
    for (int d = 0; d < array.rank; ++d) strides[d] = none || shape[d] == 1 ? 0 : array.strides[d];
    array.shape = shape;
    array.strides = strides;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

bool option(PyObject* object, Argument which, Size& value) {
  // Without an exception type, integers beyond 64 bits are cut to the nearest that fits: out of
  // range all the same.
  value = PyNumber_AsSsize_t(object, nullptr);
  if (value != -1 || !PyErr_Occurred()) return true;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyErr_Clear();
  refuse(Rule::integer, which);
  return false;
}

// The place of a string in a list of interned ones; -1 if it is none of them.
int place_among(PyObject* object, PyObject* const* names, int count) {
  for (int n = 0; n < count; ++n) {
    if (object == names[n]) return n;
  }
  if (!PyUnicode_Check(object)) return -1;
  for (int n = 0; n < count; ++n) {
    if (PyUnicode_Compare(object, names[n]) == 0) return n;
  }
  return -1;
}

bool option(PyObject* object, Mode& mode) {
  const int place = place_among(object, mode_names, 4);
  if (place < 0) refuse(Rule::mode);
  mode = static_cast<Mode>(place);
  return place >= 0;
}

// The modes of a scatter: one of those that a gather has but fill, or drop.
bool scatter_option(PyObject* object, Mode& mode) {
  int place = place_among(object, mode_names, 3);
  if (place < 0 && place_among(object, &drop_name, 1) == 0) place = static_cast<int>(Mode::fill);
  if (place < 0) refuse(Rule::mode);
  mode = static_cast<Mode>(place);
  return place >= 0;
}

// The place of an integer type among i8, i16, i32, i64, u8, u16, u32, u64, as IndexType and
// ElementType begin.
int integer_place(PyArrayObject* of) {
  const int first = PyArray_DESCR(of)->kind == 'i' ? 0 : 4;
  switch (PyArray_ITEMSIZE(of)) {
    case 1: return first;
    case 2: return first + 1;
    case 4: return first + 2;
    default: return first + 3;
  }
}
static_assert(static_cast<int>(IndexType::u64) == 7 && static_cast<int>(ElementType::u64) == 7);

bool index_type(PyArrayObject* indices, IndexType& type) {
  const char kind = PyArray_DESCR(indices)->kind;
  if (kind != 'i' && kind != 'u') {
    refuse(Rule::index_dtype);
    return false;
  }
  if (PyArray_ISBYTESWAPPED(indices)) {
    refuse(Rule::convert, kIndices);
    return false;
  }
  type = static_cast<IndexType>(integer_place(indices));
  return true;
}

// ---------------------------------------------------------------------------------------------
// Memory of arrays

struct Bytes {
  const char* begin;
  const char* end;
};

Bytes bytes_of(const Array& of, Size element) {
  if (std::find(of.shape, of.shape + of.rank, 0) != of.shape + of.rank) return {of.bytes, of.bytes};
  Bytes bytes{of.bytes, of.bytes + element};
  for (int d = 0; d < of.rank; ++d) {
    const Size reach = (of.shape[d] - 1) * of.strides[d];
    (reach < 0 ? bytes.begin : bytes.end) += reach;
  }
  return bytes;
}

bool overlap(const Bytes& a, const Bytes& b) {
  return a.begin < b.end && b.begin < a.end && a.begin != a.end && b.begin != b.end;
}

// True unless the strides surely keep the elements of `of` apart: sorted by size, each stride
// steps over all that the smaller ones reach.
bool may_overlap_itself(const Array& of, Size element) {
  struct Reach {
    Size stride, size;
  } dims[kMaxRank];
  if (std::find(of.shape, of.shape + of.rank, 0) != of.shape + of.rank) return false;
  int rank = 0;
  for (int d = 0; d < of.rank; ++d) {
    if (of.shape[d] > 1) dims[rank++] = {of.strides[d] < 0 ? -of.strides[d] : of.strides[d],
                                         of.shape[d]};
  }
  std::sort(dims, dims + rank, [](const Reach& a, const Reach& b) { return a.stride < b.stride; });
  Size covered = element;
  for (int d = 0; d < rank; ++d) {
    if (dims[d].stride < covered) return true;
    covered += (dims[d].size - 1) * dims[d].stride;
  }
  return false;
}

// A new array of the type of `like`. Large ones live in reusable memory.
PyArrayObject* fresh(PyArrayObject* like, const Shape& shape) {
  const Size element = PyArray_ITEMSIZE(like);
  Size bytes = element;
  bool empty = false;
  for (int d = 0; d < shape.rank; ++d) {
    empty |= shape.size[d] == 0;
    if (shape.size[d] == 0) continue;  // NumPy wants the others to stay within bounds all the same
    if (bytes > PTRDIFF_MAX / shape.size[d]) {
      refuse(Rule::result_size);
      return nullptr;
    }
    bytes *= shape.size[d];
  }
  void* block = nullptr;
  if (!empty && bytes >= static_cast<Size>(memory::kLarge)) {
    // Without such a block NumPy is asked, and finds the words where it has no memory either.
    block = memory::allocate(static_cast<std::size_t>(bytes));
  }
  PyArray_Descr* descr = PyArray_DESCR(like);
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  auto* made = array(PyArray_NewFromDescr(
      &PyArray_Type, descr, shape.rank,
      reinterpret_cast<const npy_intp*>(shape.size), nullptr, block,
      block == nullptr ? 0 : NPY_ARRAY_CARRAY, nullptr));
  if (block == nullptr) return made;
  if (made == nullptr) {
    memory::release(block);
    return nullptr;
  }
  // The array owns its memory. Going by NumPy's current handler instead, set before and set back
  // after, would leave ours in place for all arrays to come where the way back finds no memory.
  reinterpret_cast<PyArrayObject_fields*>(made)->mem_handler = Py_NewRef(large_handler);
  PyArray_ENABLEFLAGS(made, NPY_ARRAY_OWNDATA);
  return made;
}

// Whether a given `out` can take the result: the right type and shape, and no memory shared with
// itself or with an input.
bool fits(PyObject* out, PyArrayObject* data, PyArrayObject* indices, const Shape& shape) {
  if (!PyArray_CheckExact(out)) {
    if (PyArray_Check(out)) {
      refuse(Rule::convert, kOut);
    } else {
      refuse(Rule::out_type);
    }
    return false;
  }
  auto* given = array(out);
  const Array of = view(given);
  const Size element = PyArray_ITEMSIZE(given);
  Rule rule = Rule::none;
  if (!PyArray_EquivTypes(PyArray_DESCR(given), PyArray_DESCR(data))) {
    rule = Rule::out_dtype;
  } else if (of.rank != shape.rank || !std::equal(of.shape, of.shape + of.rank, shape.size)) {
    rule = Rule::out_shape;
  } else if (!PyArray_ISWRITEABLE(given)) {
    rule = Rule::out_read_only;
  } else if (may_overlap_itself(of, element)) {
    rule = Rule::out_overlaps_itself;
  } else {
    const Bytes bytes = bytes_of(of, element);
    if (overlap(bytes, bytes_of(view(data), element)) ||
        overlap(bytes, bytes_of(view(indices), PyArray_ITEMSIZE(indices)))) {
      rule = Rule::out_overlaps_input;
    }
  }
  if (rule == Rule::none) return true;
  refuse(rule);
  return false;
}

// ---------------------------------------------------------------------------------------------
// Running

// Signal handlers run on the main thread alone, so only its calls ask for them.
bool is_main_thread() {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* main = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
  PyObject* ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
  const bool is_main = ident != nullptr && PyLong_Check(ident) &&
                       PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();
  PyErr_Clear();
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
  return is_main;
}

// Gives up the GIL around work that is worth it, and takes it back now and then during work that
// may be left half done, to see whether a signal handler raises.
class Unlocked {
 public:
  Unlocked(double nanoseconds, bool may_stop)
      : stops_(may_stop && nanoseconds >= kStopFrom && is_main_thread()),
        state_(nanoseconds >= kReleaseFrom ? PyEval_SaveThread() : nullptr) {}
  // At the end of the interpreter the wait for the GIL may end the thread by unwinding it.
  ~Unlocked() noexcept(false) {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  Stop* stop() noexcept { return stops_ ? &stop_ : nullptr; }

 private:
  static bool handler_raises(void* self) noexcept {
    PyThreadState*& state = static_cast<Unlocked*>(self)->state_;
    PyEval_RestoreThread(state);
    const bool raises = PyErr_CheckSignals() < 0;
    state = PyEval_SaveThread();
    return raises;
  }

  bool stops_;
  PyThreadState* state_;
  Stop stop_{handler_raises, this};
};

// Carries out `run` on a plan, without the GIL where that is worth it. True: the error of a signal
// handler is set, and what was done means nothing.
template <class Run>
bool stopped(const Plan& plan, bool may_stop, Run run) {
  Unlocked unlocked(nanoseconds(plan), may_stop);
  run(unlocked.stop());
  return unlocked.stop() != nullptr && unlocked.stop()->wanted();
}

// Looks at all entries of indices. False: one is out of bounds, and the error is set.
bool all_inside(const Plan& plan, const Array& indices) {
  Plan check;
  plan_check(check, plan, indices);
  Outside found;
  if (stopped(check, true, [&](Stop* stop) { found = run_check(check, stop); })) return false;
  if (found.count == 0) return true;
  PyObject* value = plan.index_type == IndexType::u64
                        ? PyLong_FromUnsignedLongLong(found.value)
                        : PyLong_FromLongLong(static_cast<long long>(found.value));
  PyObject* facts = Py_BuildValue("inNn", static_cast<int>(Rule::out_of_bounds), found.entry,
                                  value, found.count);
  if (facts != nullptr) {
    PyErr_SetObject(refused_type, facts);
    Py_DECREF(facts);
  }
  return false;
}

bool has_empty_column(const Plan& plan) {
  return std::any_of(plan.column, plan.column + plan.column_count,
                     [](const Column& column) { return column.extent == 0; });
}

bool is_empty(const Plan& plan) {
  return plan.positions == 0 || plan.width * plan.slice_elements() == 0;
}

// Looks at all entries before a call that writes into the caller's memory, or copies nothing. False:
// the error is set. Should another thread change an entry from now on, its place is filled with
// zeros, or its update dropped: the caller's memory is never left half written by an error.
bool check_first(Plan& plan, const Array& indices) {
  if (plan.mode == Mode::fill) return true;
  if ((plan.mode == Mode::raise || has_empty_column(plan)) && !all_inside(plan, indices)) {
    return false;
  }
  if (plan.mode == Mode::raise) plan.mode = Mode::fill;
  return true;
}

// After a loop has met a bad value: says which is the first.
bool explain_bad(const Plan& plan, const Array& indices) {
  if (all_inside(plan, indices)) refuse(Rule::indices_changed);
  return false;
}

// Carries out a gather. False: the error is set; a caller's `out` is as it was.
bool gather_into(Plan& plan, const Array& indices, bool callers_out) {
  const bool empty = is_empty(plan);
  if ((empty || callers_out) && !check_first(plan, indices)) return false;
  if (empty) return true;
  bool good = true;
  const auto run = [&](Stop* stop) { good = run_gather(plan, stop); };
  if (stopped(plan, !callers_out, run)) return false;
  return good || explain_bad(plan, indices);
}

enum class Kind { nd, elements, axis };

struct Options {
  PyObject *mode, *fill, *out, *negative;
};

PyObject* gather(Kind kind, PyObject* data_object, PyObject* indices_object, Size first,
                 Size second, const Options& options) {
  if (!PyArray_CheckExact(data_object)) return refuse(Rule::convert, kData);
  if (!PyArray_CheckExact(indices_object)) return refuse(Rule::convert, kIndices);
  auto* data = array(data_object);
  auto* indices = array(indices_object);

  Plan plan;
  if (!index_type(indices, plan.index_type)) return nullptr;
  if (!option(options.mode, plan.mode)) return nullptr;
  plan.element = plan.width = PyArray_ITEMSIZE(data);
  if (PyDataType_REFCHK(PyArray_DESCR(data)) || plan.element == 0) return refuse(Rule::references);

  const Held held_indices(indices), held_data(data);
  const Array &far = held_data.array, &index = held_indices.array;
  Shape shape;
  Refusal refusal;
  switch (kind) {
    case Kind::nd: refusal = shape_gather_nd(far, index, first, shape); break;
    case Kind::elements: refusal = shape_gather_elements(far, index, first, shape); break;
    case Kind::axis: refusal = shape_gather(far, index, first, second, shape); break;
  }
  if (refusal) return refuse(refusal);
  if (shape.rank > kMaxRank) return refuse(Rule::result_rank, shape.rank, kMaxRank);

  if (options.fill != Py_None) {
    // Python hands over one element of the type of data; see api.py.
    if (plan.mode != Mode::fill || !PyArray_CheckExact(options.fill) ||
        PyArray_NDIM(array(options.fill)) != 0 ||
        !PyArray_EquivTypes(PyArray_DESCR(array(options.fill)), PyArray_DESCR(data))) {
      return refuse(Rule::convert, kFill);
    }
    plan.fill = static_cast<const char*>(PyArray_DATA(array(options.fill)));
  }

  PyArrayObject* out;
  const bool callers_out = options.out != Py_None;
  if (callers_out) {
    if (!fits(options.out, data, indices, shape)) return nullptr;
    out = array(options.out);
    if (plan.fill != nullptr && overlap(bytes_of(view(out), plan.element),
                                        {plan.fill, plan.fill + plan.element})) {
      return refuse(Rule::convert, kFill);  // Python makes an element of its own
    }
    Py_INCREF(options.out);
  } else {
    out = fresh(data, shape);
    if (out == nullptr) return nullptr;
  }

  const Held held_out(out);
  const Array& near = held_out.array;
  switch (kind) {
    case Kind::nd: plan_gather_nd(plan, far, index, near, first); break;
    case Kind::elements: plan_gather_elements(plan, far, index, near, first); break;
    case Kind::axis: plan_gather(plan, far, index, near, first, second); break;
  }
  if (options.negative == Py_False) {
    for (int c = 0; c < plan.column_count; ++c) plan.column[c].lift = 0;
  }
  if (!gather_into(plan, index, callers_out)) {
    Py_DECREF(reinterpret_cast<PyObject*>(out));
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(out);
}

// ---------------------------------------------------------------------------------------------
// Scattering

// What the arithmetic needs to know of the elements of `data`. NumPy's own types speak for
// themselves; for others Python hands over a table of all results, or the name of bfloat16.
bool element_type(PyArrayObject* data, PyObject* arithmetic, Plan& plan, ElementType& type) {
  static constexpr struct {
    int number;
    ElementType type;
  } kTypes[] = {
      {NPY_BOOL, ElementType::boolean},
      {NPY_HALF, ElementType::f16},
      {NPY_FLOAT, ElementType::f32},
      {NPY_DOUBLE, ElementType::f64},
      {NPY_LONGDOUBLE, ElementType::long_double},
      {NPY_CFLOAT, ElementType::c64},
      {NPY_CDOUBLE, ElementType::c128},
      {NPY_CLONGDOUBLE, ElementType::complex_long_double},
  };
  type = ElementType::opaque;
  if (arithmetic != Py_None) {
    if (!PyArray_CheckExact(arithmetic)) {
      type = ElementType::bf16;
    } else {
      type = ElementType::table;
      plan.table = static_cast<const char*>(PyArray_DATA(array(arithmetic)));
    }
    return true;
  }
  if (PyArray_ISBYTESWAPPED(data)) return false;
  const char kind = PyArray_DESCR(data)->kind;
  if (kind == 'i' || kind == 'u') {
    type = static_cast<ElementType>(integer_place(data));
    return true;
  }
  for (const auto& known : kTypes) {
    if (PyArray_TYPE(data) == known.number) type = known.type;
  }
  return type != ElementType::opaque;
}

bool same_memory(PyArrayObject* a, PyArrayObject* b) {
  const Array first = view(a), second = view(b);
  return first.bytes == second.bytes && first.rank == second.rank &&
         std::equal(first.shape, first.shape + first.rank, second.shape) &&
         std::equal(first.strides, first.strides + first.rank, second.strides);
}

struct ScatterOptions {
  PyObject *reduction, *mode, *out, *negative, *arithmetic;
};

// `first` is batch_dims or axis, as the kind has it.
PyObject* scatter(Kind kind, PyObject* data_object, PyObject* indices_object,
                  PyObject* updates_object, Size first, const ScatterOptions& options) {
  if (!PyArray_CheckExact(data_object)) return refuse(Rule::convert, kData);
  if (!PyArray_CheckExact(indices_object)) return refuse(Rule::convert, kIndices);
  if (!PyArray_CheckExact(updates_object)) return refuse(Rule::convert, kUpdates);
  auto* data = array(data_object);
  auto* indices = array(indices_object);
  auto* updates = array(updates_object);

  Plan plan;
  if (!index_type(indices, plan.index_type)) return nullptr;
  if (!scatter_option(options.mode, plan.mode)) return nullptr;
  const int reduction_place = place_among(options.reduction, reduction_names, 6);
  if (reduction_place < 0) return refuse(Rule::reduction);
  const auto reduction = static_cast<Reduction>(reduction_place);
  plan.element = plan.width = PyArray_ITEMSIZE(data);
  if (PyDataType_REFCHK(PyArray_DESCR(data)) || plan.element == 0) return refuse(Rule::references);
  if (!PyArray_EquivTypes(PyArray_DESCR(updates), PyArray_DESCR(data))) {
    return refuse(Rule::updates_dtype);
  }
  auto type = ElementType::opaque;
  if (reduction != Reduction::none &&
      !element_type(data, options.arithmetic, plan, type)) {
    return refuse(Rule::reduction_type);
  }

  const Held held_indices(indices), held_data(data), held_updates(updates);
  const Array &index = held_indices.array, &source = held_data.array, &near = held_updates.array;
  Shape shape;
  const Refusal refusal = kind == Kind::nd
                              ? shape_gather_nd(source, index, first, shape)
                              : shape_gather_elements(source, index, first, shape);
  if (refusal) return refuse(refusal);
  if (!same_shape(near, shape)) return refuse(Rule::updates_shape);
  if (reduction != Reduction::none && engine().pick_store(plan, reduction, type) == nullptr) {
    return refuse(Rule::reduction_type);
  }

  Shape whole;
  whole.append(source.shape, source.rank);
  PyArrayObject* out;
  const bool callers_out = options.out != Py_None;
  bool in_place = false;
  if (callers_out) {
    in_place = PyArray_CheckExact(options.out) && same_memory(array(options.out), data);
    if (!fits(options.out, in_place ? updates : data, indices, whole)) return nullptr;
    out = array(options.out);
    if (overlap(bytes_of(view(out), plan.element), bytes_of(near, plan.element))) {
      return refuse(Rule::out_overlaps_input);
    }
    Py_INCREF(options.out);
  } else {
    out = fresh(data, whole);
    if (out == nullptr) return nullptr;
  }

  const Held held_out(out);
  const Array& far = held_out.array;
  if (kind == Kind::nd) {
    plan_gather_nd(plan, far, index, near, first);
  } else {
    plan_gather_elements(plan, far, index, near, first);
  }
  if (options.negative == Py_False) {
    for (int c = 0; c < plan.column_count; ++c) plan.column[c].lift = 0;
  }

  const bool empty = is_empty(plan);
  Scatter scatter(plan, reduction, type);
  const bool looks_later = !callers_out || (in_place && scatter.looks_first());
  bool good = (!empty && looks_later) || check_first(plan, index);
  if (good && !in_place) {
    Plan copy;
    plan_copy(copy, source, far, plan.element);
    good = scatter.replaces(copy) ||
           !stopped(copy, !callers_out, [&](Stop* stop) { run_gather(copy, stop); });
  }
  if (good && !empty) {
    bool inside = true;
    const auto run = [&](Stop* stop) { inside = scatter.run(stop); };
    good = !stopped(plan, !callers_out, run) && (inside || explain_bad(plan, index));
  }
  scatter.release();
  if (good) return reinterpret_cast<PyObject*>(out);
  Py_DECREF(reinterpret_cast<PyObject*>(out));
  return nullptr;
}

bool count_is(Py_ssize_t given, Py_ssize_t wanted) {
  if (given == wanted) return true;
  PyErr_Format(PyExc_TypeError, "%zd arguments are needed, %zd given", wanted, given);
  return false;
}

PyObject* gather_nd(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Size batch_dims;
  if (!count_is(count, 7) || !option(args[2], kOption, batch_dims)) return nullptr;
  return gather(Kind::nd, args[0], args[1], batch_dims, 0, {args[3], args[4], args[5], args[6]});
}

PyObject* gather_elements(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Size axis;
  if (!count_is(count, 7) || !option(args[2], kOption, axis)) return nullptr;
  return gather(Kind::elements, args[0], args[1], axis, 0, {args[3], args[4], args[5], args[6]});
}

PyObject* gather_axis(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Size axis, batch_dims;
  if (!count_is(count, 8) || !option(args[2], kOption, axis) ||
      !option(args[3], kSecondOption, batch_dims)) {
    return nullptr;
  }
  return gather(Kind::axis, args[0], args[1], axis, batch_dims,
                {args[4], args[5], args[6], args[7]});
}

PyObject* scatter_nd(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Size batch_dims;
  if (!count_is(count, 9) || !option(args[3], kOption, batch_dims)) return nullptr;
  return scatter(Kind::nd, args[0], args[1], args[2], batch_dims,
                 {args[4], args[5], args[6], args[7], args[8]});
}

PyObject* scatter_elements(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Size axis;
  if (!count_is(count, 9) || !option(args[3], kOption, axis)) return nullptr;
  return scatter(Kind::elements, args[0], args[1], args[2], axis,
                 {args[4], args[5], args[6], args[7], args[8]});
}

// ---------------------------------------------------------------------------------------------
// Public functions

// Public functions go straight to a function of the core, and to their Python form with what the
// core refuses. A frame of Python costs as much as a small gather.
struct Straight {
  static constexpr int kMost = 9;
  PyObject* python;
  PyObject* names[kMost];     // of the arguments of the core, interned
  PyObject* defaults[kMost];  // Ellipsis: has to be given
  Py_ssize_t count;
  Py_ssize_t positional;  // as many can be given by position
  Py_ssize_t required;    // as many have to be given
};

// In the order of the functions of the core. A function knows its place: a state of its own would
// keep it from being pickled.
using Core = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
constexpr Core kCores[] = {gather_nd, gather_elements, gather_axis, scatter_nd, scatter_elements};
constexpr int kStraights = std::size(kCores);
Straight straights[kStraights];

PyObject* call_python(const Straight& straight, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  PyObject* positional = PyTuple_New(count);
  PyObject* named = PyDict_New();
  bool good = positional != nullptr && named != nullptr;
  for (Py_ssize_t a = 0; good && a < count; ++a) {
    Py_INCREF(args[a]);
    PyTuple_SetItem(positional, a, args[a]);
  }
  const Py_ssize_t more = names != nullptr ? PyTuple_Size(names) : 0;
  for (Py_ssize_t n = 0; good && n < more; ++n) {
    good = PyDict_SetItem(named, PyTuple_GetItem(names, n), args[count + n]) == 0;
  }
  PyObject* result = good ? PyObject_Call(straight.python, positional, named) : nullptr;
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return result;
}

PyObject* call_straight(Core core, const Straight& straight, PyObject* const* args,
                        Py_ssize_t count, PyObject* names) {
  PyObject* given[Straight::kMost];
  bool known = count <= straight.positional;
  if (known) {
    std::copy_n(args, count, given);
    std::copy(straight.defaults + count, straight.defaults + straight.count, given + count);
  }
  const Py_ssize_t more = names != nullptr ? PyTuple_Size(names) : 0;
  for (Py_ssize_t n = 0; known && n < more; ++n) {
    PyObject* const* end = straight.names + straight.count;
    PyObject* const* found = std::find(straight.names + count, end, PyTuple_GetItem(names, n));
    known = found != end;
    if (known) given[found - straight.names] = args[count + n];
  }
  for (Py_ssize_t a = count; known && a < straight.required; ++a) known = given[a] != Py_Ellipsis;
  if (known) {
    PyObject* result = core(nullptr, given, straight.count);
    if (result != nullptr || !PyErr_ExceptionMatches(refused_type)) return result;
    PyErr_Clear();
  }
  return call_python(straight, args, count, names);
}

template <int Place>
PyObject* call_straight_at(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return call_straight(kCores[Place], straights[Place], args, count, names);
}

template <int... Places>
PyMethodDef* straight_methods(std::integer_sequence<int, Places...>) {
  static PyMethodDef methods[] = {
      {nullptr, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_straight_at<Places>)),
       METH_FASTCALL | METH_KEYWORDS, nullptr}...};
  return methods;
}

// straight(place, python, names, defaults, positional, doc, module): the public function.
PyObject* straight(PyObject*, PyObject* args) {
  int place;
  PyObject *python, *names, *defaults, *doc, *module;
  Py_ssize_t positional;
  if (!PyArg_ParseTuple(args, "iOO!O!nUO", &place, &python, &PyTuple_Type, &names, &PyTuple_Type,
                        &defaults, &positional, &doc, &module)) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_Size(names);
  if (place < 0 || place >= kStraights || count > Straight::kMost ||
      PyTuple_Size(defaults) != count || positional > count) {
    PyErr_SetString(PyExc_ValueError, "names and defaults do not fit");
    return nullptr;
  }
  PyObject* name = PyObject_GetAttrString(python, "__name__");
  PyObject* module_name = PyObject_GetAttrString(python, "__module__");
  if (name == nullptr || module_name == nullptr) {
    Py_XDECREF(name);
    Py_XDECREF(module_name);
    return nullptr;
  }
  // Kept for good: a second import, after the first was purged, leaves the functions of the first
  // with what is put here.
  for (PyObject* kept : {python, names, defaults, doc, name}) Py_INCREF(kept);
  Straight& to = straights[place];
  to.python = python;
  to.count = count;
  to.positional = positional;
  to.required = 0;
  for (Py_ssize_t n = 0; n < count; ++n) {
    to.names[n] = PyTuple_GetItem(names, n);
    to.defaults[n] = PyTuple_GetItem(defaults, n);
    if (to.defaults[n] == Py_Ellipsis) to.required = n + 1;
  }
  PyMethodDef& method =
      straight_methods(std::make_integer_sequence<int, kStraights>())[place];
  method.ml_name = PyUnicode_AsUTF8AndSize(name, nullptr);
  method.ml_doc = PyUnicode_AsUTF8AndSize(doc, nullptr);
  PyObject* function = PyCFunction_NewEx(&method, module, module_name);
  Py_DECREF(module_name);
  return function;
}

// ---------------------------------------------------------------------------------------------
// Settings

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(threads()); }

PyObject* set_num_threads(PyObject*, PyObject* count) {
  const long value = PyLong_AsLong(count);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  set_threads(static_cast<int>(std::clamp(value, 1L, 1024L)));
  Py_RETURN_NONE;
}

PyObject* get_memory_limit(PyObject*, PyObject*) { return PyLong_FromSize_t(memory::limit()); }

PyObject* set_memory_limit(PyObject*, PyObject* bytes) {
  const std::size_t value = PyLong_AsSize_t(bytes);
  if (value == static_cast<std::size_t>(-1) && PyErr_Occurred()) return nullptr;
  memory::set_limit(value);
  Py_RETURN_NONE;
}

PyObject* release_memory(PyObject*, PyObject*) {
  return PyLong_FromSize_t(memory::release_kept());
}

PyMethodDef methods[] = {
    {"gather_nd", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(gather_nd)),
     METH_FASTCALL,
     "gather_nd(data, indices, batch_dims, mode, fill, out, negative, /)\n--\n\n"},
    {"gather_elements",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(gather_elements)), METH_FASTCALL,
     "gather_elements(data, indices, axis, mode, fill, out, negative, /)\n--\n\n"},
    {"gather", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(gather_axis)),
     METH_FASTCALL,
     "gather(data, indices, axis, batch_dims, mode, fill, out, negative, /)\n--\n\n"},
    {"scatter_nd", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(scatter_nd)),
     METH_FASTCALL,
     "scatter_nd(data, indices, updates, batch_dims, reduction, mode, out, negative, arithmetic, "
     "/)\n--\n\n"},
    {"scatter_elements",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(scatter_elements)), METH_FASTCALL,
     "scatter_elements(data, indices, updates, axis, reduction, mode, out, negative, arithmetic, "
     "/)\n--\n\n"},
    {"straight", straight, METH_VARARGS,
     "straight(place, python, names, defaults, positional, doc, module, /)\n--\n\n"},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads()\n--\n\n"},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(count, /)\n--\n\n"},
    {"get_memory_limit", get_memory_limit, METH_NOARGS, "get_memory_limit()\n--\n\n"},
    {"set_memory_limit", set_memory_limit, METH_O, "set_memory_limit(bytes, /)\n--\n\n"},
    {"release_memory", release_memory, METH_NOARGS, "release_memory()\n--\n\n"},
    {nullptr, nullptr, 0, nullptr},
};

// ---------------------------------------------------------------------------------------------
// NumPy's interface to memory.h

void* handler_malloc(void*, std::size_t bytes) { return memory::allocate(bytes); }
void* handler_calloc(void*, std::size_t count, std::size_t size) {
  return memory::allocate_zeroed(count * size);
}
void* handler_realloc(void*, void* block, std::size_t bytes) {
  return memory::resize(block, bytes);
}
void handler_free(void*, void* block, std::size_t) { memory::release(block); }

PyDataMem_Handler handler = {
    "ndgather", 1, {nullptr, handler_malloc, handler_calloc, handler_realloc, handler_free}};

// Once in a process: a second import, after the first was purged, shares what the functions of the
// first still use.
int make_objects() {
  const char* names[] = {"raise", "wrap", "clip", "fill"};
  for (int m = 0; m < 4; ++m) {
    mode_names[m] = PyUnicode_InternFromString(names[m]);
    if (mode_names[m] == nullptr) return -1;
  }
  drop_name = PyUnicode_InternFromString("drop");
  if (drop_name == nullptr) return -1;
  const char* reductions[] = {"none", "add", "sub", "mul", "min", "max"};
  for (int r = 0; r < 6; ++r) {
    reduction_names[r] = PyUnicode_InternFromString(reductions[r]);
    if (reduction_names[r] == nullptr) return -1;
  }
  large_handler = PyCapsule_New(&handler, "mem_handler", nullptr);
  if (large_handler == nullptr) return -1;
  refused_type = PyErr_NewExceptionWithDoc(
      "ndgather._core.Refused", "A call that the core does not carry out: a Rule and its facts.",
      nullptr, nullptr);
  if (refused_type == nullptr) return -1;
  engine();
  prepare_threads();
  return 0;
}

int execute(PyObject* module) {
  if (PyArray_ImportNumPyAPI() < 0) return -1;
  if (refused_type == nullptr && make_objects() < 0) return -1;
  if (PyModule_AddObjectRef(module, "Refused", refused_type) < 0) return -1;
  static constexpr struct {
    const char* name;
    int value;
  } constants[] = {
      {"CONVERT", static_cast<int>(Rule::convert)},
      {"REFERENCES", static_cast<int>(Rule::references)},
      {"INDEX_DTYPE", static_cast<int>(Rule::index_dtype)},
      {"DATA_RANK", static_cast<int>(Rule::data_rank)},
      {"INDEX_RANK", static_cast<int>(Rule::index_rank)},
      {"RANKS_DIFFER", static_cast<int>(Rule::ranks_differ)},
      {"BATCH_DIMS", static_cast<int>(Rule::batch_dims)},
      {"AXIS", static_cast<int>(Rule::axis)},
      {"BATCH_SIZE", static_cast<int>(Rule::batch_size)},
      {"DEPTH", static_cast<int>(Rule::depth)},
      {"OFF_AXIS", static_cast<int>(Rule::off_axis)},
      {"RESULT_RANK", static_cast<int>(Rule::result_rank)},
      {"RESULT_SIZE", static_cast<int>(Rule::result_size)},
      {"MODE", static_cast<int>(Rule::mode)},
      {"OUT_TYPE", static_cast<int>(Rule::out_type)},
      {"OUT_DTYPE", static_cast<int>(Rule::out_dtype)},
      {"OUT_SHAPE", static_cast<int>(Rule::out_shape)},
      {"OUT_READ_ONLY", static_cast<int>(Rule::out_read_only)},
      {"OUT_OVERLAPS_ITSELF", static_cast<int>(Rule::out_overlaps_itself)},
      {"OUT_OVERLAPS_INPUT", static_cast<int>(Rule::out_overlaps_input)},
      {"OUT_OF_BOUNDS", static_cast<int>(Rule::out_of_bounds)},
      {"INDICES_CHANGED", static_cast<int>(Rule::indices_changed)},
      {"INTEGER", static_cast<int>(Rule::integer)},
      {"REDUCTION", static_cast<int>(Rule::reduction)},
      {"REDUCTION_TYPE", static_cast<int>(Rule::reduction_type)},
      {"UPDATES_SHAPE", static_cast<int>(Rule::updates_shape)},
      {"UPDATES_DTYPE", static_cast<int>(Rule::updates_dtype)},
      {"FIRST_OPTION", kOption},
      // Places among the straight functions.
      {"GATHER_ND", 0},
      {"GATHER_ELEMENTS", 1},
      {"GATHER", 2},
      {"SCATTER_ND", 3},
      {"SCATTER_ELEMENTS", 4},
  };
  for (const auto& constant : constants) {
    if (PyModule_AddIntConstant(module, constant.name, constant.value) < 0) return -1;
  }
  return 0;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(execute)},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "The engine of ndgather.", 0,
                          methods, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&definition); }
