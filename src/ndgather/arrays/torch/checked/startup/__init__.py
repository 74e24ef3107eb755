"""The folder that ``ndgather checked`` adds to the program's `PYTHONPATH`."""
