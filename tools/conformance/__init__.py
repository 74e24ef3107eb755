"""The corpus of hard cases run in several libraries: docs/conformance.md."""
