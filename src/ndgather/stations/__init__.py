"""Lookups of the points of a table in the dataset of a file or store."""
