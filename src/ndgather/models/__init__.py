"""Files that contain operators, one module per format, and the tensors that go in and out."""
