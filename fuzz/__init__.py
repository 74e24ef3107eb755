"""Fuzzers: bytes that anyone might send, and what may come of them. `make fuzz TIME=60`."""
