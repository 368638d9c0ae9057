"""Which architecture a run folder is about: the one that short trainings confirmed, else the first of its ranking.

Training, export and the report all ask here. Knows folders and records, nothing of networks.
"""

from dataclasses import dataclass
from pathlib import Path

from untrained._files import reading_study
from untrained._load import names_file, parse_call, require_named
from untrained.engine import Store
from untrained.engine.aggregates import aggregated
from untrained.errors import UsageError
from untrained.proxies import PROXIES, load_proxy
from untrained.spaces import Space
from untrained.strategies._bounds import ranked
from untrained.strategies._run import Run
from untrained.strategies.select import Ranking
from untrained.types import Arch, Record

CONFIRMED = "confirmed.json"


def winner(folder: str | Path) -> Arch:
    """The architecture to go on with. The space is not loaded: it may be the user's code."""
    run = Run.read(folder)
    with Store(run.store, read_only=True) as store:
        standings = ranking_of(run, list(store)).standings
    if not standings:
        raise UsageError(f"{folder} has no winner: nothing in it has a score; its report says why")
    confirmed = Path(folder, CONFIRMED)
    if not confirmed.is_file():
        return standings[0].arch
    with reading_study(confirmed) as facts:
        name = facts["winner"]
        if not isinstance(name, str):
            raise TypeError(f"its winner is {name!r}")
    for standing in standings:
        if str(standing.arch) == name:
            return standing.arch
    raise UsageError(f"{confirmed} names {name!r}, which {run.store} does not hold; the same search makes both anew")


@dataclass(frozen=True)
class Won:
    """What a run folder is about: the architecture to go on with, and what it was searched for."""

    arch: Arch
    space: str
    data: str
    input_shape: tuple[int, ...] | None  # None is that of the data, or the space's usual one
    seed: int
    space_code: str  # fingerprint of the user's code that defines the space; empty for one of ours


def won(folder: str | Path) -> Won:
    """The winner of a run and what it was searched for. The space is not loaded: it may be the user's code."""
    run = Run.read(folder)
    settings = run.settings
    best = winner(folder)
    shape = _searched_shape(run) if settings.input_size else None
    return Won(best, settings.space, settings.data, shape, settings.seed, run.space_code)


def _searched_shape(run: Run) -> tuple[int, ...]:
    """The shape of the samples that the networks of a run were shown."""
    with Store(run.store, read_only=True) as store:
        return next(record.task.input_shape for record in store if record.measure == run.measure)


def space_of_run(best: Won, folder: Path, named: str | Space, command: str) -> str | Space:
    """The space of a run, where it may be loaded.

    A run folder may come from somebody else, and loading a space of the user's own runs its file. So that file is
    loaded only if it is as it was when the run was made and the user has named it on this machine before, or if the
    user names it now.

    Args:
        best: What the run folder is about.
        folder: The run folder.
        named: The space that the user names with this command, or the default.
        command: What the user typed, for the message.
    """
    if not names_file(parse_call(best.space)[0]):
        # A space that was an object in Python has a name that leads nowhere; the object does.
        return named if isinstance(named, Space) and named.name == best.space else best.space
    if isinstance(named, Space) or names_file(parse_call(named)[0]):
        return named
    require_named(best.space, best.space_code or None, str(folder), f"{command} --space {best.space}")
    return best.space


def ranking_of(run: Run, records: list[Record]) -> Ranking:
    """The ranking of a run from what its store holds."""
    return ranked(whole(run, records), run.measure, run.higher_is_better, run.settings.max_latency)


def whole(run: Run, records: list[Record]) -> list[Record]:
    """The records with the scores that exist among candidates only."""
    name = run.settings.proxy
    base = name.partition("(")[0]  # one of a user's own compares nothing, and its file may be gone
    compares = base in PROXIES and PROXIES[base].parts
    return records + aggregated(records, load_proxy(name)) if compares else records
