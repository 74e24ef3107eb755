"""Models that packages ship, run beside onnxruntime: ``python -m bench.models``."""
