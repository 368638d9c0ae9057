"""A run folder: `run.json` (what was asked, and what it cost), `records.sqlite` (what was found), `report.html`."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

from untrained.engine import Store
from untrained.errors import UsageError

_PACKAGES = ("untrained", "torch", "numpy")


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
    code: str = ""  # fingerprint of the user's own files

    def default_folder(self) -> Path:
        words = (self.space, self.proxy, self.strategy, self.data, f"seed{self.seed}", f"x{self.seeds}", self.device)
        plain = ("seed0", "x1", "cpu")
        return Path("runs", "-".join(_for_a_file(word) for word in words if word not in plain))


@dataclass(frozen=True)
class Run:
    """The facts of a run, as `run.json` holds them."""

    folder: Path
    settings: Settings
    measure: str
    higher_is_better: bool
    about: str
    budget: int
    wall_seconds: float = 0.0  # of all sittings together
    stopped_early: bool = False
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "records.sqlite"

    def options(self) -> str:
        """What to type after `untrained search` to get or resume this run."""
        asked, plain = asdict(self.settings) | {"budget": self.budget, "run": str(self.folder)}, _plain()
        del asked["code"]
        return " ".join(f"--{name} {quote(str(value))}" for name, value in asked.items() if value != plain.get(name))

    def begun(self) -> bool:
        """Whether the folder holds records; a run that failed before its first has nothing to protect."""
        if not self.store.exists():
            return False
        with Store(self.store) as store:
            return len(store) > 0

    def resume(self) -> "Run":
        """This run, going on where an earlier sitting in the same folder stopped; other settings are refused."""
        if not (self.folder / "run.json").exists():
            return replace(self, versions=_versions())
        before = Run.read(self.folder)
        ours, theirs = asdict(self.settings), asdict(before.settings)
        changed = [f"{name} {theirs[name]!r} (now {ours[name]!r})" for name in ours if ours[name] != theirs[name]]
        if changed and before.begun():
            raise UsageError(f"{self.folder} holds another run, with {', '.join(changed)}; choose another --run folder")
        return replace(self, wall_seconds=before.wall_seconds, versions=_versions())

    def save(self) -> "Run":
        """Write `run.json` whole or not at all."""
        facts = asdict(self)
        del facts["folder"]
        partial = self.folder / "run.json.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(facts, indent=2) + "\n")
            os.replace(partial, self.folder / "run.json")
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be used as a run folder: {error}") from error
        return self

    @staticmethod
    def read(folder: str | Path) -> "Run":
        path = Path(folder, "run.json")
        if not path.is_file():
            raise UsageError(
                f"{folder} is not a run folder: it has no run.json; `untrained search --run {folder}` makes one"
            )
        try:
            facts: dict[str, Any] = json.loads(path.read_text())
            return Run(Path(folder), Settings(**facts.pop("settings")), **facts)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{path} is damaged: {error}; delete the folder, or choose another --run") from error


def _for_a_file(word: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in word).strip("._")


def _plain() -> dict[str, Any]:
    """The defaults of `search`, which need not be typed."""
    from inspect import signature

    from untrained.strategies.search import search

    return {name: parameter.default for name, parameter in signature(search).parameters.items()}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
