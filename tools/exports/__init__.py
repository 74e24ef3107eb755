"""Survey of exporters and their models in every runtime: ``python -m tools.exports``."""
