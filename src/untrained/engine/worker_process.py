"""The program of a worker process: `python -m untrained.engine.worker_process DRIVER`.

DRIVER is the process id of the process that started it. The worker reads its setup and then request
groups from standard input, writes records to standard output, and ends when its input ends. Both
streams carry pickles. Every message to the driver is a pair of kind and content:

    ("ready", None)         the worker is ready for requests
    ("records", records)    the records of the next group
    ("refused", message)    a usage error, which ends the run; the message is for the user
"""

import ctypes
import os
import pickle
import signal
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import IO

from untrained.engine.worker import RequestGroup
from untrained.engine.worker_setup import WorkerSetup
from untrained.errors import UsageError

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>

SendMessage = Callable[[str, object], None]


def main() -> None:
    """Run a worker until its driver ends."""
    driver = int(sys.argv[1])
    end_with_driver(driver)
    # Ctrl-C reaches all processes of a terminal. The driver handles it and stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    # User code may print or read standard input. Its output must not get between our messages, and
    # it must not read our requests. So printed text goes to standard error, and input is empty.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def send_message(kind: str, content: object) -> None:
        pickle.dump((kind, content), output, pickle.HIGHEST_PROTOCOL)
        output.flush()

    try:
        setup = pickle.load(requests)
        run_worker(setup, requests, send_message)
    except UsageError as error:
        send_message("refused", str(error))


def end_with_driver(driver: int) -> None:
    """Ask Linux to kill this process when the driver ends.

    `_read_groups` detects the end of the driver too, but it runs in a thread, which is blocked
    while a C function, such as a regular expression, holds the interpreter lock. Other systems than
    Linux have only `_read_groups`.

    Linux sends the signal when the thread that started this process ends. That is the thread that
    called `search`, which outlives its workers.

    Args:
        driver: Process id of the process that started this one.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        # A sandbox may forbid the call. `_read_groups` still works.
        return
    if os.getppid() != driver:
        # The driver ended before the call above, so no signal will come.
        os._exit(0)


def run_worker(setup: WorkerSetup, requests: IO[bytes], send_message: SendMessage) -> None:
    """Open a worker and score request groups until the process ends.

    Args:
        setup: Describes the worker.
        requests: Where lists of request groups are read from.
        send_message: Sends a message to the driver.
    """
    import torch

    torch.set_num_threads(1)
    worker = setup.open_worker()
    inbox: SimpleQueue[list[RequestGroup]] = SimpleQueue()
    Thread(target=_read_groups, args=(requests, inbox), daemon=True).start()
    send_message("ready", None)
    while True:
        for records in worker.score_groups(inbox.get()):
            send_message("records", records)


def _read_groups(requests: IO[bytes], inbox: "SimpleQueue[list[RequestGroup]]") -> None:
    """Receive request groups while others are scored. End this process when the driver ends."""
    try:
        while True:
            inbox.put(pickle.load(requests))
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    main()
