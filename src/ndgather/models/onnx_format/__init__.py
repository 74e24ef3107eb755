"""The ONNX format: its models taken apart, evaluated, checked, inferred and converted."""
