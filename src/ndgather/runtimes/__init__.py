"""Other programs that run operators, and this package among them: one module for each.

`known_runtimes` lists them. `runtime` says what such a module has to offer.
"""
