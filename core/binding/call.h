// call.h - one call from its arguments to its result, or to the reason why it is refused.
#pragma once

#include "arguments.h"
#include "libraries.h"

namespace ndgather {

// Carries out a call with kArgumentCount arguments. Returns the result; or what refused() returns; or null, with an
// exception set.
PyObject* run(Kind kind, PyObject* const* given);

// Makes the type of refusals, once in a process. False: a Python exception is set.
bool make_refusal_type();
extern PyTypeObject* refusal_type;

// A Refusal of Python: the rule, its facts, and the shapes of data, of indices, of the slices that they name, and of
// updates. Takes over `facts`; null where that is, with an exception set.
PyObject* refused(const Refusal& refusal, PyObject* facts, const Array& data, const Array& indices, const Shape& slices,
                  const Array& updates);

// The two numbers of a refusal, as a tuple.
PyObject* facts_of(const Refusal& refusal);

// A refusal by which a call is for Python, whatever its arguments are.
PyObject* refused_for_python();

// A call on arrays of NumPy, or of libraries that exchange them in C; the result is of the kind of `data`. Refused by
// Rule::fallback where an argument is neither, or more than a piece of memory.
class Call {
 public:
  Call(Kind kind, PyObject* const* given) : kind_(kind), given_(given) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  PyObject* run();

 protected:
  Refusal read_arguments();
  Refusal read_shapes();
  Refusal provide_out();
  Refusal check_first();
  Refusal first_bad();
  // Plans offsets of single elements that hold their coordinates on some axes; see group.h.
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
  const Library* library_ = nullptr;  // of the argument that was viewed last among those that are not of NumPy

 private:
  Refusal read_options();
  Refusal view(PyObject* object, View& view);
  Refusal view_list(PyObject* object, View& view);
  Refusal convert(View& view);
  Refusal view_held(PyObject* object, View& view);
  Refusal view_out(const Shape& shape);
  Refusal hold();
  // Of work around which the GIL may be given up.
  double work_ns(const Plan& plan) const;
  Refusal carry_out();
  Refusal gather();
  Refusal scatter();
  Refusal check_all();
  Refusal deliver();
  PyObject* bad_entry() const;

  bool references_ = false;  // a gather of objects: the GIL is kept, so that none goes away before the result counts it
  Reduction reduction_ = Reduction::none;
  ElementType type_ = ElementType::opaque;
  bool in_place_ = false;  // a scatter into `data` itself
  bool records_ = false;   // a library records a gradient of an argument
  bool holds_ = false;     // the memory of arrays of other libraries
  Outside bad_;
  // Of another library: the caller's `out`, or a result that is not an object yet.
  dlpack::Managed *exported_ = nullptr, *made_ = nullptr, *held_[3] = {};
  PyArrayObject* converted_[3];  // owned: the arrays of lists and numbers
  int converted_count_ = 0;
  char fill_[2 * sizeof(double)];  // a copy of such a fill value
};

// A function that takes an array of arguments, as a table of methods wants it.
template <class Function>
PyCFunction fast(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// The functions of the module that have a file of their own; see _core.pyi.
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

// A capsule for jax.ffi.register_ffi_target and the version of XLA's interface that it was built for, as two numbers.
PyObject* make_jax_handler();

}  // namespace ndgather
