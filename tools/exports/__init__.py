"""Survey of exporters: their models in every runtime: ``python -m tools.exports``."""
