"""Exit codes of the program. 0 means success."""

NOTHING_SCORED = 1
WRONG_USAGE = 2
INTERRUPTED = 130  # as in shells: 128 plus the number of the signal that Ctrl-C sends
