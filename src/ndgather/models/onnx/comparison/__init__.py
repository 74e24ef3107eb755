"""Comparison of runtimes, and a search for inputs on which runtimes disagree."""
