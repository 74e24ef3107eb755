"""A benchmark: a table of cases, a table of libraries, the limit of the machine, and a report.

Run it with ``python -m bench``. Every case is also a test: its result is compared with plain loops
at reduced size, and with NumPy at full size before anything is timed.
"""
