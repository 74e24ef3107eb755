"""Calls on arrays of torch and JAX, compared with both: ``python -m bench.frameworks``."""
