"""Restricted targets: what they take after `convert --target`, and which programs load it."""
