"""Adapters for the arrays of other libraries, with a module or package for each library.

An adapter's function ``run(call)`` returns the same values as for NumPy arrays. The result has the
type and device of `data` and keeps the gradients, names and labels that the library supports. If
gradients, names or labels would be lost, ``run`` raises an error. An adapter may also define up to
three other functions. ``vjp(call, data_shape)`` returns cotangents, as `ndgather.vjp.cotangents`
does. ``to_numpy`` converts indices or updates for data of another library. ``offsets_of`` returns
the offsets of ranges in the type of their values.

An adapter may import the package that it adapts and the layers from `ndgather.api` down. The
contract "arrays" in ``.importlinter`` lists the adapters that may import each other. The module
`exchange` has a table of the adapters and imports adapters on demand. Users need
``import ndgather.arrays.torch`` only for extras such as operators.
"""
