"""Run the command line with `python -m untrained`."""

from untrained.cli.app import main

main()
