"""Models for restricted targets: what a target takes, as data, and rules that rewrite nodes."""
