"""Arrays that do not fit in memory: ``python -m bench.stored``.

Every method has a process of its own, which makes the call once for its answer and its memory, and
then takes turns with the others. The floor of a case reads and decodes the chunks that its call
touches, and does nothing else.
"""
