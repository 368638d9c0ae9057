"""Reads foreign files in a process of its own, and watches what the readers do.

The parent writes one line of JSON per file, `{"kind": ..., "path": ...}`, and reads one line of
JSON per file: how it ended, what was wrong, how much memory and time it took. A reader that ends
the interpreter leaves its file without an answer.
"""

import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGEST_ADDRESS_SPACE = 8 * 2**30  # protects the machine; the bound that counts is the parent's

# Events of Python that no reader of data may cause.
FORBIDDEN_EVENTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "os.startfile",
    "os.putenv",
    "subprocess.Popen",
    "pty.spawn",
    "socket.connect",
    "socket.bind",
    "urllib.Request",
    "pickle.find_class",
    "ctypes.dlopen",
    "sqlite3.enable_load_extension",
    "sqlite3.load_extension",
    "webbrowser.open",
)
# Events that remove or rename, whose first argument is a path.
CHANGING_EVENTS = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
    "os.link",
    "os.symlink",
)
WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """Records forbidden actions of readers."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = str(scratch)
        self.violations: list[str] = []
        self.active = False
        self.own_code = tuple(
            {sys.prefix, sys.base_prefix, *(entry for entry in sys.path if entry), "<frozen "}
        )

    def record_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in FORBIDDEN_EVENTS:
            self.violations.append(f"{event} {str(arguments)[:100]}")
        elif event == "exec":
            filename = getattr(arguments[0], "co_filename", "")
            if not filename.startswith(self.own_code):
                self.violations.append(f"exec of {filename}")
        elif event == "open":
            self._check_open(*arguments)
        elif event in CHANGING_EVENTS and not self._is_inside(arguments[0]):
            self.violations.append(f"{event} {arguments[0]}")

    def _check_open(self, path: Any, mode: Any, flags: Any) -> None:
        writes = isinstance(flags, int) and bool(flags & WRITING_FLAGS)
        if writes and not isinstance(path, int) and not self._is_inside(path):
            self.violations.append(f"opens {path} for writing")

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return True
        text = os.path.abspath(os.fsdecode(path))
        return text.startswith((self.scratch, "/dev/", "/proc/self/"))


# ----------------------------------------------------------------------------------------- readers


def import_table(benchmark: str, path: Path, scratch: Path) -> None:
    from untrained.benchmarks import import_benchmark

    table = import_benchmark(benchmark, path, scratch / "root")
    for column in table.columns:
        table.read_column(column)


def read_hwnas(path: Path, scratch: Path) -> None:
    import_table("nasbench201", path, scratch)


def read_nats(path: Path, scratch: Path) -> None:
    """The file has the results of one architecture; the list of architectures is beside it."""
    import_table("nasbench201", path.parent, scratch)


def read_transnas(path: Path, scratch: Path) -> None:
    import_table("transnas", path, scratch)


def read_tfrecord(path: Path, scratch: Path) -> None:
    import_table("nasbench101", path, scratch)


def read_suite_zero(path: Path, scratch: Path) -> None:
    import_table("nasbench201", path, scratch)


def read_table_csv(path: Path, scratch: Path) -> None:
    import_table("darts1000", path.parent, scratch)


def read_parquet_table(path: Path, scratch: Path) -> None:
    """The file is an imported table under the data root."""
    from untrained.benchmarks import open_table

    table = open_table("transnas", path.parents[1])
    table.list_archs()
    for column in table.columns:
        table.read_column(column)


def read_cifar(path: Path, scratch: Path) -> None:
    from untrained.data import load_data
    from untrained.types import Task

    load_data("cifar10", Task("any", (3, 32, 32), 10), path.parents[1]).batch(2)


def read_npz(path: Path, scratch: Path) -> None:
    from untrained.data import load_data
    from untrained.types import Task

    source = load_data(f"npz:{path}", Task("any", (3, 8, 8), 10))
    source.batch(2)
    list(source.parts.values())


def read_csv(path: Path, scratch: Path) -> None:
    from untrained.data import load_data
    from untrained.types import Task

    source = load_data(f"csv:{path}?label=click", Task("any", (4,), 1))
    source.batch(2)
    source.card()


def read_store(path: Path, scratch: Path) -> None:
    from untrained.runs import store_files as stores

    before = path.read_bytes()
    stores.describe_store(path)
    stores.export_store(path, scratch / "exported.csv")
    if path.read_bytes() != before:
        raise AssertionError("reading has changed the store")


def read_run(path: Path, scratch: Path) -> None:
    """The file is `run.json`, `training.json` or another file of a run folder."""
    from untrained.workflows import report as report_workflow

    report_workflow.report(path.parent)
    report_workflow.read_run_outcome(path.parent)


def read_checkpoint(path: Path, scratch: Path) -> None:
    from untrained.training.checkpoint import load_tensors

    load_tensors(path)


# Readers with forbidden actions, which show that the watch works.


def crash(path: Path, scratch: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def take_memory(path: Path, scratch: Path) -> None:
    bytearray(600 * 2**20).count(1)


def run_command(path: Path, scratch: Path) -> None:
    os.system("true")


def run_source(path: Path, scratch: Path) -> None:
    exec(compile("1", "foreign.py", "exec"))


def write_outside(path: Path, scratch: Path) -> None:
    (scratch.parent / "outside").write_text("x")


def raise_lines(path: Path, scratch: Path) -> None:
    from untrained.errors import UsageError

    raise UsageError("one\ntwo")


def raise_error(path: Path, scratch: Path) -> None:
    raise KeyError("x")


READERS: dict[str, Callable[[Path, Path], None]] = {
    "hwnas.pickle": read_hwnas,
    "nats.pbz2": read_nats,
    "cifar.pickle": read_cifar,
    "transnas.pth": read_transnas,
    "checkpoint.pt": read_checkpoint,
    "images.npz": read_npz,
    "nasbench101.tfrecord": read_tfrecord,
    "store.sqlite": read_store,
    "run.json": read_run,
    "suite_zero.json": read_suite_zero,
    "clicks.csv": read_csv,
    "table.csv.gz": read_table_csv,
    "table.parquet": read_parquet_table,
    "bad: crash": crash,
    "bad: memory": take_memory,
    "bad: command": run_command,
    "bad: source": run_source,
    "bad: outside": write_outside,
    "bad: lines": raise_lines,
    "bad: error": raise_error,
}


# -------------------------------------------------------------------------------------------- loop


def read_resident_bytes(field: str) -> int:
    """Return a field of /proc/self/status: VmRSS is the memory now, VmHWM its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read_file(kind: str, path: Path, scratch: Path, watch: Watch) -> dict[str, Any]:
    """Read one file and return what happened."""
    from untrained.errors import UsageError

    reset_peak()
    memory_before = read_resident_bytes("VmRSS")
    watch.violations.clear()
    start = time.perf_counter()
    outcome = "read"
    message = ""
    watch.active = True
    try:
        READERS[kind](path, scratch)
    except UsageError as error:
        message = str(error)
        outcome = "refused"
        if len(message.splitlines()) != 1 or not message.strip():
            outcome = "not one line"
    except BaseException as error:
        outcome = "exception"
        message = f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        watch.active = False
        shutil.rmtree(scratch / "root", ignore_errors=True)
    return {
        "outcome": outcome,
        "message": message[:2000],
        "violations": list(watch.violations),
        "memory_bytes": max(0, read_resident_bytes("VmHWM") - memory_before),
        "seconds": time.perf_counter() - start,
    }


def import_readers() -> None:
    """Import all modules that readers import lazily, so that they do not count as foreign code."""
    import torch

    from untrained import data
    from untrained.benchmarks import importers
    from untrained.spaces import load_space

    torch.set_num_threads(1)
    for package in (data, importers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in (
        "untrained.workflows.report",
        "untrained.runs.store_files",
        "untrained.training.checkpoint",
    ):
        importlib.import_module(name)
    for space in ("nasbench101", "nasbench201", "transnas_micro", "darts"):
        load_space(space)


def main() -> None:
    scratch = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of a reader must not mix with the answers
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    os.environ["TMPDIR"] = str(scratch)
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_ADDRESS_SPACE, LARGEST_ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    import_readers()
    watch = Watch(scratch)
    sys.addaudithook(watch.record_event)
    for line in sys.stdin:
        job = json.loads(line)
        result = read_file(job["kind"], Path(job["path"]), scratch, watch)
        answers.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
