"""The command line: one module per command, shared options, and terminal output."""
