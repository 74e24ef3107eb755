"""Models in files: their formats, and the tensors that go in and out."""
