"""Measurements of the library: not installed with it, run from the repository's root."""
