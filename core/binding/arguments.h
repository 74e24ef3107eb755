// arguments.h - reading arguments other than arrays: numbers, modes, reductions and element types.
//
// The names of kinds, arguments, modes and reductions are defined here. Python gets its lists from the core.
#pragma once

#include "../run.h"
#include "arrays.h"

namespace ndgather {

inline constexpr const char* kKindNames[] = {"gather_nd",  "gather_elements",  "gather",
                                             "scatter_nd", "scatter_elements", "gather_windows"};

// The arguments of a call. All operators have the same arguments and ignore those that do not apply.
enum Argument : int {
  // clang-format off
  kData, kIndices, kUpdates, kAxis, kBatchDims, kReduction, kMode, kFillValue, kUseInitVal, kOut,
  kNegative,    // whether negative indices count from the end
  kArithmetic,  // for element types that the core does not know: a table of all results, or the name of bfloat16
  kWindowShape,
  kMemory, kProgress, kExecutor,  // options for stored arrays, which the core passes on to Python
  // clang-format on
  kArgumentCount
};
inline constexpr const char* kArgumentNames[] = {
    "data",         "indices", "updates",  "axis",       "batch_dims",   "reduction", "mode",     "fill_value",
    "use_init_val", "out",     "negative", "arithmetic", "window_shape", "memory",    "progress", "executor"};
static_assert(std::size(kArgumentNames) == kArgumentCount);

// In the order of Mode. Mode::fill drops updates in a scatter.
inline constexpr const char* kGatherModeNames[] = {"raise", "wrap", "clip", "fill"};
inline constexpr const char* kScatterModeNames[] = {"raise", "wrap", "clip", "drop"};
static_assert(static_cast<int>(Mode::fill) == 3);

// In the order of Reduction.
inline constexpr const char* kReductionNames[] = {"none", "add", "sub", "mul", "min", "max"};
static_assert(static_cast<int>(Reduction::max) == 5);

// Interned names: a tuple for Python, and its entries as an array for fast access.
struct Names {
  PyObject* tuple = nullptr;
  int count = 0;
  PyObject* each[32];
};
extern Names kind_names, argument_names, gather_mode_names, scatter_mode_names, reduction_names, rule_names;

// Creates the tuples of names and the type of arguments, once per process. Unless stated otherwise, functions here that
// return bool return false with a Python exception set if they fail.
bool make_names();

// The operator and the arguments of a call, borrowed from a Python object of type `_core.Arguments`.
struct Given {
  Kind kind;
  PyObject* each[kArgumentCount];

  bool read(PyObject* arguments);
  bool is_gather_of_arrays() const {
    return kind <= Kind::gather && PyArray_CheckExact(each[kData]) && PyArray_CheckExact(each[kIndices]);
  }
};

extern PyTypeObject* arguments_type;
PyObject* make_arguments(Kind kind, PyObject* const* given);

// Sets an exception that refuses the arguments of an internal function, and returns null.
inline PyObject* do_not_fit(const char* what = "arguments") { return PyErr_Format(PyExc_ValueError, "%s do not fit", what); }

// Returns the position of a string among names, or -1.
int position_among(PyObject* object, const Names& names);

// Clears the exception of a function of another library or of an argument, if any, and returns `otherwise`, unless the
// exception is a MemoryError or must end the call.
Refusal forget_error(Refusal otherwise = {Rule::fallback});

// Reads an integer option. Other objects are refused by Rule::option_type with the number of the argument.
Refusal read_integer(PyObject* object, Argument which, Size& value);

Refusal read_mode(PyObject* object, Kind kind, Mode& mode);

// Reads a tuple of sizes.
bool read_shape(PyObject* tuple, Size* sizes, int& rank);

Refusal read_index_type(const View& indices, IndexType& type);

// Returns an integer type of IndexType or ElementType, which both begin with i8, i16, i32, i64, u8, u16, u32, u64.
template <class Type>
Type integer_type(bool is_signed, Size bytes) {
  static_assert(static_cast<int>(Type::u64) == 7);
  const int size = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return static_cast<Type>(size + (is_signed ? 0 : 4));
}

// Determines the element type of `data` for arithmetic. Returns false if the core does not support it.
bool read_element_type(const View& data, PyObject* arithmetic, Plan& plan, ElementType& type);

}  // namespace ndgather
