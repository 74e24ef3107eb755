// module.cpp - the module _core: its functions and constants.
#define NDGATHER_IMPORTS_NUMPY
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "../pool.h"
#include "../tuning.h"
#include "call.h"
#include "gil.h"

namespace {

using namespace ndgather;

// Executes a call given as `_core.Arguments`. Further arrays replace its first arguments.
PyObject* run_arguments(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Given given;
  if (count < 1 || count > 1 + kAxis) return do_not_fit();
  if (!given.read(args[0])) return nullptr;
  std::copy(args + 1, args + count, given.each);
  return run(given.kind, given.each);
}

PyObject* shape_by_name(PyObject*, PyObject* args) {
  PyObject *name, *data_shape, *indices_shape, *window_shape = nullptr;
  Options options;
  Size sizes[2][kMaxRank];
  Array data{nullptr, 0, sizes[0], nullptr}, indices{nullptr, 0, sizes[1], nullptr};
  if (!PyArg_ParseTuple(args, "OO!O!nn|O!", &name, &PyTuple_Type, &data_shape, &PyTuple_Type, &indices_shape, &options.axis,
                        &options.batch_dims, &PyTuple_Type, &window_shape) ||
      !read_shape(data_shape, sizes[0], data.rank) || !read_shape(indices_shape, sizes[1], indices.rank) ||
      (window_shape != nullptr && !read_shape(window_shape, options.window, options.window_rank))) {
    return nullptr;
  }
  const int kind = position_among(name, kind_names);
  if (kind < 0) return do_not_fit("kinds");
  Shape slices;
  const Refusal refusal = slices_shape(static_cast<Kind>(kind), data, indices, options, slices);
  return refused(refusal, facts_of(refusal), data, indices, slices, {});
}

// Checks whether `result` can be copied to `out`, and returns the refusal, if any.
PyObject* check_out_for(PyObject*, PyObject* args) {
  PyObject *out, *result;
  if (!PyArg_ParseTuple(args, "OO!", &out, &PyArray_Type, &result)) return nullptr;
  View view, view_of_out;
  view.take(array(result));
  Shape shape;
  shape.append(view.array().shape, view.array().rank);
  const Refusal refusal = view_out(out, view, shape, view_of_out);
  return refused(refusal, facts_of(refusal), view.array(), {}, shape, {});
}

// Calls a Python function with the remaining arguments.
PyObject* in_default_environment(PyObject*, PyObject* args, PyObject* named) {
  PyObject* const function = PyTuple_GetItem(args, 0);
  PyObject* const rest = function == nullptr ? nullptr : PyTuple_GetSlice(args, 1, PyTuple_Size(args));
  if (rest == nullptr) return nullptr;
  const DefaultEnvironment environment;
  PyObject* const result = PyObject_Call(function, rest, named);
  Py_DECREF(rest);
  return result;
}

PyObject* get_instruction_set(PyObject*, PyObject*) { return PyUnicode_FromString(loops().name); }

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(threads()); }

PyObject* set_num_threads(PyObject*, PyObject* count) {
  const long value = PyLong_AsLong(count);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  set_threads(static_cast<int>(std::clamp(value, 1L, 1024L)));
  Py_RETURN_NONE;
}

PyObject* get_memory_limit(PyObject*, PyObject*) { return PyLong_FromSize_t(pool::limit()); }

PyObject* set_memory_limit(PyObject*, PyObject* bytes) {
  const std::size_t value = PyLong_AsSize_t(bytes);
  if (value == static_cast<std::size_t>(-1) && PyErr_Occurred()) return nullptr;
  pool::set_limit(value);
  Py_RETURN_NONE;
}

PyObject* release_memory(PyObject*, PyObject*) { return PyLong_FromSize_t(pool::release_kept()); }

PyMethodDef methods[] = {
    {"run", fast(run_arguments), METH_FASTCALL, nullptr},
    {"slices_shape", shape_by_name, METH_VARARGS, nullptr},
    {"check_out", check_out_for, METH_VARARGS, nullptr},
    {"fast_call", make_fast_call, METH_VARARGS, nullptr},
    {"sort_points", fast(sort_points), METH_FASTCALL, nullptr},
    {"move_points", move_points, METH_VARARGS, nullptr},
    {"copy_ranges", copy_ranges, METH_VARARGS, nullptr},
    {"gather_ranges", fast(gather_ranges), METH_FASTCALL, nullptr},
    {"chunk_table", make_chunk_table, METH_VARARGS, nullptr},
    {"set_chunk", set_chunk, METH_VARARGS, nullptr},
    {"count_hits", count_hits, METH_O, nullptr},
    {"unpack_lzf", unpack_lzf, METH_VARARGS, nullptr},
    {"last_use", last_use_of_chunk, METH_VARARGS, nullptr},
    {"look_up", fast(look_up), METH_FASTCALL, nullptr},
    {"in_default_environment", fast(in_default_environment), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"accept_exchange", accept_exchange, METH_VARARGS, nullptr},
    {"instruction_set", get_instruction_set, METH_NOARGS, nullptr},
    {"get_num_threads", get_num_threads, METH_NOARGS, nullptr},
    {"set_num_threads", set_num_threads, METH_O, nullptr},
    {"get_memory_limit", get_memory_limit, METH_NOARGS, nullptr},
    {"set_memory_limit", set_memory_limit, METH_O, nullptr},
    {"release_memory", release_memory, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// The names, types and threads of the module belong to the interpreter that loads the module first.
bool is_first_interpreter() {
  static std::atomic<std::int64_t> first{-1};
  const std::int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
  std::int64_t known = -1;
  return first.compare_exchange_strong(known, here) || known == here;
}

// Returns false with a Python exception set if it fails.
bool find_main_thread() {
  PyObject* const threading = PyImport_ImportModule("threading");
  PyObject* const main = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
  PyObject* const ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
  if (ident != nullptr) main_thread = PyLong_AsUnsignedLong(ident);
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
#ifdef NDGATHER_HAS_FORK
  // The thread that forks becomes the main thread of the child.
  pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
#endif
  return PyErr_Occurred() == nullptr;
}

int execute(PyObject* module) {
  if (PyArray_ImportNumPyAPI() < 0) return -1;
  if (!is_first_interpreter()) {
    PyErr_SetString(PyExc_ImportError, "ndgather: another interpreter of this process has loaded it (allowed: one)");
    return -1;
  }
  // Runs once per process. If the module is imported again, both imports share these objects.
  if (rule_names.tuple == nullptr) {
    if (!make_memory_handler() || !make_names() || !make_refusal_type() || !find_main_thread()) return -1;
    loops();  // detects the instruction set
    caches();
    prepare_threads();
  }
  const struct {
    const char* name;
    PyObject* value;
  } given[] = {{"KINDS", kind_names.tuple},
               {"ARGUMENTS", argument_names.tuple},
               {"GATHER_MODES", gather_mode_names.tuple},
               {"SCATTER_MODES", scatter_mode_names.tuple},
               {"REDUCTIONS", reduction_names.tuple},
               {"RULES", rule_names.tuple},
               {"Arguments", reinterpret_cast<PyObject*>(arguments_type)},
               {"Refusal", reinterpret_cast<PyObject*>(refusal_type)}};
  for (const auto& each : given) {
    if (PyModule_AddObjectRef(module, each.name, each.value) < 0) return -1;
  }
  if (PyModule_AddIntConstant(module, "HIGHEST_RANK", kMaxRank) < 0) return -1;
  if (PyModule_AddIntConstant(module, "LISTED_CHUNKS", kLimits.listed_chunks) < 0) return -1;
#ifdef NDGATHER_JAX
  PyObject* handler = make_jax_handler();
#else
  PyObject* handler = Py_NewRef(Py_None);
#endif
  const int added = PyModule_AddObjectRef(module, "jax_handler", handler);
  Py_XDECREF(handler);
  return added;
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

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The engine of ndgather.", 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&definition); }
