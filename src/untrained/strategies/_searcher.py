"""The program of a search in a process of its own: `python -m untrained.strategies._searcher`. Reads what is asked for
as one line of JSON from standard input, leaves the answer in the run folder, and ends when nobody waits for it."""

import json
import os
import signal
import sys
from threading import Thread

from untrained.errors import UsageError
from untrained.strategies.search import search


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    asked = json.loads(os.fdopen(os.dup(0)).readline())
    Thread(target=_watch, daemon=True).start()
    try:
        search(**asked, workers=1)
    except UsageError as error:
        sys.exit(str(error))


def _watch() -> None:
    """When the asking process is gone, so is this one, at once."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
