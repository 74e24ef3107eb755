"""Arrays of other libraries: each module or package adapts one, and is imported when it is met.

An adapter has a function ``run(call)``. It gets an `array_call.Call` with the arguments as they
were given, and returns what the same call on NumPy arrays would return, in the kind of array that
`data` is: on the same device, with gradient, names and labels where the library has them. It
refuses what it cannot do without losing one of these.

An adapter imports the package that it adapts, and from here `ndgather.api` or what lies below; it
may know adapters that stand below it in the contract named "arrays" in ``.importlinter``. Nothing
but `dispatch`, by name, knows adapters. To import one beforehand, ``import ndgather.arrays.torch``,
is needed only where something else is made ready with it, such as accessors or operators.
"""
