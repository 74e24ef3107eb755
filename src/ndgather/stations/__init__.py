"""For each point in a table, look up values in a dataset from a file or store."""
