"""``python -m bench --suite stored``: arrays that do not fit in memory.

One table of cases, each with the conditions that it has to meet; every method in a process of its
own, which makes the call once for its answer and its memory, and then takes turns with the others.
The floor of a case reads and decodes the chunks that its call touches, and does nothing else.
"""
