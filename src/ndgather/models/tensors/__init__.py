"""Tensors in files: `.npy`, `.npz` and `.pb`, read safely and written whole or not at all."""
