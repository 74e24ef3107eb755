"""Adapters for the arrays of other libraries, with a module or package for each library.

The function ``run(call)`` of an adapter makes an `array_call.Call` and returns the same values as
for NumPy arrays, in the type of `data` and on its device, with the gradients, names and labels that
the library supports. It raises an error if any of these would be lost. Optional functions are
``vjp(call, data_shape)``, the cotangents of the inputs of a call, where `call.data` is the
cotangent of its result; ``to_numpy``, which converts indices or updates for data of another
library; and ``offsets_of``, which returns the offsets of ranges in the type of their values.

An adapter imports the package that it adapts and the layers from `ndgather.api` down; the contract
"arrays" in ``.importlinter`` lists the adapters that may import each other. Only `exchange` knows
the adapters, by name, and imports them on demand. Users need ``import ndgather.arrays.torch`` only
for its extras, such as operators.
"""
