"""Conversion passes, which take a draft of the model and return the changed draft."""
