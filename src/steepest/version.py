"""The version of this package; tested to equal that of the project file."""

__version__ = "0.1.0"
