"""Lookups of points, read from a table in a file, in data sets in files or stores."""
