"""The benchmark: one table of cases, one table of peers, the limit of the machine, a report.

``python -m bench`` runs it. Every case is also a test: its answer at reduced size is compared
with plain loops, and at full size with NumPy before anything is timed.
"""
