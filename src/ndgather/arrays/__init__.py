"""Arrays of other libraries: one module or package adapts one library, and is imported on demand.

An adapter has a function ``run(call)``: an `array_call.Call` with the arguments of the caller in,
and what the same call on NumPy arrays returns out, in the type of `data`: on the same device, with
gradients, names and labels if the library has them. It raises if one of these would be lost.

An adapter imports the package that it adapts, `ndgather.api` and what is below; of other adapters
it may use those below it in the contract "arrays" in ``.importlinter``. Only `exchange` knows
adapters, by name. ``import ndgather.arrays.torch`` is needed only for what comes with an adapter,
such as accessors or operators.
"""
