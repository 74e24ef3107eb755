"""The folder that ``ndgather checked`` adds to `PYTHONPATH` of the program."""
