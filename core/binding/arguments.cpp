// arguments.cpp - see arguments.h.
#include "arguments.h"

#include <algorithm>

namespace ndgather {

PyTypeObject* arguments_type;
Names kind_names, argument_names, gather_mode_names, scatter_mode_names, reduction_names, rule_names;

namespace {

template <int Count>
bool make_tuple(Names& made, const char* const (&names)[Count]) {
  static_assert(Count <= std::size(Names{}.each));
  PyObject* tuple = PyTuple_New(Count);
  for (int n = 0; tuple != nullptr && n < Count; ++n) {
    PyObject* name = PyUnicode_InternFromString(names[n]);
    if (name == nullptr) {
      Py_DECREF(tuple);
      return false;
    }
    PyTuple_SetItem(tuple, n, made.each[n] = name);
  }
  made.tuple = tuple;
  made.count = Count;
  return tuple != nullptr;
}

}  // namespace

bool make_names() {
  static PyStructSequence_Field fields[kArgumentCount + 2] = {{"kind", nullptr}};
  for (int a = 0; a < kArgumentCount; ++a) fields[1 + a] = {kArgumentNames[a], nullptr};
  PyStructSequence_Desc description = {"ndgather._core.Arguments", "A call.", fields, 1 + kArgumentCount};
  arguments_type = PyStructSequence_NewType(&description);
  return arguments_type != nullptr && make_tuple(kind_names, kKindNames) && make_tuple(argument_names, kArgumentNames) &&
         make_tuple(gather_mode_names, kGatherModeNames) && make_tuple(scatter_mode_names, kScatterModeNames) &&
         make_tuple(reduction_names, kReductionNames) && make_tuple(rule_names, kRuleNames);
}

PyObject* make_arguments(Kind kind, PyObject* const* given) {
  PyObject* const made = PyStructSequence_New(arguments_type);
  if (made == nullptr) return nullptr;
  PyStructSequence_SetItem(made, 0, Py_NewRef(kind_names.each[static_cast<int>(kind)]));
  for (int a = 0; a < kArgumentCount; ++a) PyStructSequence_SetItem(made, 1 + a, Py_NewRef(given[a]));
  return made;
}

bool Given::read(PyObject* arguments) {
  const bool is_call = Py_TYPE(arguments) == arguments_type;
  const int position = is_call ? position_among(PyStructSequence_GetItem(arguments, 0), kind_names) : -1;
  if (position < 0) return do_not_fit() != nullptr;
  kind = static_cast<Kind>(position);
  for (int a = 0; a < kArgumentCount; ++a) each[a] = PyStructSequence_GetItem(arguments, 1 + a);
  return true;
}

int position_among(PyObject* object, const Names& names) {
  for (int n = 0; n < names.count; ++n) {
    if (object == names.each[n]) return n;
  }
  for (int n = 0; n < names.count && PyUnicode_Check(object); ++n) {
    if (PyUnicode_Compare(object, names.each[n]) == 0) return n;
  }
  return -1;
}

Refusal forget_error(Refusal otherwise) {
  if (PyErr_Occurred() != nullptr &&
      (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))) {
    return {Rule::raised};
  }
  PyErr_Clear();
  return otherwise;
}

Refusal read_integer(PyObject* object, Argument which, Size& value) {
  // With no exception type given, an integer beyond 64 bits becomes the nearest 64-bit integer, which is also out of range.
  value = PyNumber_AsSsize_t(object, nullptr);
  return value != -1 || !PyErr_Occurred() ? Refusal{} : forget_error({Rule::option_type, which});
}

Refusal read_mode(PyObject* object, Kind kind, Mode& mode) {
  const int position = position_among(object, scatters(kind) ? scatter_mode_names : gather_mode_names);
  mode = static_cast<Mode>(position);
  return {position < 0 || (kind == Kind::gather_windows && mode == Mode::wrap) ? Rule::mode : Rule::none};
}

bool read_shape(PyObject* tuple, Size* sizes, int& rank) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  rank = static_cast<int>(std::min<Py_ssize_t>(count, kMaxRank));
  if (count > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "a shape has %zd axes (allowed: at most %d)", count, kMaxRank);
  }
  for (int d = 0; d < rank && !PyErr_Occurred(); ++d) {
    sizes[d] = PyNumber_AsSsize_t(PyTuple_GetItem(tuple, d), nullptr);  // a size beyond 64 bits is refused later
    if (sizes[d] < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a size is negative");
  }
  return !PyErr_Occurred();
}

Refusal read_index_type(const View& indices, IndexType& type) {
  const char kind = indices.kind();
  const Size bytes = indices.element();
  if ((kind == 'i' || kind == 'u') && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)) {
    type = integer_type<IndexType>(kind == 'i', bytes);
    return {};
  }
  const bool is_swapped = indices.numpy() != nullptr && PyArray_ISBYTESWAPPED(indices.numpy()) &&
                          PyTypeNum_ISINTEGER(PyArray_TYPE(indices.numpy()));
  // An empty list of index tuples is often written as np.empty((0, 2)), which has dtype float64. Python also decides about
  // types that NumPy lacks, such as 8-bit floats.
  const bool is_unknown = kind == 0 && indices.numpy() == nullptr;
  const bool is_empty_list = indices.is_empty() && (kind == 'f' || kind == kBfloat || is_unknown);
  return {is_swapped || is_empty_list ? Rule::fallback : Rule::index_dtype};
}

bool read_element_type(const View& data, PyObject* arithmetic, Plan& plan, ElementType& type) {
  static constexpr struct {
    char kind;
    std::size_t bytes;
    ElementType type;
  } kTypes[] = {
      {'b', 1, ElementType::boolean},
      {'f', 2, ElementType::f16},
      {kBfloat, 2, ElementType::bf16},
      {'f', 4, ElementType::f32},
      {'f', 8, ElementType::f64},
      {'f', sizeof(long double), ElementType::long_double},
      {'c', 8, ElementType::c64},
      {'c', 16, ElementType::c128},
      {'c', 2 * sizeof(long double), ElementType::complex_long_double},
  };
  if (PyArray_CheckExact(arithmetic)) {  // a table with a one-byte result for each pair of one-byte elements
    if (data.element() != 1 || PyArray_NBYTES(array(arithmetic)) != 256 * 256 ||
        !PyArray_IS_C_CONTIGUOUS(array(arithmetic))) {
      return false;
    }
    plan.table = static_cast<const char*>(PyArray_DATA(array(arithmetic)));
    type = ElementType::table;
    return true;
  }
  const char kind = arithmetic == Py_None ? data.kind() : kBfloat;
  const Size bytes = data.element();
  if (kind == 'i' || kind == 'u') {
    type = integer_type<ElementType>(kind == 'i', bytes);
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  }
  for (const auto& known : kTypes) {
    if (known.kind != kind || known.bytes != static_cast<std::size_t>(bytes)) continue;
    type = known.type;
    return true;
  }
  return false;
}

}  // namespace ndgather
