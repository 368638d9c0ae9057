"""`python -m untrained` is `untrained`."""

from untrained.cli import main

main()
