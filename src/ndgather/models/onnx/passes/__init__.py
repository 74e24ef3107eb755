"""Passes of a conversion. A pass takes a draft of the model and returns the changed draft."""
