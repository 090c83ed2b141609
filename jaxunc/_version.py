"""The version, which files name, too."""

__version__ = "0.2.0"
