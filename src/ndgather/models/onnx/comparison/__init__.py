"""Comparison of runtimes: differences between gather and scatter nodes, and counterexamples."""
