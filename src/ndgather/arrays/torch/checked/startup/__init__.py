"""The folder that `PYTHONPATH` leads to in a program under ``ndgather checked``."""
