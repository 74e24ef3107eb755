"""Restricted targets: what `convert --target` writes for them, and which programs load it."""
