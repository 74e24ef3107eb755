"""Adapters for the arrays of other libraries, one module or package per library.

The function ``run(call)`` of an adapter makes an `array_call.Call` and returns the same values as
for NumPy arrays, in the type of `data` and on its device, with the gradients, names and labels that
the library supports. It raises an error if one of these would be lost.

An adapter imports the package that it adapts and the layers from `ndgather.api` down; the contract
"arrays" in ``.importlinter`` lists the adapters that may import each other. Only `exchange` knows
the adapters, by name, and imports them on demand. Users import one explicitly, as in
``import ndgather.arrays.torch``, only for its extras, such as accessors or operators.
"""
