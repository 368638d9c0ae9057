"""Workers as processes of this machine.

They are started with `python -m`, not forked, and do not import the main module of the user. A
script therefore needs no `if __name__ == "__main__"`, and a notebook works too.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, Queue, SimpleQueue
from threading import Thread
from typing import IO, Any

from untrained.engine.executors.backend import (
    WorkerDied,
    WorkerEvent,
    WorkerReady,
    WorkerRefused,
    WorkerScored,
)
from untrained.engine.worker import RequestGroup
from untrained.engine.worker_setup import WorkerSetup
from untrained.errors import UsageError

_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONFAULTHANDLER": "1",  # a worker that crashes prints its stack
}

# Pickled messages to a worker, in order; None closes its input.
_Outbox = SimpleQueue[bytes | None]

# How much of a dead worker's output is kept. The end is kept, because the stack of a crash comes
# after the output of user code. The stack can be long.
_MAX_OUTPUT_BYTES = 16_000


class ProcessBackend:
    """Exchanges requests and records with worker processes through pipes.

    Each worker has one thread that reads its messages and one that writes to it. The output of a
    worker is written to a temporary file and shown if the worker dies.

    Args:
        setup: Describes the workers.
    """

    name = "process"

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._events: Queue[WorkerEvent] = Queue()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._outboxes: dict[int, _Outbox] = {}

    def start_worker(self, worker: int, slot: int) -> None:
        """Start a worker process and its two threads.

        Raises:
            UsageError: The operating system refuses to start another process.
        """
        # Pickled here and not in a thread, so that an error reaches the caller.
        setup = pickle.dumps(self._setup.for_slot(slot), pickle.HIGHEST_PROTOCOL)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the reading thread closes it
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "untrained.engine.worker_process", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=os.environ | _ENVIRONMENT,
            )
        except OSError as error:
            output.close()
            raise UsageError(
                f"no worker process can be started: {error}; use fewer --workers"
            ) from error
        outbox: _Outbox = SimpleQueue()
        outbox.put(setup)
        self._processes[worker] = process
        self._outboxes[worker] = outbox
        Thread(target=_write_messages, args=(process.stdin, outbox), daemon=True).start()
        Thread(
            target=self._read_messages, args=(worker, process, outbox, output), daemon=True
        ).start()

    def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
        """Send request groups to a worker. This never waits for the worker."""
        # If the worker has died, the message is lost, and `_read_messages` reports the death.
        self._outboxes[worker].put(pickle.dumps(groups, pickle.HIGHEST_PROTOCOL))

    def wait_for_events(self, timeout: float) -> Iterable[WorkerEvent]:
        """Wait for an event, at most `timeout` seconds, and return all events that have arrived."""
        events: list[WorkerEvent] = []
        try:
            events.append(self._events.get(timeout=timeout))
        except Empty:
            return events
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def stop_worker(self, worker: int) -> None:
        """Kill a worker process."""
        del self._outboxes[worker]
        process = self._processes.pop(worker)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Do nothing, because processes share nothing."""

    def _read_messages(
        self,
        worker: int,
        process: "subprocess.Popen[bytes]",
        outbox: _Outbox,
        output: IO[bytes],
    ) -> None:
        """Turn the messages of a worker into events until it ends."""
        assert process.stdout is not None
        try:
            while True:
                kind, content = pickle.load(process.stdout)
                self._events.put(_make_event(worker, kind, content))
        except (EOFError, OSError, pickle.UnpicklingError):
            exit_code = process.wait()
            reason = _describe_exit(exit_code)
            self._events.put(WorkerDied(worker, reason, _read_last_lines(output)))
        except Exception as error:
            # Unpickling can raise any exception, such as an ImportError for an unknown class. If
            # this thread ended without an event, the pool would wait forever.
            reason = f"{type(error).__name__}: {error}"
            self._events.put(WorkerDied(worker, reason, _read_last_lines(output)))
        finally:
            process.stdout.close()
            output.close()
            outbox.put(None)


def _write_messages(stream: IO[bytes], outbox: _Outbox) -> None:
    """Write the messages of an outbox to the input of a worker, and close it at the end.

    A worker that cannot run Python, because a C function holds its interpreter lock, does not read
    either, so writing may take forever. In a thread, this does not keep the pool from its time
    limit.
    """
    # Writing and closing fail if the worker has died or did not read the whole message.
    with suppress(OSError), stream:
        while True:
            message = outbox.get()
            if message is None:
                return
            stream.write(message)
            stream.flush()


def _make_event(worker: int, kind: str, content: Any) -> WorkerEvent:
    """Turn a message of `worker_process.py` into an event. The kind determines the content."""
    if kind == "ready":
        return WorkerReady(worker)
    if kind == "records":
        return WorkerScored(worker, content)
    return WorkerRefused(worker, content)


def _read_last_lines(output: IO[bytes]) -> str:
    """Return the last whole lines of the output of a worker."""
    start = output.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES
    output.seek(max(0, start))
    if start > 0:
        # Skip the first line, which is incomplete.
        output.readline()
    return output.read().decode(errors="replace").strip()


def _describe_exit(exit_code: int) -> str:
    """Return one line that says how a worker process ended."""
    if exit_code >= 0:
        return f"its worker ended with exit code {exit_code}"
    number = -exit_code
    name = f"signal {number}"
    # Real-time signals have no name.
    if number in set(signal.Signals):
        name = signal.Signals(number).name
    description = f"its worker was killed by {name}"
    if number == signal.SIGKILL:
        description += "; was the machine out of memory?"
    return description
