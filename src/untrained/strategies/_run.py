"""A run folder: `run.json` (what was asked, and what it cost), `records.sqlite` (what was found), `report.html`;
`trace.json`, `belief.json` and `notes.jsonl` where the strategy believed something and worked for it."""

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from untrained import __version__
from untrained._files import free, run_folder, write_whole
from untrained._load import fingerprint_user_code, parse_call
from untrained._numbers import counted
from untrained._typed import options
from untrained.engine import Cost
from untrained.engine.measure import Start
from untrained.engine.store import begun
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json
from untrained.strategies._bounds import LIMITS
from untrained.strategies._notes import Notes
from untrained.strategies.budget import USUAL

STORE = "records.sqlite"
LONGEST = 240  # bytes of a name: most file systems take 255, and a number may follow
_PACKAGES = ("torch", "numpy")


@dataclass(frozen=True)
class Settings:
    """What a run asks for. Two runs with equal settings find the same records; only the budget may grow."""

    space: str
    proxy: str
    strategy: str
    data: str
    seed: int
    seeds: int
    device: str
    code: str = ""  # fingerprint of `user_code`
    screen: str = ""  # cheap proxies that decide who is judged
    keep: str = ""  # and the share that they let pass
    objectives: str = ""  # proxies beside the first that a strategy weighs against it
    validate: str = ""  # what has the last word instead of the proxy
    warm_up: str = ""  # the training before networks are judged
    max_params: str | None = None
    min_params: str | None = None
    max_flops: str | None = None
    max_memory: str | None = None
    max_latency: str | None = None
    input_size: int | None = None  # side of the images that networks are shown; None is the space's usual one

    @property
    def score(self) -> str:
        """What the ranking goes by."""
        return self.validate or self.proxy

    @property
    def user_code(self) -> list[str]:
        """The files and modules of the user that the search depends on, as they were typed."""
        strategy_options = parse_call(self.strategy)[1]
        names = [self.space, self.proxy, *map(str, strategy_options.values())]
        return [name for name in names if fingerprint_user_code(name)]

    def changed(self, before: "Settings") -> str:
        """What was otherwise, in words."""
        ours = asdict(self)
        theirs = asdict(before)
        names = [name for name in ours if ours[name] != theirs[name] and name != "code"]
        told = [f"{name} {theirs[name]!r} (now {ours[name]!r})" for name in names]
        # Other files are told by their names.
        if self.code != before.code and self.user_code == before.user_code:
            files = dict.fromkeys(str(Path(name.rpartition(":")[0])) for name in self.user_code)
            told.append(f"{' or '.join(files)} as it was (changed since)")
        return ", ".join(told)

    def default_folder(self) -> Path:
        words = [self.space, self.proxy, self.strategy, self.data, f"seed{self.seed}", f"x{self.seeds}", self.device]
        words += [f"{self.screen}-{self.keep}"] if self.screen else []
        words += [f"input{self.input_size}"] if self.input_size else []
        words += [word for word in (self.objectives, self.validate) if word]
        words += [f"warm-{self.warm_up}"] if self.warm_up else []
        words += [f"{name}-{said}" for name in LIMITS if (said := getattr(self, name)) is not None]
        plain = ("seed0", "x1", "cpu")
        return Path("runs", for_a_file(*(word for word in words if word not in plain)))


@dataclass(frozen=True)
class Run:
    """The facts of a run, as `run.json` holds them."""

    folder: Path
    settings: Settings
    measure: str
    higher_is_better: bool
    about: str
    budget: int | None
    time: str | None = None
    stable: int | None = None
    top: int = 10
    beside: str = ""  # proxies that are recorded and decide nothing
    confirm: int = 0  # how many of each kind are trained briefly in the end
    wall_seconds: float = 0.0  # of all sittings together
    warm_up_seconds: float = 0.0  # those of them in which a supernet was warmed up
    noted_seconds: float = 0.0  # and those in which the strategy worked itself
    ended: str = ""  # why the last sitting ended
    question: str = ""  # the name of what is asked for, see `runs/question.py`; earlier versions gave none
    limits: list[dict[str, Any]] = field(default_factory=list)  # each with what it turned down and what the best has
    workers: list[dict[str, Any]] = field(default_factory=list)  # what each did with its time, all sittings together
    versions: dict[str, str] = field(default_factory=dict)
    # What a report shows of a space and of proxies that are the user's own: reading a run never runs their code.
    space_code: str = ""  # fingerprint of the user's code that defines the space
    space_size: int | None = None
    objectives: list[dict[str, Any]] = field(default_factory=list)  # label, measure, higher_is_better of each
    drawing: dict[str, Any] | None = None  # the architecture that is drawn, and its sketch

    @property
    def stopped_early(self) -> bool:
        return self.ended in ("interrupted", "time")

    @property
    def ending(self) -> str:
        """Why the last sitting ended, in a sentence; empty where it did what was asked."""
        said = {
            "time": f"Stopped after {self.time}: the best so far is kept, and the same command goes on from here.",
            "stable": f"Stopped because the best {self.top} have not changed for {self.stable} new architectures.",
            "exhausted": "Every architecture that there is to find has been judged.",
            "interrupted": "Stopped by Ctrl-C: the best so far is kept, and the same command goes on from here.",
        }
        return said.get(self.ended, "")

    def asked(self) -> str:
        """When to stop, in words."""
        count = [counted(self.budget, "architecture")] if self.budget else []
        stable = [f"until the best {self.top} are stable for {self.stable:,} architectures"] if self.stable else []
        return ", ".join(count + ([self.time] if self.time else []) + stable)

    def screened(self, pool: int, kept: int) -> str:
        """What the screen did, in a sentence; empty where there was none."""
        by = f"Screened {counted(pool, 'architecture')} by {self.settings.screen} and kept the best {kept:,}."
        return by if self.settings.screen else ""

    @property
    def store(self) -> Path:
        return self.folder / STORE

    def options(self) -> str:
        """What to type after `untrained search` to get or resume this run."""
        from untrained.strategies.search import search
        from untrained.studies.confirm import usual

        own = {name: getattr(self, name) for name in ("budget", "time", "stable", "top", "beside", "confirm")}
        asked = asdict(self.settings) | own | {"run": str(self.folder)}
        del asked["code"], asked["objectives"]
        if self.budget == USUAL:
            del asked["budget"]
        if not self.stable:
            del asked["top"]
        declined = usual(self.settings.data) and not self.confirm
        return options(search, asked) + (" --no-confirm" if declined else "")

    def begun(self) -> bool:
        """Whether the folder holds records; a run that failed before its first has nothing to protect."""
        return begun(self.store)

    def resume(self) -> "Run":
        """This run, going on where an earlier sitting in the same folder stopped; other settings are refused."""
        if not (self.folder / "run.json").exists():
            return replace(self, versions=versions())
        before = Run.read(self.folder)
        changed = self.settings != before.settings
        if changed and before.begun():
            told = f"{self.folder} holds another run, with {self.settings.changed(before.settings)}"
            raise UsageError(f"{told}; for this one add --run {free(self.folder)}")
        if changed:
            return replace(self, versions=versions())  # what another run cost is not on our account
        return replace(
            self,
            wall_seconds=before.wall_seconds,
            warm_up_seconds=before.warm_up_seconds,
            noted_seconds=before.noted_seconds,
            workers=before.workers,
            question=before.question,  # until the new one is known, which may take a warm-up
            versions=versions(),
        )

    def account(
        self, costs: Iterable[Cost], seconds: float, ended: str, start: Start | None = None, notes: Notes | None = None
    ) -> "Run":
        """This run after a sitting that took so many seconds; `start` and `notes` know what their own took. That of
        sittings that were killed is in no account yet."""
        rows = {row["worker"]: row for row in self.workers}
        for row in (cost.row() for cost in costs):
            former = rows.get(row["worker"], {})
            rows[row["worker"]] = {k: v if k == "worker" else v + former.get(k, 0) for k, v in row.items()}
        warm = start.seconds if start else 0.0
        missed = max(0.0, notes.before - self.noted_seconds) if notes else 0.0
        wall = self.wall_seconds + warm - self.warm_up_seconds + missed + seconds
        noted = notes.seconds if notes else self.noted_seconds
        run = replace(self, wall_seconds=wall, warm_up_seconds=warm, noted_seconds=noted)
        return replace(run, workers=list(rows.values()), ended=ended)

    def save(self) -> "Run":
        """Write `run.json` whole or not at all."""
        facts = asdict(self)
        del facts["folder"]
        with run_folder(self.folder):
            write_whole(self.folder / "run.json", json.dumps(facts, indent=2) + "\n")
        return self

    @staticmethod
    def read(folder: str | Path) -> "Run":
        path = Path(folder, "run.json")
        if not path.is_file():
            raise UsageError(
                f"{folder} is not a run folder: it has no run.json; `untrained search --run {folder}` makes one"
            )
        try:
            facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
            known = {name: value for name, value in facts.items() if name in Run.__dataclass_fields__}
            return Run(**known | {"folder": Path(folder), "settings": Settings(**facts["settings"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{path} is damaged: {error}; delete the folder, or choose another --run") from error


def for_a_file(*words: str) -> str:
    """These words as the name of a folder; of a name that would be too long the head, and a digest of all of it."""
    name = "-".join("".join(c if c.isalnum() or c in "-_." else "_" for c in word).strip("._") for word in words)
    if len(name.encode()) <= LONGEST:
        return name
    digest = sha256("\x1f".join(words).encode(errors="replace")).hexdigest()[:8]
    return f"{name.encode()[: LONGEST - 9].decode(errors='ignore')}-{digest}"


def versions() -> dict[str, str]:
    """Of what has a say in the numbers."""
    return {
        "python": platform.python_version(),
        "untrained": __version__,
        **{name: version(name) for name in _PACKAGES},
    }
