"""Run one search in its own process: `python -m untrained.workflows.search_process`.

The process reads its configuration as one line of JSON from standard input and leaves the result in
the run folder. An experiment runs several such processes at a time.
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
    """Read a configuration and run its search with one worker."""
    # A terminal sends Ctrl-C to all processes. The parent handles it and stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The line is read through a duplicate of standard input, which `_exit_with_parent` needs open.
    with os.fdopen(os.dup(0)) as standard_input:
        document = json.loads(standard_input.readline())
    Thread(target=_exit_with_parent, daemon=True).start()
    try:
        config = SearchConfig.from_document(document)
        compute = replace(config.compute, workers=1)
        run_search(replace(config, compute=compute))
    except UsageError as error:
        sys.exit(str(error))


def _exit_with_parent() -> None:
    """Exit as soon as standard input closes, which happens when the parent process ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
