"""The program of a search in a process of its own: `python -m untrained.workflows.search_process`.

It reads its configuration as one line of JSON from standard input and leaves the result in the run folder.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from threading import Thread

from untrained.config import SearchConfig
from untrained.errors import UsageError
from untrained.workflows.search import run_search


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    document = json.loads(os.fdopen(os.dup(0)).readline())
    Thread(target=_watch, daemon=True).start()
    try:
        config = SearchConfig.from_document(document)
        run_search(replace(config, compute=replace(config.compute, workers=1)))
    except UsageError as error:
        sys.exit(str(error))


def _watch() -> None:
    """When the asking process is gone, so is this one, at once."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
