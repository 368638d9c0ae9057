"""The program of a worker process: `python -m untrained.engine._worker`. Reads its job and then questions from standard
input, writes answers to standard output, and ends when nobody is there to ask any more."""

import ctypes
import os
import pickle
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from untrained.engine.measure import Job, Requests
from untrained.errors import UsageError

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    driver = int(sys.argv[1])
    end_with_driver(driver)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    answers, questions = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # what the user's code prints must not get among the answers,
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and what it reads must not be our questions

    def say(kind: str, what: Any) -> None:
        pickle.dump((kind, what), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    try:
        work(pickle.load(questions), questions, say)
    except UsageError as error:
        say("refused", str(error))


def end_with_driver(driver: int) -> None:
    """Ask Linux to kill this process when the driver ends.

    `_listen` notices the end of the driver too, but it is a thread: while a regular expression or another function in C
    holds the interpreter's lock, it does not run. Other systems have only `_listen`.

    Linux sends the signal when the thread that started this process ends. That is the thread that called `search`,
    which outlives its workers.

    Args:
        driver: Process id of the process that started this one.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return  # a sandbox may forbid it; `_listen` remains
    if os.getppid() != driver:  # the driver ended before the request above: no signal will come
        os._exit(0)


def work(job: Job, questions: IO[bytes], say: Any) -> None:
    import torch

    torch.set_num_threads(1)
    examine = job.open()
    inbox: SimpleQueue[list[Requests]] = SimpleQueue()
    Thread(target=_listen, args=(questions, inbox), daemon=True).start()
    say("ready", None)
    while True:
        for records in examine.answers(inbox.get()):
            say("answer", records)


def _listen(questions: IO[bytes], inbox: "SimpleQueue[list[Requests]]") -> None:
    """Take questions while others are being answered. When the asking process is gone, so is this one, at once."""
    try:
        while True:
            inbox.put(pickle.load(questions))
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    main()
