"""Other programs that run ONNX models: one module for each; `runtime` lists them."""
