"""Surveys of models and exporters, and modules shared with the benchmark; not in the wheel."""
