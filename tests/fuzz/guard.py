"""Reads files in a child process, so that a crash is a result and does not end the tests."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import untrained

TIME_LIMIT = 120.0  # seconds per file
MEMORY_PER_BYTE = 10
MEMORY_FREE = 500 * 2**20


@dataclass(frozen=True)
class Reading:
    """How the reading of one file ended.

    `outcome` is "read" or "refused" (a `UsageError` of one line); anything else is a defect:
    "not one line", "exception", "crash", "hang".
    """

    kind: str
    file_bytes: int
    outcome: str
    message: str = ""
    violations: list[str] = field(default_factory=list)
    memory_bytes: int = 0
    seconds: float = 0.0

    @property
    def memory_limit(self) -> int:
        return MEMORY_PER_BYTE * self.file_bytes + MEMORY_FREE

    @property
    def defects(self) -> list[str]:
        defects = list(self.violations)
        if self.outcome not in ("read", "refused"):
            defects.append(f"{self.outcome}: {self.message}")
        if self.memory_bytes > self.memory_limit:
            defects.append(f"{self.memory_bytes >> 20} MB for {self.file_bytes} bytes")
        return defects


class GuardedReader:
    """A child process that reads files; it is started again after a crash."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the reader

    def read(self, kind: str, path: Path) -> Reading:
        process = self._start()
        size = path.stat().st_size
        assert process.stdin is not None
        assert process.stdout is not None
        job = json.dumps({"kind": kind, "path": str(path)}) + "\n"
        process.stdin.write(job.encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], TIME_LIMIT)
        if not ready:
            self.close()
            return Reading(kind, size, "hang", f"no answer within {TIME_LIMIT:.0f} s")
        line = process.stdout.readline()
        if not line:
            return Reading(kind, size, "crash", self._describe_crash(process))
        answer: dict[str, Any] = json.loads(line)
        return Reading(kind, size, **answer)

    def restart(self) -> None:
        """Use a new process for the next file, whose caches are empty."""
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> "GuardedReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._errors.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            package_root = str(Path(untrained.__file__).parents[1])
            environment = dict(os.environ, PYTHONPATH=package_root, OMP_NUM_THREADS="1")
            # Freed memory goes back to the system at once, so that each file is measured alone.
            environment["MALLOC_TRIM_THRESHOLD_"] = "0"
            environment["MALLOC_ARENA_MAX"] = "1"
            command = [sys.executable, str(Path(__file__).with_name("child.py")), str(self.scratch)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
            )
        return self._process

    def _describe_crash(self, process: subprocess.Popen[bytes]) -> str:
        code = process.wait()
        self.close()
        self._errors.seek(0)
        last_output = self._errors.read()[-500:].decode(errors="replace").strip()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}; {last_output}"
        return f"ended with code {code}; {last_output}"
