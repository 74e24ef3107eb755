// call.cpp - see call.h.
#include "call.h"

#include <algorithm>

#include "calls.h"
#include "gil.h"

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

void plan_slices(Plan& plan, Kind kind, const Array& indexed, const Array& indices, const Array& dense, Size axis,
                 Size batch_dims) {
  switch (kind) {
    case Kind::gather_nd:
    case Kind::scatter_nd: plan_gather_nd(plan, indexed, indices, dense, batch_dims); break;
    case Kind::gather_elements:
    case Kind::scatter_elements: plan_gather_elements(plan, indexed, indices, dense, axis); break;
    case Kind::gather: plan_gather(plan, indexed, indices, dense, axis, batch_dims); break;
  }
}

BadEntry locate(const Outside& bad, const Plan& plan, const Array& data, const Array& indices, Size axis,
                Size batch_dims) {
  BadEntry entry;
  Size rest = bad.entry;
  entry.total = 1;
  for (int d = indices.rank - 1; d >= 0; --d) {
    entry.position[d] = rest % indices.shape[d];
    rest /= indices.shape[d];
    entry.total *= indices.shape[d];
  }
  entry.column = plan.tuples ? static_cast<int>(entry.position[indices.rank - 1]) : 0;
  entry.axis = plan.tuples ? batch_dims + entry.column : axis;
  entry.size = data.shape[entry.axis];
  return entry;
}

PyObject* facts_of(const Refusal& refusal) {
  return Py_BuildValue("(nn)", refusal.first, refusal.second);
}

PyObject* refused(const Refusal& refusal, PyObject* facts, PyObject* data, PyObject* indices,
                  const Shape& slices, PyObject* updates) {
  return Py_BuildValue("(ONNNNN)", PyTuple_GetItem(rule_names, static_cast<int>(refusal.rule)), facts,
                       data, indices, shape_tuple(slices.size, std::min(slices.rank, kMaxRank)), updates);
}

PyObject* refused_for_python() {
  return refused({Rule::fallback}, PyTuple_New(0), PyTuple_New(0), PyTuple_New(0), {}, PyTuple_New(0));
}

Refusal Call::read_options() {
  if (auto refusal = read_integer(given_[kAxis], kAxis, axis_)) return refusal;
  if (auto refusal = read_integer(given_[kBatchDims], kBatchDims, batch_dims_)) return refusal;
  return read_mode(given_[kMode], kind_, plan_.mode);
}

Refusal Call::read_shapes() {
  if (auto refusal = slices_shape(kind_, data_.array(), indices_.array(), axis_, batch_dims_, slices_)) {
    return refusal;
  }
  return {scatters(kind_) && !updates_.has_shape(slices_) ? Rule::updates_shape : Rule::none};
}

const Shape& Call::result_shape(Shape& whole) const {
  if (!scatters(kind_)) return slices_;
  whole.append(data_.array().shape, data_.array().rank);
  return whole;
}

Refusal Call::check_overlaps() {
  const Extent extent = out_.extent();
  in_place_ = scatters(kind_) && out_.has_memory_of(data_);
  const bool meets = extent.meets(indices_.extent()) || (!in_place_ && extent.meets(data_.extent())) ||
                     (scatters(kind_) && extent.meets(updates_.extent())) ||
                     (plan_.fill != nullptr && extent.meets({plan_.fill, plan_.fill + plan_.element}));
  return {meets ? Rule::out_overlaps_input : Rule::none};
}

Refusal Call::carry_out() {
  // A gather copies from data to the result; a scatter takes its updates to the copy of data.
  const Array& indexed = scatters(kind_) ? out_.array() : data_.array();
  const Array& dense = scatters(kind_) ? updates_.array() : out_.array();
  const Array& indices = indices_.array();
  plan_slices(plan_, kind_, indexed, indices, dense, axis_, batch_dims_);
  if (given_[kNegative] == Py_False) plan_.refuse_negative();
  return scatters(kind_) ? scatter() : gather();
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
    plan_copy(copy, data_.array(), out_.array(), plan_.element);
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
  const BadEntry entry = locate(bad_, plan_, data_.array(), indices_.array(), axis_, batch_dims_);
  const bool is_signed = plan_.index_type != IndexType::u64;
  PyObject* where = shape_tuple(entry.position, indices_.array().rank);
  PyObject* value = is_signed ? PyLong_FromLongLong(static_cast<long long>(bad_.value))
                              : PyLong_FromUnsignedLongLong(bad_.value);
  return Py_BuildValue("(NNnnnnn)", where, value, entry.axis, entry.size,
                       given_[kNegative] == Py_False ? 0 : -entry.size, bad_.count, entry.total);
}

}  // namespace ndgather
