"""Workers as processes of this machine. They are started by name (`python -m`), never forked, and import nothing of the
user's program, so that a script needs no `if __name__ == "__main__"` and a notebook works too."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

from untrained.engine._pool import Answered, Died, Event, Ready, Refused
from untrained.engine.measure import Job, Requests

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_LAST_WILL = {"PYTHONFAULTHANDLER": "1"}  # a worker that crashes says where
_LAST_WORDS = (
    16_000  # bytes of what a dead worker said: the stacks of a crash can be long, and follow what the user printed
)


class ProcessCrew:
    """Questions go in and answers come out through pipes; what a worker prints is kept for its last words."""

    name = "process"

    def __init__(self, job: Job) -> None:
        self._job = job
        self._events: Queue[Event] = Queue()
        self._people: dict[int, subprocess.Popen[bytes]] = {}

    def hire(self, worker: int, slot: int) -> None:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever listens
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "untrained.engine._worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | _ONE_THREAD | _LAST_WILL,
        )
        self._people[worker] = process
        Thread(target=self._listen, args=(worker, process, self._job.on(slot), said), daemon=True).start()

    def give(self, worker: int, questions: list[Requests]) -> None:
        with suppress(OSError, ValueError):  # it may have died, its pipe may be closed: whoever listens will say so
            _send(self._people[worker].stdin, questions)

    def events(self, timeout: float) -> Iterable[Event]:
        """What has happened; waits until something has, but no longer than `timeout` seconds."""
        try:
            found = [self._events.get(timeout=timeout)]
            while not self._events.empty():
                found.append(self._events.get())
            return found
        except Empty:
            return []

    def dismiss(self, worker: int) -> None:
        process = self._people.pop(worker)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Everybody has been dismissed."""

    def _listen(self, worker: int, process: "subprocess.Popen[bytes]", job: Job, said: IO[bytes]) -> None:
        """One thread a worker: tell it its job, then pass on what it says until it is gone."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, job)
            while True:
                self._events.put(_event(worker, *pickle.load(process.stdout)))
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            self._events.put(Died(worker, _cause(code), _last_words(said)))
        finally:
            process.stdout.close()
            said.close()
            with suppress(OSError):  # the rest of a question that nobody will read
                process.stdin.close()


def _send(stream: "IO[bytes] | None", what: Any) -> None:
    assert stream is not None
    pickle.dump(what, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _event(worker: int, kind: str, what: Any) -> Event:
    if kind == "ready":
        return Ready(worker)
    return Answered(worker, what) if kind == "answer" else Refused(worker, what)


def _last_words(said: IO[bytes]) -> str:
    """The end of what was said, in whole lines."""
    start = said.seek(0, os.SEEK_END) - _LAST_WORDS
    said.seek(max(0, start))
    if start > 0:
        said.readline()  # the rest of a line that began before
    return said.read().decode(errors="replace").strip()


def _cause(code: int) -> str:
    """Why a worker ended, in words."""
    if code >= 0:
        return f"its worker ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = "; was the machine out of memory?" if -code == signal.SIGKILL else ""
    return f"its worker was killed by {name}{hint}"
