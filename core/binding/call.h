// call.h - executing a call from Python, which returns a result or a refusal.
#pragma once

#include "arguments.h"
#include "libraries.h"

namespace ndgather {

// Executes a call with kArgumentCount arguments. Returns the result, a refusal, or null with an exception set.
PyObject* run(Kind kind, PyObject* const* given);

// Creates the type of refusals, once per process. Returns false with a Python exception set if it fails.
bool make_refusal_type();
extern PyTypeObject* refusal_type;

// Creates a Python object of type `_core.Refusal`: the rule, its facts, and the shapes of data, indices, selected slices and
// updates. Takes ownership of `facts`. Returns null if `facts` is null.
PyObject* refused(const Refusal& refusal, PyObject* facts, const Array& data, const Array& indices, const Shape& slices,
                  const Array& updates);

// Returns the two facts of a refusal, which are numbers whose meaning depends on the rule, as a tuple.
PyObject* facts_of(const Refusal& refusal);

// Creates a refusal by Rule::fallback, which leaves a call to Python.
PyObject* refused_for_python();

// A call on arrays of NumPy, or of libraries that exchange arrays in C. The result belongs to the library of `data`. Other
// arguments, and arrays that are more than plain memory, are refused by Rule::fallback.
class Call {
 public:
  Call(Kind kind, PyObject* const* given) : kind_(kind), given_(given) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  PyObject* run();

 protected:
  Refusal read_arguments();
  Refusal provide_out();
  Refusal check_first();
  Refusal first_bad();
  // Plans single elements whose offsets contain their coordinates on some axes; see group.h.
  void plan_coordinates(const Array& axes, const Options& options);
  PyObject* refused(const Refusal& refusal) const;

  const Kind kind_;
  PyObject* const* const given_;
  Plan plan_;
  Options options_;
  Shape slices_;
  View data_, indices_, updates_, out_;
  bool callers_out_ = false;
  PyObject* result_ = nullptr;
  const Library* library_ = nullptr;  // library of the most recent argument that is not a NumPy array

 private:
  Refusal read_options();
  Refusal read_shapes();
  Refusal view(PyObject* object, View& view);
  Refusal view_list(PyObject* object, View& view);
  Refusal view_held(PyObject* object, View& view);
  Refusal view_out(const Shape& shape);
  Refusal hold();
  // Estimates the time that a plan takes. Returns 0 if the GIL must not be released meanwhile.
  double work_ns(const Plan& plan) const;
  Refusal carry_out();
  Refusal gather();
  Refusal scatter();
  Refusal check_all();
  Refusal deliver();
  PyObject* bad_entry() const;

  bool references_ = false;  // a gather of objects keeps the GIL, so that no object is freed before it is counted
  Reduction reduction_ = Reduction::none;
  ElementType type_ = ElementType::opaque;
  bool in_place_ = false;  // whether a scatter writes to `data` itself
  bool records_ = false;   // whether a library tracks gradients for an argument
  bool holds_ = false;     // whether arrays of other libraries are exported, so that they stay alive
  Outside bad_;
  // For other libraries: the exported `out`, the result before it becomes an object, and exported inputs.
  dlpack::Managed *exported_ = nullptr, *made_ = nullptr, *held_[3] = {};
  PyArrayObject* converted_[3];  // owned arrays that were made from lists and numbers
  int converted_count_ = 0;
  char fill_[2 * sizeof(double)];  // copy of a fill value of another library
};

// Casts a function with the signature of METH_FASTCALL to the type that a method table requires.
template <class Function>
PyCFunction fast(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Functions of the module that are defined in other files; see _core.pyi.
PyObject* make_fast_call(PyObject*, PyObject* arguments);
PyObject* accept_exchange(PyObject*, PyObject* arguments);
PyObject* sort_points(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* move_points(PyObject*, PyObject* arguments);
PyObject* copy_ranges(PyObject*, PyObject* arguments);
PyObject* gather_ranges(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* make_chunk_table(PyObject*, PyObject* arguments);
PyObject* set_chunk(PyObject*, PyObject* arguments);
PyObject* count_hits(PyObject*, PyObject* table);
PyObject* last_use_of_chunk(PyObject*, PyObject* arguments);
PyObject* unpack_lzf(PyObject*, PyObject* arguments);
PyObject* look_up(PyObject*, PyObject* const* args, Py_ssize_t count);

// Returns a capsule for jax.ffi.register_ffi_target, and the major and minor version of XLA's interface.
PyObject* make_jax_handler();

}  // namespace ndgather
