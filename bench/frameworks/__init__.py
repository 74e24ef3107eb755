"""Calls on tensors of other libraries beside those libraries themselves, case by case."""
