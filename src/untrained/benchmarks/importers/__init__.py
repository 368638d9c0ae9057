"""One module per format.

Each has functions that read a path into a `TableBuilder`, or return None if the path has another
format.
"""
