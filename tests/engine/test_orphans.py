"""Workers end with their driver, also while they cannot run Python."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux kills a process when its parent ends"
    ),
]
WORKERS = 2
# A regular expression holds the interpreter's lock, so no thread of the worker runs. This one takes
# years.
MINE = r"""
    import os
    import re
    from pathlib import Path

    from torch import nn

    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
    def nets(choose, task):
        return nn.Sequential(nn.Flatten(), nn.Linear(192, choose("width", tuple(range(1, 50)))))

    @untrained.proxy(samples=2)
    def endless(probe):
        Path(f"{os.getpid()}.worker").touch()
        return float(re.match(r"(a+)+$", "a" * 60 + "b") is None)
"""
DRIVER = f"""
    import untrained

    untrained.search(
        "./mine.py:nets", proxy="./mine.py:endless", budget=40, run="run", workers={WORKERS}
    )
"""


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    state = facts.rpartition(")")[2].split()[0]
    return state not in "ZX"


def wait_until(condition, seconds: float) -> bool:
    """Wait for a condition; return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_worker_that_holds_the_interpreter_lock_ends_with_its_driver(tmp_path):
    (tmp_path / "mine.py").write_text(dedent(MINE))
    driver = subprocess.Popen(
        [sys.executable, "-c", dedent(DRIVER)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    workers: list[int] = []
    try:
        assert wait_until(lambda: len(list(tmp_path.glob("*.worker"))) == WORKERS, seconds=120)
        workers = [int(path.stem) for path in tmp_path.glob("*.worker")]
        time.sleep(0.2)  # until both are inside the regular expression
        assert all(is_running(pid) for pid in workers)
        driver.kill()
        driver.wait()
        assert wait_until(lambda: not any(is_running(pid) for pid in workers), seconds=2)
    finally:
        driver.kill()
        driver.wait()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_worker_whose_driver_ended_before_it_could_ask_for_a_signal_ends_at_once():
    not_the_parent = str(os.getppid())
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "untrained.engine.worker_process", not_the_parent],
        stdin=subprocess.PIPE,  # stays open, so it is not the end of its input that ends the worker
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.wait(timeout=60) == 0
        assert worker.stdout is not None
        assert worker.stdout.read() == b""
