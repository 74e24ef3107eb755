"""Calls on arrays of NumPy, torch and JAX, compared with the functions of these libraries."""
