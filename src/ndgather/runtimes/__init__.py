"""Other programs that run ONNX models: one module for every program; `runtime` lists them."""
