// arguments.h - what a caller gives besides arrays: numbers, modes, reductions, types of elements.
//
// The names of kinds, arguments, modes and reductions stand here once; Python gets its lists from these.
#pragma once

#include "../run.h"
#include "arrays.h"

namespace ndgather {

inline constexpr const char* kKindNames[] = {"gather_nd",  "gather_elements",  "gather",
                                             "scatter_nd", "scatter_elements", "gather_windows"};

// The arguments of a call, which are the same for all kinds; a kind ignores those that it does not have.
enum Argument : int {
  // clang-format off
  kData, kIndices, kUpdates, kAxis, kBatchDims, kReduction, kMode, kFillValue, kUseInitVal, kOut,
  kNegative,    // whether negative index values count from the end
  kArithmetic,  // for elements of a type that the core does not know: a table of all results, or the name of bfloat16
  kWindowShape,
  kMemory, kProgress, kExecutor,  // of calls on arrays that are stored elsewhere: the core passes them on
  // clang-format on
  kArgumentCount
};
inline constexpr const char* kArgumentNames[] = {
    "data",         "indices", "updates",  "axis",       "batch_dims",   "reduction", "mode",     "fill_value",
    "use_init_val", "out",     "negative", "arithmetic", "window_shape", "memory",    "progress", "executor"};
static_assert(std::size(kArgumentNames) == kArgumentCount);

// In the order of Mode. What fills a slice of a gather drops an update of a scatter.
inline constexpr const char* kGatherModeNames[] = {"raise", "wrap", "clip", "fill"};
inline constexpr const char* kScatterModeNames[] = {"raise", "wrap", "clip", "drop"};
static_assert(static_cast<int>(Mode::fill) == 3);

// In the order of Reduction.
inline constexpr const char* kReductionNames[] = {"none", "add", "sub", "mul", "min", "max"};
static_assert(static_cast<int>(Reduction::max) == 5);

// Interned names: a tuple for Python, and its entries, which take no call to be read.
struct Names {
  PyObject* tuple = nullptr;
  int count = 0;
  PyObject* each[32];
};
extern Names kind_names, argument_names, gather_mode_names, scatter_mode_names, reduction_names, rule_names;

// Makes the tuples of names and the type of arguments, once in a process. False: a Python exception is set.
bool make_names();

// The kind and the arguments of a call, which are borrowed from a `_core.Arguments` of Python.
struct Given {
  Kind kind;
  PyObject* each[kArgumentCount];

  bool read(PyObject* arguments);  // false: a Python exception is set
  bool is_gather_of_arrays() const {
    return kind <= Kind::gather && PyArray_CheckExact(each[kData]) && PyArray_CheckExact(each[kIndices]);
  }
};

extern PyTypeObject* arguments_type;
PyObject* make_arguments(Kind kind, PyObject* const* given);

// Null, with an exception set by which arguments of an internal function are refused.
inline PyObject* do_not_fit(const char* what = "arguments") { return PyErr_Format(PyExc_ValueError, "%s do not fit", what); }

// The position of a string among names; -1 where it is none of them.
int position_among(PyObject* object, const Names& names);

// An integer option: rule `option_type` with the argument where it is not an integer.
Refusal read_integer(PyObject* object, Argument which, Size& value);

Refusal read_mode(PyObject* object, Kind kind, Mode& mode);

// The sizes of a tuple. False: a Python exception is set.
bool read_shape(PyObject* tuple, Size* sizes, int& rank);

Refusal read_index_type(const View& indices, IndexType& type);

// An integer type among i8, i16, i32, i64, u8, u16, u32, u64, as IndexType and ElementType begin.
template <class Type>
Type integer_type(bool is_signed, Size bytes) {
  static_assert(static_cast<int>(Type::u64) == 7);
  const int size = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return static_cast<Type>(size + (is_signed ? 0 : 4));
}

// What the arithmetic has to know of the elements of `data`. False: not known.
bool read_element_type(const View& data, PyObject* arithmetic, Plan& plan, ElementType& type);

}  // namespace ndgather
