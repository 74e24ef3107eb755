"""The benchmark of stored arrays: ``python -m bench.stored``.

Each method runs in its own process. A first call is checked and its memory measured; then the
methods take turns. The floor of a case only reads and decodes the chunks that its call touches.
"""
