"""For authors of libraries that gather and scatter: `ndgather.testing.conformance`."""
