"""Models exported on the spot, and what runtimes make of them: ``python -m bench.exports``."""
