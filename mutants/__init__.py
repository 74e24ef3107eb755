"""Deliberate faults in the package, one at a time: each should fail a test."""
