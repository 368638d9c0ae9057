"""Which architecture a run folder is about: the one that short trainings confirmed, else the first of its ranking.

Training, export and the report all ask here. Knows folders and records, nothing of networks.
"""

from dataclasses import dataclass
from pathlib import Path

from untrained._files import reading_study
from untrained.data import sized
from untrained.engine import Store
from untrained.engine.aggregates import aggregated
from untrained.errors import UsageError
from untrained.proxies import PROXIES, load_proxy
from untrained.spaces import load_space
from untrained.strategies._bounds import ranked
from untrained.strategies._run import Run
from untrained.strategies.select import Ranking
from untrained.types import Arch, Record

CONFIRMED = "confirmed.json"


def winner(folder: str | Path) -> Arch:
    """The architecture to go on with."""
    run, confirmed = Run.read(folder), Path(folder, CONFIRMED)
    if confirmed.is_file():
        space = load_space(run.settings.space)
        with reading_study(confirmed) as facts:
            return space.parse(facts["winner"])
    with Store(run.store, read_only=True) as store:
        standings = ranking_of(run, list(store)).standings
    if not standings:
        raise UsageError(f"{folder} has no winner: nothing in it has a score; its report says why")
    return standings[0].arch


@dataclass(frozen=True)
class Won:
    """What a run folder is about: the architecture to go on with, and what it was searched for."""

    arch: Arch
    space: str
    data: str
    input_shape: tuple[int, ...] | None  # None is that of the data, or the space's usual one
    seed: int


def won(folder: str | Path) -> Won:
    settings = Run.read(folder).settings
    task, side = load_space(settings.space).task, settings.input_size
    shape = sized(task, side).input_shape if side else None
    return Won(winner(folder), settings.space, settings.data, shape, settings.seed)


def ranking_of(run: Run, records: list[Record]) -> Ranking:
    """The ranking of a run from what its store holds."""
    return ranked(whole(run, records), run.measure, run.higher_is_better, run.settings.max_latency)


def whole(run: Run, records: list[Record]) -> list[Record]:
    """The records with the scores that exist among candidates only."""
    name = run.settings.proxy
    base = name.partition("(")[0]  # one of a user's own compares nothing, and its file may be gone
    compares = base in PROXIES and PROXIES[base].parts
    return records + aggregated(records, load_proxy(name)) if compares else records
