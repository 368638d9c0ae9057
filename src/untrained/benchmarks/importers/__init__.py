"""Importers of benchmark files, one module per format.

Each module has functions that read a path into a `TableBuilder`, or return None if the path has
another format.
"""
