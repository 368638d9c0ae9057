"""The program of a worker process: `python -m untrained.engine._worker`. Reads its job and then questions from standard
input, writes answers to standard output, and ends when nobody is there to ask any more."""

import os
import pickle
import signal
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from untrained.engine.measure import Job, Requests
from untrained.errors import UsageError


def main() -> None:
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
