"""The version of the package. It is in a separate module, so that every other module can import it."""

__version__ = "0.1.0"
