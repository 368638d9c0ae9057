"""One module per format. Each reads a path into a `TableBuilder`, or returns None for other paths."""
