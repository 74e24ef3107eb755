// calls.cpp - see calls.h. Arguments are read in turn, the result is allocated, the plan is made and
// carried out.
#include "calls.h"

#include <algorithm>

#include "arrays.h"
#include "gil.h"
#include "points.h"

namespace ndgather {

Refusal slices_shape(Kind kind, const Array& data, const Array& indices, Size& axis, Size& batch_dims,
                     Shape& slices) {
  Refusal refusal;
  switch (kind) {
    case Kind::gather_nd:
    case Kind::scatter_nd: refusal = shape_gather_nd(data, indices, batch_dims, slices); break;
    case Kind::gather_elements:
    case Kind::scatter_elements: refusal = shape_gather_elements(data, indices, axis, slices); break;
    case Kind::gather: refusal = shape_gather(data, indices, axis, batch_dims, slices); break;
  }
  if (!refusal && slices.rank > kMaxRank) return {Rule::result_rank, slices.rank, kMaxRank};
  return refusal;
}

PyObject* facts_of(const Refusal& refusal) {
  return Py_BuildValue("(nn)", refusal.first, refusal.second);
}

PyObject* refused(const Refusal& refusal, PyObject* facts, PyObject* data, PyObject* indices,
                  const Shape& slices, PyObject* updates) {
  return Py_BuildValue("(ONNNNN)", PyTuple_GetItem(rule_names, static_cast<int>(refusal.rule)), facts,
                       data, indices, shape_tuple(slices.size, std::min(slices.rank, kMaxRank)), updates);
}

namespace {

class Call {
 public:
  Call(Kind kind, PyObject* const* given) : kind_(kind), given_(given) {}

  PyObject* run() {
    Refusal refusal = read_arguments();
    if (!refusal) refusal = read_shapes();
    if (!refusal) refusal = provide_out();
    if (!refusal) refusal = carry_out();
    if (!refusal) return object(out_);
    Py_XDECREF(object(out_));
    return refusal.rule == Rule::raised ? nullptr : refused(refusal);
  }

  PyObject* sort_points(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions);

 private:
  Refusal read_arguments();
  Refusal read_shapes();
  Refusal provide_out();
  Refusal carry_out();
  Refusal gather();
  Refusal scatter();
  Refusal plan_points(PyObject* steps, PointGrid& grid);
  bool fits(const PointGrid& grid, Size begin, PyArrayObject* places, PyArrayObject* positions) const {
    const Size n = PyArray_SIZE(positions);
    return begin >= 0 && n <= plan_.positions - begin && n <= Size{UINT32_MAX} && PyArray_ITEMSIZE(positions) == 4 &&
           PyArray_SIZE(places) == n && PyArray_ITEMSIZE(places) == (grid.is_wide() ? 8 : 4) &&
           PyArray_ISCARRAY(places) && PyArray_ISCARRAY(positions);
  }
  void refuse_negative() {
    if (given_[kNegative] != Py_False) return;
    for (int c = 0; c < plan_.column_count; ++c) plan_.column[c].wrap = 0;
  }
  Refusal check_all();
  Refusal check_first();
  Refusal first_bad();
  PyObject* refused(const Refusal& refusal) const;
  PyObject* bad_entry() const;

  PyArrayObject* given(Argument which) const { return array(given_[which]); }

  const Kind kind_;
  PyObject* const* const given_;
  Plan plan_;
  Size axis_ = 0, batch_dims_ = 0;
  Reduction reduction_ = Reduction::none;
  ElementType type_ = ElementType::opaque;
  Shape slices_;
  ShapeSnapshot data_, indices_, updates_, out_snapshot_;
  PyArrayObject* out_ = nullptr;
  bool callers_out_ = false;
  bool in_place_ = false;  // a scatter into `data` itself
  Outside bad_;
};

Refusal Call::read_arguments() {
  if (!PyArray_CheckExact(given_[kData]) || !PyArray_CheckExact(given_[kIndices]) ||
      (scatters(kind_) && !PyArray_CheckExact(given_[kUpdates]))) {
    return {Rule::fallback};
  }
  PyArrayObject* data = given(kData);
  if (auto refusal = read_index_type(given(kIndices), plan_.index_type)) return refusal;
  if (auto refusal = read_integer(given_[kAxis], kAxis, axis_)) return refusal;
  if (auto refusal = read_integer(given_[kBatchDims], kBatchDims, batch_dims_)) return refusal;
  if (auto refusal = read_mode(given_[kMode], kind_, plan_.mode)) return refusal;
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
  return {};
}

Refusal Call::read_shapes() {
  data_.take(given(kData));
  indices_.take(given(kIndices));
  if (scatters(kind_)) updates_.take(given(kUpdates));
  if (auto refusal = slices_shape(kind_, data_.array(), indices_.array(), axis_, batch_dims_, slices_)) {
    return refusal;
  }
  return {scatters(kind_) && !updates_.has_shape(slices_) ? Rule::updates_shape : Rule::none};
}

// Takes the caller's `out`, or makes an array for the result.
Refusal Call::provide_out() {
  Shape whole;
  if (scatters(kind_)) whole.append(data_.array().shape, data_.array().rank);
  const Shape& shape = scatters(kind_) ? whole : slices_;
  PyObject* out = given_[kOut];
  callers_out_ = out != Py_None;
  if (callers_out_) {
    if (auto refusal = check_out(out, given(kData), shape)) return refusal;
    const Extent extent = extent_of(array(out));
    in_place_ = scatters(kind_) && same_memory(array(out), given(kData));
    if (extent.meets(extent_of(given(kIndices))) ||
        (!in_place_ && extent.meets(extent_of(given(kData)))) ||
        (scatters(kind_) && extent.meets(extent_of(given(kUpdates)))) ||
        (plan_.fill != nullptr && extent.meets({plan_.fill, plan_.fill + plan_.element}))) {
      return {Rule::out_overlaps_input};
    }
    out_ = array(Py_NewRef(out));
  } else if (auto refusal = make_array(given(kData), shape, out_)) {
    return refusal;
  }
  out_snapshot_.take(out_);
  return {};
}

Refusal Call::carry_out() {
  // A gather copies from data to the result; a scatter takes its updates to the copy of data.
  const Array& indexed = scatters(kind_) ? out_snapshot_.array() : data_.array();
  const Array& dense = scatters(kind_) ? updates_.array() : out_snapshot_.array();
  const Array& indices = indices_.array();
  switch (kind_) {
    case Kind::gather_nd:
    case Kind::scatter_nd: plan_gather_nd(plan_, indexed, indices, dense, batch_dims_); break;
    case Kind::gather_elements:
    case Kind::scatter_elements: plan_gather_elements(plan_, indexed, indices, dense, axis_); break;
    case Kind::gather: plan_gather(plan_, indexed, indices, dense, axis_, batch_dims_); break;
  }
  refuse_negative();
  return scatters(kind_) ? scatter() : gather();
}

PyObject* Call::sort_points(PyObject* steps, Size begin, PyArrayObject* places, PyArrayObject* positions) {
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
    list_groups(sorted, static_cast<Size*>(PyArray_DATA(array(chunks))), static_cast<Size*>(PyArray_DATA(array(starts))));
  }
  return Py_BuildValue("(NN)", chunks, starts);
}

// Plans offsets that hold coordinates on the axes which positions fix: those of index tuples, all axes of elements,
// else the batch axes and the one that is gathered.
Refusal Call::plan_points(PyObject* steps, PointGrid& grid) {
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
  if (tuples) {
    plan_gather_nd(plan_, packed, indices, none, batch_dims_);
  } else if (elements) {
    plan_gather_elements(plan_, packed, indices, none, axis_);
  } else {
    plan_gather(plan_, packed, indices, none, batch_dims_, batch_dims_);
  }
  refuse_negative();
  plan_.width = 1;
  simplify(plan_);
  return {};
}

Refusal Call::gather() {
  const bool empty = plan_.is_empty();
  if (empty || callers_out_) {
    if (auto refusal = check_first()) return refusal;
  }
  if (empty) return {};
  bool inside = true;
  const auto work = [&](Stop* stop) { inside = run_gather(plan_, stop); };
  if (stopped(nanoseconds(plan_), !callers_out_, work)) return {Rule::raised};
  return inside ? Refusal{} : first_bad();
}

Refusal Call::scatter() {
  const bool empty = plan_.is_empty();
  if (empty || callers_out_) {
    if (auto refusal = check_first()) return refusal;
  }
  if (!in_place_) {
    Plan copy;
    plan_copy(copy, data_.array(), out_snapshot_.array(), plan_.element);
    const auto work = [&](Stop* stop) { run_gather(copy, stop); };
    if (stopped(nanoseconds(copy), !callers_out_, work)) return {Rule::raised};
  }
  if (empty) return {};
  bool inside = true;
  const auto work = [&](Stop* stop) { inside = run_scatter(plan_, reduction_, type_, stop); };
  if (stopped(nanoseconds(plan_), !callers_out_, work)) return {Rule::raised};
  return inside ? Refusal{} : first_bad();
}

// Checks all entries of indices, and keeps the first that is out of bounds.
Refusal Call::check_all() {
  Plan check;
  plan_check(check, plan_, indices_.array());
  const auto work = [&](Stop* stop) { bad_ = run_check(check, stop); };
  if (stopped(nanoseconds(check), true, work)) return {Rule::raised};
  return {bad_.count > 0 ? Rule::out_of_bounds : Rule::none};
}

// Checks all entries before a call that writes into the caller's memory, or copies nothing. Should another
// thread change an entry from now on, its slice is filled with zeros, or its update dropped: the caller's
// memory is never left half written by an error.
Refusal Call::check_first() {
  if (plan_.mode == Mode::fill) return {};
  const bool names_nothing =
      std::any_of(plan_.column, plan_.column + plan_.column_count,
                  [](const IndexColumn& column) { return column.extent == 0; });
  if (plan_.mode == Mode::raise || names_nothing) {
    if (auto refusal = check_all()) return refusal;
  }
  if (plan_.mode == Mode::raise) plan_.mode = Mode::fill;
  return {};
}

// After a loop has met a bad value: finds the first, and counts them.
Refusal Call::first_bad() {
  const Refusal refusal = check_all();
  return refusal ? refusal : Refusal{Rule::indices_changed};
}

PyObject* Call::refused(const Refusal& refusal) const {
  PyObject* facts = refusal.rule == Rule::out_of_bounds ? bad_entry() : facts_of(refusal);
  return ndgather::refused(refusal, facts, data_.shape_tuple(), indices_.shape_tuple(), slices_,
                           updates_.shape_tuple());
}

// (position in indices, value, axis of data, its size, lowest allowed value, how many are out of bounds, of
// how many entries)
PyObject* Call::bad_entry() const {
  const Array& indices = indices_.array();
  Size position[kMaxRank];
  Size entry = bad_.entry, total = 1;
  for (int d = indices.rank - 1; d >= 0; --d) {
    position[d] = entry % indices.shape[d];
    entry /= indices.shape[d];
    total *= indices.shape[d];
  }
  const bool tuples = kind_ == Kind::gather_nd || kind_ == Kind::scatter_nd;
  const Size axis = tuples ? batch_dims_ + position[indices.rank - 1] : axis_;
  const Size size = data_.array().shape[axis];
  const bool is_signed = plan_.index_type != IndexType::u64;
  PyObject* where = shape_tuple(position, indices.rank);
  PyObject* value = is_signed ? PyLong_FromLongLong(static_cast<long long>(bad_.value))
                              : PyLong_FromUnsignedLongLong(bad_.value);
  return Py_BuildValue("(NNnnnnn)", where, value, axis, size,
                       given_[kNegative] == Py_False ? 0 : -size, bad_.count, total);
}

}  // namespace

PyObject* sort_points(Kind kind, PyObject* const* given, PyObject* steps, Size begin, PyArrayObject* places,
                      PyArrayObject* positions) {
  return Call(kind, given).sort_points(steps, begin, places, positions);
}

PyObject* run(Kind kind, PyObject* const* given) {
  for (;;) {
    const int before = forks();
    PyObject* const result = Call(kind, given).run();
    if (forks() == before || result == nullptr) return result;
    // This is the child of a signal handler that forked in the middle of the call: it begins anew, which it may, as
    // handlers run only while the result is nobody's yet.
    Py_DECREF(result);
  }
}

}  // namespace ndgather
