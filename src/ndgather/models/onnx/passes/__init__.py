"""The passes of a conversion: each takes a model and returns it changed."""
