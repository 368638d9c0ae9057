"""Tables: how files are read, which column means what, and how rows are encoded as numbers."""
