// calls.cpp - see calls.h. Arguments are read in turn, the result is allocated, the plan is made and
// carried out.
#include "calls.h"

#include <algorithm>

#include "call.h"
#include "exchange.h"
#include "gil.h"
#include "points.h"

namespace ndgather {
namespace {

// A call on NumPy arrays.
class ArrayCall : Call {
 public:
  ArrayCall(Kind kind, PyObject* const* given) : Call(kind, given) {}

  PyObject* run() {
    Refusal refusal = read_arguments();
    if (!refusal) refusal = read_shapes();
    if (!refusal) refusal = provide_out();
    if (!refusal) refusal = carry_out();
    if (!refusal) return object(made_);
    Py_XDECREF(object(made_));
    return refusal.rule == Rule::raised ? nullptr : refused(refusal);
  }

  PyObject* sort_points(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions);

 private:
  Refusal read_arguments();
  Refusal provide_out();
  Refusal plan_points(PyObject* steps, PointGrid& grid);
  bool fits(const PointGrid& grid, Size begin, PyArrayObject* places, PyArrayObject* positions) const {
    const Size n = PyArray_SIZE(positions);
    return begin >= 0 && n <= plan_.positions - begin && n <= Size{UINT32_MAX} && PyArray_ITEMSIZE(positions) == 4 &&
           PyArray_SIZE(places) == n && PyArray_ITEMSIZE(places) == (grid.is_wide() ? 8 : 4) &&
           PyArray_ISCARRAY(places) && PyArray_ISCARRAY(positions);
  }

  PyArrayObject* given(Argument which) const { return array(given_[which]); }

  PyArrayObject* made_ = nullptr;  // the result
};

Refusal ArrayCall::read_arguments() {
  PyArrayObject* data = given(kData);
  if (auto refusal = read_options()) return refusal;  // first: it may run code that changes the arrays
  if (auto refusal = read_index_type(given(kIndices), plan_.index_type)) return refusal;
  plan_.element = plan_.width = PyArray_ITEMSIZE(data);
  // References are counted, and elements without bytes have no address: NumPy moves these.
  if (PyDataType_REFCHK(PyArray_DESCR(data)) || plan_.element == 0) return {Rule::fallback};
  if (scatters(kind_)) {
    const int position = position_among(given_[kReduction], reduction_names);
    if (position < 0) return {Rule::fallback};  // mean, or unknown
    reduction_ = static_cast<Reduction>(position);
    if (!PyArray_EquivTypes(PyArray_DESCR(given(kUpdates)), PyArray_DESCR(data))) {
      return {Rule::fallback};
    }
    if (reduction_ != Reduction::none &&
        (given_[kUseInitVal] != Py_True ||
         !read_element_type(data, given_[kArithmetic], plan_, type_) ||
         loops().pick_store(plan_, reduction_, type_, false) == nullptr)) {
      return {Rule::fallback};
    }
  } else if (PyObject* fill = given_[kFillValue]; fill != Py_None) {
    if (plan_.mode != Mode::fill || !PyArray_CheckExact(fill) || PyArray_NDIM(array(fill)) != 0 ||
        !PyArray_EquivTypes(PyArray_DESCR(array(fill)), PyArray_DESCR(data))) {
      return {Rule::fallback};
    }
    plan_.fill = static_cast<const char*>(PyArray_DATA(array(fill)));
  }
  data_.take(data);
  indices_.take(given(kIndices));
  if (scatters(kind_)) updates_.take(given(kUpdates));
  return {};
}

// Takes the caller's `out`, or makes an array for the result.
Refusal ArrayCall::provide_out() {
  Shape whole;
  const Shape& shape = result_shape(whole);
  PyObject* out = given_[kOut];
  callers_out_ = out != Py_None;
  if (callers_out_) {
    if (auto refusal = view_out(out, given(kData), shape, out_)) return refusal;
    if (auto refusal = check_overlaps()) return refusal;
    made_ = array(Py_NewRef(out));
    return {};
  }
  if (auto refusal = make_array(given(kData), shape, made_)) return refusal;
  out_.take(made_);
  return {};
}

PyObject* ArrayCall::sort_points(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions) {
  Refusal refusal = read_arguments();
  if (!refusal) refusal = read_shapes();
  PointGrid grid;
  if (!refusal) refusal = plan_points(steps, grid);
  const Size n = PyArray_SIZE(positions);
  if (!refusal && !fits(grid, begin, places, positions)) {
    return PyErr_Format(PyExc_ValueError, "places or positions do not fit the points");
  }
  bool inside = true;
  SortedPoints sorted(refusal ? 0 : n);
  if (sorted.block == nullptr) return PyErr_NoMemory();
  if (!refusal) {
    GilRelease release(static_cast<double>(n) * 20, false);
    inside = ndgather::sort_points(plan_, grid, begin, sorted, PyArray_BYTES(places),
                                   static_cast<std::uint32_t*>(PyArray_DATA(positions)));
  }
  if (!inside) refusal = first_bad();
  if (refusal) return refusal.rule == Rule::raised ? nullptr : refused(refusal);
  npy_intp count = sorted.groups;
  PyObject* chunks = PyArray_SimpleNew(1, &count, NPY_INTP);
  PyObject* starts = PyArray_SimpleNew(1, &count, NPY_INTP);
  if (chunks != nullptr && starts != nullptr) {
    list_groups(sorted, static_cast<Size*>(PyArray_DATA(array(chunks))),
                static_cast<Size*>(PyArray_DATA(array(starts))));
  }
  return Py_BuildValue("(NN)", chunks, starts);
}

// Plans offsets that hold coordinates on the axes which positions fix: those of index tuples, all axes of elements,
// else the batch axes and the one that is gathered.
Refusal ArrayCall::plan_points(PyObject* steps, PointGrid& grid) {
  const Array& data = data_.array();
  const Array& indices = indices_.array();
  const bool tuples = kind_ == Kind::gather_nd, elements = kind_ == Kind::gather_elements;
  const Size depth = tuples ? indices.shape[indices.rank - 1] : 1;
  grid.rank = elements ? data.rank : static_cast<int>(batch_dims_ + depth);
  Size shape[kMaxRank], strides[kMaxRank];
  static constexpr Size nowhere[kMaxRank] = {};
  for (int d = 0; d < grid.rank; ++d) {
    shape[d] = data.shape[tuples || elements || d < batch_dims_ ? d : axis_];
    if (!read_axis(steps, d, shape[d], grid.axis[d])) return {Rule::raised};
  }
  if (!grid.complete()) {
    PyErr_SetString(PyExc_ValueError, "the coordinates have more than 63 bits");
    return {Rule::raised};
  }
  for (int d = 0; d < grid.rank; ++d) strides[d] = shape[d] > 1 ? Size{1} << grid.axis[d].shift : 0;
  const Array packed{nullptr, grid.rank, shape, strides}, none{nullptr, kMaxRank, nowhere, nowhere};
  plan_slices(plan_, kind_, packed, indices, none, elements ? axis_ : batch_dims_, batch_dims_);
  if (given_[kNegative] == Py_False) plan_.refuse_negative();
  plan_.width = 1;
  simplify(plan_);
  return {};
}

bool are_arrays(Kind kind, PyObject* const* given) {
  return PyArray_CheckExact(given[kData]) && PyArray_CheckExact(given[kIndices]) &&
         (!scatters(kind) || PyArray_CheckExact(given[kUpdates]));
}

// A signal handler may fork in the middle of a call. The child has lost the other threads and what they had begun: it
// leaves the call as if the handler had raised, and begins it anew. Handlers run only while nothing is written that is
// not the call's own.
template <class Attempt>
PyObject* begun_anew_in_a_child(Attempt attempt) {
  for (;;) {
    const int before = forks();
    PyObject* const result = attempt();
    if (result != nullptr || forks() == before || PyErr_Occurred() != nullptr) return result;
  }
}

}  // namespace

PyObject* sort_points(Kind kind, PyObject* const* given, PyObject* steps, Size begin, PyArrayObject* places,
                      PyArrayObject* positions) {
  if (!are_arrays(kind, given)) return refused_for_python();
  return begun_anew_in_a_child([&] { return ArrayCall(kind, given).sort_points(steps, begin, places, positions); });
}

PyObject* run(Kind kind, PyObject* const* given) {
  return begun_anew_in_a_child(
      [&] { return are_arrays(kind, given) ? ArrayCall(kind, given).run() : run_exchanged(kind, given); });
}

}  // namespace ndgather
