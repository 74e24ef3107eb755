"""Survey of models that packages ship, run beside onnxruntime: ``python -m tools.models``."""
