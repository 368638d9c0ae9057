"""The version of the package. It stands alone so that every module can read it."""

__version__ = "0.1.0"
