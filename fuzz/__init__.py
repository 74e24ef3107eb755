"""Fuzzers of bytes from untrusted sources: `make fuzz TIME=60`."""
