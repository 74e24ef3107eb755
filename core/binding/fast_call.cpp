// fast_call.cpp - the public functions. They run without a Python frame, which would take as long as a small gather.
#include <algorithm>
#include <utility>

#include "call.h"

namespace ndgather {
namespace {

struct FastCall {
  PyObject* slow_path;                 // a Python function for calls that the core refuses
  Names names;                         // of the parameters, in the order of the signature
  Argument positions[kArgumentCount];  // the argument that each parameter stands for
  PyObject* defaults[kArgumentCount];  // in the order of Argument
  Py_ssize_t required, positional;
};

// Functions look up their entry by kind, because a function object with its own state could not be pickled.
FastCall fast_calls[std::size(kKindNames)];

// Sorts the given arguments and the defaults into the order of Argument. Returns false if they do not match the signature.
bool bind(const FastCall& to, PyObject* const* args, Py_ssize_t count, PyObject* names, PyObject** given) {
  if (count > to.positional) return false;
  std::copy_n(to.defaults, kArgumentCount, given);
  for (Py_ssize_t a = 0; a < count; ++a) given[to.positions[a]] = args[a];
  for (Py_ssize_t a = count; a < to.required; ++a) given[to.positions[a]] = nullptr;
  const Py_ssize_t named = names != nullptr ? PyTuple_Size(names) : 0;
  for (Py_ssize_t n = 0; n < named; ++n) {
    const int found = position_among(PyTuple_GetItem(names, n), to.names);
    if (found < 0 || found < count) return false;
    given[to.positions[found]] = args[count + n];
  }
  return std::all_of(to.positions, to.positions + to.required, [&](Argument position) { return given[position] != nullptr; });
}

PyObject* call(Kind kind, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const FastCall& to = fast_calls[static_cast<int>(kind)];
  PyObject* given[kArgumentCount];
  const bool fits = bind(to, args, count, names, given);
  const auto is_given = [](PyObject* object) { return object != Py_None; };
  PyObject* result;
  if (!fits) {
    result = refused({Rule::signature}, names != nullptr ? Py_NewRef(names) : PyTuple_New(0), {}, {}, {}, {});
  } else if (names != nullptr && std::any_of(given + kMemory, given + kArgumentCount, is_given)) {
    result = refused_for_python();
  } else {
    result = run(kind, given);
  }
  if (result == nullptr || Py_TYPE(result) != refusal_type) return result;
  const Py_ssize_t all = count + (names != nullptr ? PyTuple_Size(names) : 0);
  PyObject* const passed = fits ? make_arguments(kind, given) : PyTuple_New(all);
  for (Py_ssize_t a = 0; !fits && passed != nullptr && a < all; ++a) PyTuple_SetItem(passed, a, Py_NewRef(args[a]));
  const DefaultEnvironment environment;  // for arithmetic in Python
  return PyObject_CallFunction(to.slow_path, "ONN", kind_names.each[static_cast<int>(kind)], result, passed);
}

template <int K>
PyObject* call_kind(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return call(static_cast<Kind>(K), args, count, names);
}

template <int... Kinds>
PyMethodDef* methods_of(std::integer_sequence<int, Kinds...>) {
  static PyMethodDef methods[] = {{kKindNames[Kinds], fast(call_kind<Kinds>), METH_FASTCALL | METH_KEYWORDS, nullptr}...};
  return methods;
}

}  // namespace

PyObject* make_fast_call(PyObject*, PyObject* arguments) {
  PyObject *kind_name, *slow_path, *names, *defaults, *doc, *module;
  Py_ssize_t required, positional;
  if (!PyArg_ParseTuple(arguments, "OOO!nnO!OU", &kind_name, &slow_path, &PyTuple_Type, &names, &required, &positional,
                        &PyTuple_Type, &defaults, &doc, &module)) {
    return nullptr;
  }
  const int kind = position_among(kind_name, kind_names);
  const Py_ssize_t count = PyTuple_Size(names);
  if (kind < 0 || count > kArgumentCount || required > count || positional > count ||
      PyTuple_Size(defaults) != kArgumentCount || !PyUnicode_Check(doc)) {
    return do_not_fit("kind, names and defaults");
  }
  FastCall to = {slow_path, {names, static_cast<int>(count), {}}, {}, {}, required, positional};
  for (Py_ssize_t n = 0; n < count; ++n) {
    const int position = position_among(PyTuple_GetItem(names, n), argument_names);
    if (position < 0) return do_not_fit("parameters");
    to.names.each[n] = PyTuple_GetItem(names, n);
    to.positions[n] = static_cast<Argument>(position);
  }
  for (int a = 0; a < kArgumentCount; ++a) to.defaults[a] = PyTuple_GetItem(defaults, a);
  // The arguments are never released, because functions of an earlier import of the module may still use them.
  Py_INCREF(arguments);
  fast_calls[kind] = to;
  PyMethodDef& method = methods_of(std::make_integer_sequence<int, std::size(kKindNames)>())[kind];
  method.ml_doc = PyUnicode_AsUTF8AndSize(doc, nullptr);
  return PyCFunction_NewEx(&method, nullptr, module);
}

}  // namespace ndgather
