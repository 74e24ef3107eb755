"""Survey of models that packages ship, compared with onnxruntime: ``python -m tools.models``."""
