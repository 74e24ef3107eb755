// call.cpp - see call.h. A call reads its arguments, makes a plan, allocates the result and executes the plan.
#include "call.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "gil.h"

namespace ndgather {

PyTypeObject* refusal_type;

namespace {

// Whether an array of another library still matches its view.
bool describes(const dlpack::Tensor& tensor, const View& view) {
  View now;
  return now.take(tensor) && now.has_memory_of(view) && now.has_type_of(view);
}

bool is_still(PyObject* array, const View& view) {
  const Library* const library = library_of(array);
  dlpack::Tensor tensor;
  return library != nullptr && !library->describe(array, tensor) && describes(tensor, view);
}

}  // namespace

bool make_refusal_type() {
  static PyStructSequence_Field fields[] = {{"rule", nullptr},    {"facts", nullptr},  {"data", nullptr},
                                            {"indices", nullptr}, {"slices", nullptr}, {"updates", nullptr},
                                            {nullptr, nullptr}};
  static PyStructSequence_Desc description = {"ndgather._core.Refusal", "Why the core refuses a call.", fields, 6};
  refusal_type = PyStructSequence_NewType(&description);
  return refusal_type != nullptr;
}

PyObject* refused(const Refusal& refusal, PyObject* facts, const Array& data, const Array& indices, const Shape& slices,
                  const Array& updates) {
  PyObject* const fields = Py_BuildValue("(ONNNNN)", rule_names.each[static_cast<int>(refusal.rule)], facts,
                                         shape_tuple(data.shape, data.rank), shape_tuple(indices.shape, indices.rank),
                                         shape_tuple(slices.size, std::min(slices.rank, kMaxRank)),
                                         shape_tuple(updates.shape, updates.rank));
  return fields == nullptr ? nullptr : PyObject_CallFunction(reinterpret_cast<PyObject*>(refusal_type), "(N)", fields);
}

PyObject* facts_of(const Refusal& refusal) { return Py_BuildValue("(ii)", refusal.first(), refusal.second()); }

PyObject* refused_for_python() { return refused({Rule::fallback}, PyTuple_New(0), {}, {}, {}, {}); }

PyObject* run(Kind kind, PyObject* const* given) {
  return begun_anew_in_a_child([&] {
    Call call(kind, given);
    return or_sleep([&] { return call.run(); });
  });
}

Call::~Call() {
  // References in a failed result have not been counted, so they must not be released.
  if (references_ && result_ != nullptr) std::memset(out_.array().bytes, 0, PyArray_NBYTES(array(result_)));
  Py_XDECREF(result_);
  for (int n = 0; n < converted_count_; ++n) Py_XDECREF(object(converted_[n]));
  if (library_ == nullptr) return;
  for (dlpack::Managed* each : {exported_, made_, held_[0], held_[1], held_[2]}) {
    if (each != nullptr && each->deleter != nullptr) each->deleter(each);
  }
}

[[gnu::flatten]] PyObject* Call::run() {
#ifndef Py_GIL_DISABLED
  references_ = true;  // unless read_arguments() finds a reason against it
#endif
  if (const auto refusal = read_arguments()) return refused(refusal);
  if (const auto refusal = provide_out()) return refused(refusal);
  const bool foreign = library_ != nullptr;
  if (const auto refusal = foreign ? hold() : Refusal{}) return refused(refusal);
  if (const auto refusal = carry_out()) return refused(refusal);
  if (const auto refusal = foreign ? deliver() : Refusal{}) return refused(refusal);
  if (references_) std::for_each_n(reinterpret_cast<PyObject**>(out_.array().bytes), PyArray_SIZE(array(result_)), Py_IncRef);
  return std::exchange(result_, nullptr);
}

Refusal Call::read_options() {
  const bool elements = kind_ == Kind::gather_elements || kind_ == Kind::scatter_elements;
  if (elements || kind_ == Kind::gather) {
    if (auto refusal = read_integer(given_[kAxis], kAxis, options_.axis)) return refusal;
  }
  if (!elements) {
    if (auto refusal = read_integer(given_[kBatchDims], kBatchDims, options_.batch_dims)) return refusal;
  }
  if (kind_ == Kind::gather_windows && !read_shape(given_[kWindowShape], options_.window, options_.window_rank)) {
    return {Rule::raised};
  }
  return read_mode(given_[kMode], kind_, plan_.mode);
}

[[gnu::noinline]] Refusal Call::view_list(PyObject* object, View& view) {
  PyArrayObject*& converted = converted_[converted_count_++] = nullptr;
  const Refusal refusal = make_array_of_lists(object, converted);
  if (!refusal) view.take(converted);
  return refusal;
}

Refusal Call::view(PyObject* object, View& view) {
  if (PyArray_CheckExact(object)) {
    view.take(array(object));
    return {};
  }
  const Library* const library = library_of(object);
  if (library == nullptr) return view_list(object, view);
  if (library != library_) {
    if (auto refusal = library->refuse_transforms()) return refusal;
    library_ = library;
  }
  const Refusal refusal = library->borrow(object, view);
  if (refusal.rule != Rule::gradient) return refusal;
  records_ = true;
  return {};
}

// Views updates or a fill value. Numbers and lists are converted to the dtype of data.
Refusal Call::view_held(PyObject* object, View& view) {
  const int before = converted_count_;
  const Refusal refusal = this->view(object, view);
  if (refusal || converted_count_ == before || view.has_type_of(data_)) return refusal;
  const Refusal unfit = convert_numbers(converted_[before], data_);
  if (!unfit) view.take(converted_[before]);
  return unfit;
}

Refusal Call::read_arguments() {
  // Options come first, because an __index__ method may run arbitrary code, and viewed arrays are not protected from it.
  if (auto refusal = read_options()) return refusal;
  if (auto refusal = view(given_[kIndices], indices_)) return refusal;
  if (auto refusal = view(given_[kData], data_)) return refusal;
  if (scatters(kind_)) {
    if (auto refusal = view_held(given_[kUpdates], updates_)) return refusal;
  }
  if (auto refusal = read_index_type(indices_, plan_.index_type)) return refusal;
  plan_.element = plan_.width = data_.element();
  const bool special = data_.numpy() != nullptr && (plan_.element == 0 || PyDataType_REFCHK(PyArray_DESCR(data_.numpy())));
  references_ = references_ && special && PyArray_TYPE(data_.numpy()) == NPY_OBJECT && !scatters(kind_) &&
                given_[kOut] == Py_None && plan_.mode != Mode::fill;
  if (special && !references_) return {Rule::fallback};  // NumPy moves other references, and elements of zero bytes
  if (scatters(kind_)) {
    const int position = position_among(given_[kReduction], reduction_names);
    if (position < 0) return {Rule::fallback};  // mean, or unknown
    reduction_ = static_cast<Reduction>(position);
    if (!updates_.has_type_of(data_)) return {Rule::fallback};
    if (reduction_ != Reduction::none &&
        (given_[kUseInitVal] != Py_True || !read_element_type(data_, given_[kArithmetic], plan_, type_) ||
         loops().pick_store(plan_, reduction_, type_, false) == nullptr)) {
      return {Rule::fallback};
    }
  } else if (PyObject* const fill = given_[kFillValue]; fill != Py_None) {
    View element;
    if (plan_.mode != Mode::fill) return {Rule::fallback};
    if (auto refusal = view_held(fill, element)) return refusal;
    if (element.array().rank != 0 || !element.has_type_of(data_)) return {Rule::fallback};
    plan_.fill = element.array().bytes;
    if (element.numpy() == nullptr) {  // copied, because nothing keeps its memory alive
      if (plan_.element > Size{sizeof fill_} || !is_still(fill, element)) return {Rule::fallback};
      std::copy_n(plan_.fill, plan_.element, fill_);
      plan_.fill = fill_;
    }
  }
  if (!records_) return read_shapes();
  const bool by_library = indices_.numpy() == nullptr && data_.numpy() == nullptr && updates_.numpy() == nullptr;
  const bool is_plain = given_[kOut] == Py_None && plan_.fill == nullptr;
  return {by_library && is_plain ? Rule::gradient : Rule::fallback};
}

Refusal Call::read_shapes() {
  if (auto refusal = slices_shape(kind_, data_.array(), indices_.array(), options_, slices_)) return refusal;
  for (int d = 0; d < options_.window_rank && plan_.mode != Mode::fill; ++d) {
    const Size axis = options_.batch_dims + d;
    if (options_.window[d] > data_.array().shape[axis]) return {Rule::window_size, axis};
  }
  return {scatters(kind_) && !updates_.has_shape(slices_) ? Rule::updates_shape : Rule::none};
}

// Views the caller's `out`, or allocates the result.
Refusal Call::provide_out() {
  Shape whole;
  if (scatters(kind_)) whole.append(data_.array().shape, data_.array().rank);
  const Shape& shape = scatters(kind_) ? whole : slices_;
  callers_out_ = given_[kOut] != Py_None;
  if (callers_out_) return view_out(shape);
  if (data_.numpy() != nullptr) {
    PyArrayObject* made = nullptr;
    if (auto refusal = make_array(data_.numpy(), shape, made)) return refusal;
    result_ = object(made);
    out_.borrow(made);
    return {};
  }
  Size bytes;
  bool empty;
  if (!count_bytes(shape, plan_.element, bytes, empty)) return {Rule::result_size};
  made_ = make_managed(shape, data_.type(), empty ? 0 : bytes);
  if (made_ == nullptr) return {Rule::result_size};
  out_.take(made_->tensor);
  return {};
}

Refusal Call::view_out(const Shape& shape) {
  PyObject* const out = given_[kOut];
  const Library* const library = library_ != nullptr ? library_of(out) : nullptr;
  if ((library == nullptr) != (data_.numpy() != nullptr)) return {Rule::fallback};  // data belongs to another library
  if (library == nullptr) {
    if (auto refusal = ndgather::view_out(out, data_, shape, out_)) return refusal;
    // The caller's bytes between the fields of records must not change.
    if (PyDataType_HASFIELDS(PyArray_DESCR(out_.numpy()))) return {Rule::fallback};
  } else {
    if (converted_count_ > 0) return {Rule::fallback};  // Python then checks the storage of `out`
    // A borrowed view does not show whether the array is writeable.
    if (auto refusal = library->export_managed(out, exported_)) return refusal;
    if (auto refusal = view(out, out_)) return refusal;
    if (records_) return {Rule::fallback};
    if (!out_.has_type_of(data_)) return {Rule::out_dtype};
    if (auto refusal = out_.refuse_as_out(shape, (exported_->flags & dlpack::kReadOnly) == 0)) return refusal;
  }
  // `out` must not share memory with an input that is still being read while `out` is written.
  const Extent extent = out_.extent();
  in_place_ = scatters(kind_) && out_.has_memory_of(data_);
  if (extent.meets(indices_.extent()) || (!in_place_ && extent.meets(data_.extent())) ||
      (scatters(kind_) && extent.meets(updates_.extent())) ||
      (plan_.fill != nullptr && extent.meets({plan_.fill, plan_.fill + plan_.element}))) {
    return {Rule::out_overlaps_input};
  }
  result_ = Py_NewRef(out);
  return {};
}

// Exports arrays of other libraries, which keeps their memory alive, if the GIL may be released. Calls into these libraries,
// and finalizers, may have run arbitrary code. If an array no longer matches its view, the call is left to Python.
Refusal Call::hold() {
  constexpr double kMany = 1'000;  // elements and index values
  const auto count = [](const Size* shape, int rank) {
    return std::accumulate(shape, shape + rank, 1., std::multiplies<double>());
  };
  holds_ = count(slices_.size, slices_.rank) + count(indices_.array().shape, indices_.array().rank) +
               (scatters(kind_) ? count(data_.array().shape, data_.array().rank) : 0) >
           kMany;
#ifdef Py_GIL_DISABLED
  holds_ = true;
#endif
  const std::pair<PyObject*, const View&> inputs[] = {
      {given_[kIndices], indices_}, {given_[kData], data_}, {given_[kUpdates], updates_}};
  for (int n = 0; n < (scatters(kind_) ? 3 : 2); ++n) {
    const auto& [of, view] = inputs[n];
    if (view.numpy() != nullptr) continue;
    const Library* const library = library_of(of);
    if (library == nullptr) return {Rule::fallback};
    if (holds_) {
      if (auto refusal = library->export_managed(of, held_[n])) return refusal;
    }
    if (holds_ ? !describes(held_[n]->tensor, view) : !is_still(of, view)) return {Rule::fallback};
  }
  return {exported_ != nullptr && !describes(exported_->tensor, out_) ? Rule::fallback : Rule::none};
}

double Call::work_ns(const Plan& plan) const {
  if ((library_ != nullptr && !holds_) || references_) return 0;
  // Memory that NumPy has allocated is not mapped from a file, so short work takes no longer than estimated.
  const auto owns = [](const View& view) {
    return view.numpy() != nullptr && PyArray_CHKFLAGS(view.numpy(), NPY_ARRAY_OWNDATA);
  };
  const double work = nanoseconds(plan);
  const bool is_sure = owns(data_) && owns(indices_) && (!scatters(kind_) || owns(updates_));
  return work < kReleaseFrom && is_sure ? 0 : work;
}

Refusal Call::carry_out() {
  const Array& indexed = scatters(kind_) ? out_.array() : data_.array();
  const Array& dense = scatters(kind_) ? updates_.array() : out_.array();
  const Array& indices = indices_.array();
  plan_slices(plan_, kind_, indexed, indices, dense, options_);
  if (given_[kNegative] == Py_False) plan_.refuse_negative();
  return scatters(kind_) ? scatter() : gather();
}

void Call::plan_coordinates(const Array& axes, const Options& options) {
  static constexpr Size nowhere[kMaxRank] = {};
  plan_slices(plan_, kind_, axes, indices_.array(), {nullptr, kMaxRank, nowhere, nowhere}, options);
  if (given_[kNegative] == Py_False) plan_.refuse_negative();
  plan_.width = 1;
  loop_over_slices(plan_);
  simplify(plan_);
}

Refusal Call::gather() {
  if (plan_.is_empty()) return check_first();
  plan_.all_or_nothing = callers_out_;
  bool inside = true;
  const auto work = [&](Stop* stop) { inside = run_gather(plan_, stop); };
  if (stopped(work_ns(plan_), true, work)) return {Rule::raised};
  return inside ? Refusal{} : first_bad();
}

Refusal Call::scatter() {
  const bool empty = plan_.is_empty();
  if (empty || (callers_out_ && !in_place_)) {
    if (auto refusal = check_first()) return refusal;
  }
  plan_.all_or_nothing = in_place_;
  if (!in_place_) {
    Plan copy;
    plan_copy(copy, data_.array(), out_.array(), plan_.element);
    const auto work = [&](Stop* stop) { run_gather(copy, stop); };
    if (stopped(work_ns(copy), !callers_out_, work)) return {Rule::raised};
  }
  if (empty) return {};
  bool inside = true;
  const auto work = [&](Stop* stop) { inside = run_scatter(plan_, reduction_, type_, stop); };
  if (stopped(work_ns(plan_), !callers_out_ || in_place_, work)) return {Rule::raised};
  return inside ? Refusal{} : first_bad();
}

// Checks all entries of indices, and stores the first out-of-bounds entry.
Refusal Call::check_all() {
  Plan check;
  plan_check(check, plan_, indices_.array());
  const auto work = [&](Stop* stop) { bad_ = run_check(check, stop); };
  if (stopped(work_ns(check), true, work)) return {Rule::raised};
  return {bad_.count > 0 ? Rule::out_of_bounds : Rule::none};
}

// Checks all entries before a call that copies data to the caller's `out`, or that moves nothing.
Refusal Call::check_first() {
  if (plan_.mode == Mode::fill) return {};
  const bool names_nothing = std::any_of(plan_.column, plan_.column + plan_.column_count,
                                         [](const IndexColumn& column) { return column.extent == 0; });
  if (plan_.mode == Mode::raise || names_nothing) {
    if (auto refusal = check_all()) return refusal;
  }
  plan_.checked = plan_.mode == Mode::raise;
  return {};
}

// Finds and counts the out-of-bounds entries after a loop has stopped at one.
Refusal Call::first_bad() {
  const Refusal refusal = check_all();
  return refusal ? refusal : Refusal{Rule::indices_changed};
}

// Converts the result to an array of its library, or notifies the library that `out` has changed.
Refusal Call::deliver() {
  if (made_ != nullptr) {
    const Library* const made_for = library_of(given_[kData]);
    if (made_for == nullptr) return {Rule::fallback};
    return made_for->import_managed(std::exchange(made_, nullptr), result_);
  }
  const Library* const library = exported_ != nullptr ? library_of(result_) : nullptr;
  if (library == nullptr || library->written == Py_None) return {};
  PyObject* const answer = PyObject_CallFunctionObjArgs(library->written, result_, nullptr);
  Py_XDECREF(answer);
  return {answer == nullptr ? Rule::raised : Rule::none};
}

PyObject* Call::refused(const Refusal& refusal) const {
  if (refusal.rule == Rule::raised) return nullptr;
  if (converted_count_ > 0 && (refusal.rule == Rule::index_dtype || refusal.rule == Rule::out_dtype)) {
    return refused_for_python();  // Python's error text names the dtype of a list
  }
  PyObject* facts = refusal.rule == Rule::out_of_bounds ? bad_entry() : facts_of(refusal);
  return ndgather::refused(refusal, facts, data_.array(), indices_.array(), slices_, updates_.array());
}

// Returns a tuple: position in indices, value, axis of data and its size, lowest allowed value, number of out-of-bounds
// entries, and number of all entries.
PyObject* Call::bad_entry() const {
  const BadEntry entry = locate(bad_, plan_, data_.array(), indices_.array(), options_);
  const bool is_signed = plan_.index_type != IndexType::u64;
  PyObject* where = shape_tuple(entry.position, indices_.array().rank);
  PyObject* value = is_signed ? PyLong_FromLongLong(static_cast<long long>(bad_.value))
                              : PyLong_FromUnsignedLongLong(bad_.value);
  const bool negative = given_[kNegative] != Py_False && kind_ != Kind::gather_windows;
  return Py_BuildValue("(NNnnnnn)", where, value, entry.axis, entry.size, negative ? -entry.size : 0, bad_.count,
                       entry.total);
}

}  // namespace ndgather
