"""Kill `untrained` with SIGKILL at random moments, run the same command again, and compare with an undisturbed run.

    python benchmarks/kill.py [--part search training export table] [--kills 1000] [--seed 0] [--folder runs/kill]

Real commands run on tiny inputs. A trial starts a command in a fresh folder, kills it one to three times, each time at
a moment drawn uniformly over the duration of an undisturbed run, and then lets it finish. After every kill, no finished
result is lost or damaged. At the end nothing is lost or duplicated, and the records, the winner, the weights and the
exported files equal those of the undisturbed run.

Results are appended to `trials.jsonl` in the folder after every trial, so the script itself can be stopped: the same
command resumes. Commands run in forks of one process that has imported torch, which saves seconds per kill. Needs Linux
or macOS.
"""

import argparse
import io
import json
import os
import platform
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a fork of a process with several threads may hang

import numpy as np
import torch

from untrained.cli import app as cli
from untrained.seeds import make_generator

Content = dict[str, Any]  # what a command leaves behind, without times; compared for equality
MAX_KILLS = 3  # per trial
TIMED_RUNS = 3
PATIENCE = 300.0  # seconds until a command that was not killed counts as hanging
NETWORK = """
from torch import nn


def make():
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
"""


class Broken(Exception):  # noqa: N818 - it names a state of a folder
    """A folder breaks a promise of the package; the message says which."""


@dataclass(frozen=True)
class Part:
    """A command and the checks of its folder."""

    command: tuple[str, ...]
    prepare: Callable[[Path], None]  # writes the input of the command into an empty folder
    # Folder, content after the last kill, undisturbed content
    check_killed: Callable[[Path, Content, Content], Content]
    read: Callable[[Path], Content]  # reads the content after a command that finished


@dataclass
class Trial:
    """What happened in one folder."""

    part: str
    number: int
    kills: int = 0
    moments: list[float] = field(default_factory=list)
    problem: str = ""


# ---------------------------------------------------------------------------------------------------------- commands


def run_command(command: Sequence[str], folder: Path, report_modules: bool = False) -> int:
    """Start `untrained COMMAND` in a fork and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # so that Ctrl-C reaches only the script
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        os.environ.pop("UNTRAINED_DATA", None)  # it would replace the cache folder
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(
                os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor
            )
        sys.stdout = io.TextIOWrapper(
            os.fdopen(1, "wb", closefd=False), encoding="utf-8", write_through=True
        )
        sys.stderr = io.TextIOWrapper(
            os.fdopen(2, "wb", closefd=False), encoding="utf-8", write_through=True
        )
        sys.argv = ["untrained", *command]
        try:
            cli.main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code))
        if report_modules:
            (folder / "modules").write_text("\n".join(sys.modules))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait_for_exit(pid: int, seconds: float) -> int | None:
    """Return the exit code of a process, negative for a signal, or None if it still runs after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        # The id is 0 as long as the process runs.
        finished_pid, status = os.waitpid(pid, os.WNOHANG)
        if finished_pid:
            return os.waitstatus_to_exitcode(status)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return None
        time.sleep(min(0.002, remaining))


def kill_process(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def run_to_end(command: Sequence[str], folder: Path, report_modules: bool = False) -> float:
    """Run a command to its end and return its duration in seconds."""
    start = time.monotonic()
    pid = run_command(command, folder, report_modules)
    code = wait_for_exit(pid, PATIENCE)
    if code is None:
        kill_process(pid)
        raise Broken(f"the command did not end within {PATIENCE:g} s")
    if code != 0:
        message = (folder / "stderr").read_text(errors="replace").strip()
        raise Broken(f"the command ended with code {code}: {message[-2000:]}")
    return time.monotonic() - start


# -------------------------------------------------------------------------------------------------------- comparison


def hash_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def hash_tensors(path: Path) -> dict[str, str]:
    tensors = torch.load(path, weights_only=True)
    return {name: hash_bytes(tensor.numpy().tobytes()) for name, tensor in tensors.items()}


def drop_times(value: Any) -> Any:
    """Return a JSON value without what differs between runs: times, memory and latencies."""
    if isinstance(value, dict):
        cleaned = {name: drop_times(entry) for name, entry in value.items()}
        return {name: entry for name, entry in cleaned.items() if not is_time(name)}
    if isinstance(value, list):
        return [drop_times(entry) for entry in value]
    return value


def is_time(name: str) -> bool:
    return any(word in name for word in ("second", "latency", "peak_bytes", "made_on"))


def require_still_there(before: Content, after: Content) -> None:
    """Require that everything that existed after the last kill still exists."""
    for name, value in before.items():
        if name not in after:
            raise Broken(f"lost: {name}")
        if after[name] != value:
            raise Broken(
                f"changed: {name} was {shorten_repr(value)}, is {shorten_repr(after[name])}"
            )


def require_part_of(content: Content, whole: Content) -> None:
    for name, value in content.items():
        if whole.get(name) != value:
            raise Broken(
                f"different: {name} is {shorten_repr(value)}, undisturbed {shorten_repr(whole.get(name))}"
            )


def shorten_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}..."


# ------------------------------------------------------------------------------------------------------------ search

SEARCH = (
    "search --space nasbench201(channels=2,cells=1) --strategy evolution(population=4) --proxy naswot(samples=4) "
    "--data noise --budget 16 --no-confirm --workers 1 --run run --json"
)


def read_records(store: Path) -> Content:
    """Read the records by everything that identifies them, without times."""
    database = sqlite3.connect(store)
    try:
        (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise Broken(f"the store is damaged: {verdict}")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if "records" not in tables:
            return {}  # killed before the first table was made
        cursor = database.execute(
            "SELECT * FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id"
        )
        columns = [column for column, *_ in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor]
    finally:
        database.close()
    records: Content = {}
    for row in rows:
        key = f"{row['arch']} {row['measure']} {row['seed']} {row['data']}"
        if key in records:
            raise Broken(f"duplicated: {key}")
        records[key] = [row["value"], row["error"], row["detail"]]
    return records


def check_killed_search(folder: Path, before: Content, undisturbed: Content) -> Content:
    store = folder / "run" / "records.sqlite"
    records = read_records(store) if store.exists() else {}
    require_still_there(before, records)
    require_part_of(records, undisturbed["records"])
    return records


def read_search(folder: Path) -> Content:
    ranking = json.loads((folder / "stdout").read_text())
    run = json.loads((folder / "run" / "run.json").read_text())
    report = (folder / "run" / "report.html").read_text()
    return {
        "records": read_records(folder / "run" / "records.sqlite"),
        "ranking": drop_times(ranking),
        "winner": ranking[0]["arch"],
        "winner is in the report": ranking[0]["arch"] in report,
        "ended": run["ended"],
        "files": list_files(folder / "run"),
    }


# ---------------------------------------------------------------------------------------------------------- training

TRAINING = "train ./net.py:make --input-shape 1x8x8 --data digits --recipe quick(epochs=4) --run run --json"


def write_network(folder: Path) -> None:
    (folder / "net.py").write_text(NETWORK)


def check_killed_training(folder: Path, before: Content, undisturbed: Content) -> Content:
    """Check that existing checkpoints can be read and that a finished training stays finished."""
    content: Content = {}
    for path in (folder / "run").glob("*.pt"):
        try:
            torch.load(path, weights_only=False, map_location="cpu")
        except Exception as error:
            raise Broken(f"{path.name} cannot be read: {error}") from error
    if (folder / "run" / "train.json").exists():
        document = drop_times(json.loads((folder / "run" / "train.json").read_text()))
        content["weights"] = hash_tensors(folder / "run" / "model.pt")
        content["document"] = document
        require_part_of(content, undisturbed)
    require_still_there(before, content)
    return content


def read_training(folder: Path) -> Content:
    if list((folder / "run").glob("former-*")):
        raise Broken("duplicated: a former training was set aside")
    return {
        "weights": hash_tensors(folder / "run" / "model.pt"),
        "document": drop_times(json.loads((folder / "run" / "train.json").read_text())),
        "files": list_files(folder / "run"),
    }


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# ------------------------------------------------------------------------------------------------------------ export

EXPORT = "export ./net.py:make --out out --input-shape 1x8x8 --classes 10 --weights WEIGHTS --json"
FORMER = "former.pt"
NEW = "new.pt"


def prepare_export(folder: Path, former: Path | None = None) -> None:
    """Write a network, two sets of weights, and an export of the first of them."""
    write_network(folder)
    scope: dict[str, Any] = {}
    exec(NETWORK, scope)
    for seed, name in enumerate((FORMER, NEW)):
        torch.manual_seed(seed)
        torch.save(scope["make"]().state_dict(), folder / name)
    if former is not None:
        shutil.copytree(former, folder / "out")


def read_export(folder: Path) -> Content:
    """Read the exported files. Latencies differ between runs, so the pages that show them are not compared."""
    out = folder / "out"
    content: Content = {}
    for name in list_files(out):
        path = out / name
        if name == "config.json":
            content[name] = drop_times(json.loads(path.read_text()))
        elif path.is_file() and path.suffix not in (".md", ".json"):
            content[name] = hash_bytes(path.read_bytes())
        else:
            content[name] = "exists"
    return content


def read_finished_export(folder: Path) -> Content:
    # An interrupted replacement would leave a folder with a similar name.
    left_over = []
    for path in sorted(folder.iterdir()):
        if "out" in path.name and path.name not in ("out", "stdout"):
            left_over.append(path.name)
    return {"files": read_export(folder), "left over": left_over}


def make_export_check(former: Content) -> Callable[[Path, Content, Content], Content]:
    def check_export(folder: Path, before: Content, undisturbed: Content) -> Content:
        """Check that the folder is the former export or the new one, never a mixture."""
        if not (folder / "out").is_dir():
            raise Broken("lost: there is no folder `out`")
        content = read_export(folder)
        if content not in (former, undisturbed["files"]):
            weights = "new"
            if content.get("model.safetensors") == former["model.safetensors"]:
                weights = "former"
            raise Broken(
                f"the export is neither the former nor the new one; its weights are the {weights} ones"
            )
        return {}

    return check_export


# ------------------------------------------------------------------------------------------------------------- table

TABLE = "data card csv:clicks.csv --label click --json"
ROWS = 40_000


def write_table(folder: Path) -> None:
    draw = np.random.default_rng(0)
    clicks = draw.integers(2, size=ROWS)
    prices = draw.normal(size=ROWS).round(3)
    users = draw.integers(500, size=ROWS)
    lines = [
        f"{click},{price},u{user}" for click, price, user in zip(clicks, prices, users, strict=True)
    ]
    (folder / "clicks.csv").write_text("\n".join(["click,price,user", *lines]) + "\n")


def read_cache(folder: Path) -> Content:
    """Read the encoded table, which later commands use instead of the file."""
    content: Content = {}
    for table in (folder / "cache").rglob("train"):
        if table.is_file() and not is_temporary(table):
            for path in table.parent.iterdir():
                content[path.name] = hash_bytes(path.read_bytes())
    return content


def is_temporary(path: Path) -> bool:
    return any(part.startswith((".", "tmp")) for part in path.parts[-3:])


def check_killed_table(folder: Path, before: Content, undisturbed: Content) -> Content:
    cache = read_cache(folder)
    if cache and cache != undisturbed["cache"]:
        raise Broken(f"the cache of the table is incomplete: {shorten_repr(cache)}")
    require_still_there(before, cache)
    return cache


def read_table(folder: Path) -> Content:
    card = drop_times(json.loads((folder / "stdout").read_text()))
    left_over = [path.name for path in (folder / "cache").rglob("*") if is_temporary(path)]
    return {"card": card, "cache": read_cache(folder), "left over": left_over}


# ------------------------------------------------------------------------------------------------------------ trials


def make_parts(home: Path) -> dict[str, Callable[[], Part]]:
    def make_search_part() -> Part:
        return Part(tuple(SEARCH.split()), lambda folder: None, check_killed_search, read_search)

    def make_training_part() -> Part:
        return Part(tuple(TRAINING.split()), write_network, check_killed_training, read_training)

    def make_export_part() -> Part:
        earlier = make_fresh_folder(home / "former-export")
        prepare_export(earlier)
        run_to_end(EXPORT.replace("WEIGHTS", FORMER).split(), earlier)
        return Part(
            tuple(EXPORT.replace("WEIGHTS", NEW).split()),
            lambda folder: prepare_export(folder, earlier / "out"),
            make_export_check(read_export(earlier)),
            read_finished_export,
        )

    def make_table_part() -> Part:
        return Part(tuple(TABLE.split()), write_table, check_killed_table, read_table)

    return {
        "search": make_search_part,
        "training": make_training_part,
        "export": make_export_part,
        "table": make_table_part,
    }


def make_fresh_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_undisturbed(part: Part, home: Path) -> tuple[Content, float]:
    """Return the content after an undisturbed run, the same in every run, and the median duration."""
    folder = make_fresh_folder(home)
    part.prepare(folder)
    run_to_end(part.command, folder, report_modules=True)
    expected = part.read(folder)
    for name in (folder / "modules").read_text().split():
        with suppress(Exception):
            import_module(name)  # so that forks need not import it
    seconds = []
    for _ in range(TIMED_RUNS):
        folder = make_fresh_folder(home)
        part.prepare(folder)
        seconds.append(run_to_end(part.command, folder))
        require_part_of(part.read(folder), expected)
    return expected, median(seconds)


def run_trial(
    name: str, number: int, part: Part, expected: Content, duration: float, seed: int, home: Path
) -> Trial:
    """Kill a command a few times in one folder, let it finish, and compare."""
    draw = make_generator("kill", seed, name, number)
    trial = Trial(name, number)
    folder = make_fresh_folder(home)
    part.prepare(folder)
    content: Content = {}
    try:
        for _ in range(int(draw.integers(1, MAX_KILLS + 1))):
            moment = float(draw.uniform(0, duration))
            pid = run_command(part.command, folder)
            if wait_for_exit(pid, moment) is None:
                kill_process(pid)
                trial.kills += 1
                trial.moments.append(round(moment, 4))
                content = part.check_killed(folder, content, expected)
        run_to_end(part.command, folder)
        final_content = part.read(folder)
        require_part_of(final_content, expected)
        require_part_of(expected, final_content)
    except Broken as problem:
        trial.problem = str(problem)
        shutil.copytree(folder, home.with_name(f"broken-{name}-{number}"), dirs_exist_ok=True)
    return trial


def read_trials(path: Path) -> list[Trial]:
    """Read the trials of earlier runs; a line that a kill of this script cut off is ignored."""
    if not path.exists():
        return []
    trials = []
    for line in path.read_text().splitlines():
        with suppress(ValueError):
            trials.append(Trial(**json.loads(line)))
    return trials


def format_summary(trials: Iterable[Trial], seconds: dict[str, float]) -> list[str]:
    lines = ["| part | one undisturbed run | trials | kills | problems |", "|---|---|---|---|---|"]
    trials = list(trials)
    for part in dict.fromkeys(trial.part for trial in trials):
        part_trials = [trial for trial in trials if trial.part == part]
        kills = sum(trial.kills for trial in part_trials)
        problems = sum(bool(trial.problem) for trial in part_trials)
        duration = f"{seconds[part]:.2f} s" if part in seconds else ""
        lines.append(f"| {part} | {duration} | {len(part_trials):,} | {kills:,} | {problems:,} |")
    kills = sum(trial.kills for trial in trials)
    problems = sum(bool(trial.problem) for trial in trials)
    lines.append(f"| all | | {len(trials):,} | {kills:,} | {problems:,} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", nargs="+", choices=["search", "training", "export", "table"], default=None
    )
    parser.add_argument(
        "--kills", type=int, default=1000, help="number of kills in all parts together"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs", "kill"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    home = options.folder.resolve()
    home.mkdir(parents=True, exist_ok=True)
    log = home / "trials.jsonl"
    trials = read_trials(log)
    makers = make_parts(home)
    names = options.part or list(makers)
    share = -(-options.kills // len(names))  # rounded up
    seconds: dict[str, float] = {}
    for name in names:
        part_trials = [trial for trial in trials if trial.part == name]
        kills = sum(trial.kills for trial in part_trials)
        if kills >= share:
            continue
        part = makers[name]()
        expected, seconds[name] = run_undisturbed(part, home / f"undisturbed-{name}")
        print(
            f"{name}: one undisturbed run takes {seconds[name]:.2f} s; {kills:,} of {share:,} kills done",
            flush=True,
        )
        number = max((trial.number for trial in part_trials), default=-1) + 1
        while kills < share:
            trial = run_trial(
                name, number, part, expected, seconds[name], options.seed, home / "trial"
            )
            with log.open("a") as file:
                file.write(json.dumps(vars(trial)) + "\n")
            trials.append(trial)
            kills += trial.kills
            number += 1
            if trial.problem:
                print(f"{name}, trial {trial.number}: {trial.problem}", flush=True)
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, seed {options.seed}")
    print("\n".join(format_summary((trial for trial in trials if trial.part in names), seconds)))
    if any(trial.problem for trial in trials):
        sys.exit(1)


if __name__ == "__main__":
    main()
