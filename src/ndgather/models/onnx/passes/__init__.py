"""Conversion passes: functions that take a draft of the model and return the changed draft."""
