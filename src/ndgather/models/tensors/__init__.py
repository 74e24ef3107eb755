"""Tensors in files: ``.npy``, ``.npz`` and ``.pb``."""
