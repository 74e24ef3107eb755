"""Surveys of models and exporters, and what the benchmark shares with them; not in the wheel."""
