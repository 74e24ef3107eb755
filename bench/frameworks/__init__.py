"""Calls on arrays of NumPy, torch and JAX, compared with these: ``python -m bench.frameworks``."""
