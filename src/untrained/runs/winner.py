"""Which records a run folder is about, how they rank, and which architecture won.

Search, report, training, export and confirmation all ask here, so they name the same winner. Knows folders and
records, nothing of networks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained._files import reading_study
from untrained._load import names_file, parse_call, require_named
from untrained.engine import Store
from untrained.engine.aggregates import aggregated
from untrained.errors import UsageError
from untrained.proxies import PROXIES, load_proxy
from untrained.runs.ranking import Ranking, Standing, choose_winner, rank_records
from untrained.spaces import Space
from untrained.types import Arch, Record

if TYPE_CHECKING:
    from untrained.strategies._run import Run  # strategies import this module

CONFIRMED = "confirmed.json"


@dataclass(frozen=True)
class RunRanking:
    """The records that a run asked for, with scores that exist among candidates only, and their ranking."""

    records: tuple[Record, ...]
    ranking: Ranking

    def find(self, name: str | None) -> Standing | None:
        """The architecture of this name in the ranking."""
        return next((standing for standing in self.ranking.standings if str(standing.arch) == name), None)


def rank_run(run: "Run", records: list[Record]) -> RunRanking:
    """Rank the records that a run asked for, which `read_records` returns."""
    name = run.settings.proxy
    base = name.partition("(")[0]  # a proxy of the user compares nothing, and its file may be gone
    if base in PROXIES and PROXIES[base].parts:
        records = records + aggregated(records, load_proxy(name))
    from untrained.strategies._bounds import find_too_slow

    too_slow = find_too_slow(records, run.settings.max_latency)
    ranking = rank_records(records, run.measure, run.higher_is_better, excluded=too_slow)
    return RunRanking(tuple(records), ranking)


def read_records(run: "Run", store: Store) -> list[Record]:
    """The records that a run asked for, in that order.

    The store may hold others: of a larger budget, of other data behind the same name, of merged stores. A run of an
    earlier version did not note what it had asked for, and owns all records of its store.
    """
    return store.read_question(run.question) if run.question else list(store)


def read_ranking(run: "Run") -> RunRanking:
    """The ranking of a run, from its folder."""
    with Store(run.store, read_only=True) as store:
        return rank_run(run, read_records(run, store))


def read_confirmed_name(run: "Run") -> str | None:
    """The architecture that short trainings confirmed for this very question; None where there were none."""
    path = run.folder / CONFIRMED
    if not path.is_file():
        return None
    with reading_study(path) as facts:
        if not is_confirmation_of(run, facts):
            return None
        winner = facts["winner"]
        if not isinstance(winner, str):
            raise TypeError(f"its winner is {winner!r}")
        return winner


def is_confirmation_of(run: "Run", facts: dict[str, Any]) -> bool:
    """Whether a confirmation, as `confirmed.json` holds it, is of what the run asks now and not of an earlier ranking.

    Runs of earlier versions have no named question, nor have their confirmations.
    """
    return bool(facts.get("question", "") == run.question)


def find_winner(run: "Run", ranked: RunRanking) -> Standing | None:
    """The winner of a run folder: the confirmed architecture, else the first of the ranking; None where nothing is
    ranked. The space is not loaded: it may be the user's code."""
    names = [str(standing.arch) for standing in ranked.ranking.standings]
    if not names:
        return None
    confirmed = read_confirmed_name(run)
    if confirmed is not None and confirmed not in names:
        path = run.folder / CONFIRMED
        raise UsageError(
            f"{path} names {confirmed!r}, which {run.store} does not hold; the same search makes both anew"
        )
    return ranked.find(choose_winner(names, confirmed))


@dataclass(frozen=True)
class Winner:
    """The architecture to go on with, its place in the ranking, and what it was searched for."""

    arch: Arch
    standing: Standing
    space: str
    data: str
    input_shape: tuple[int, ...] | None  # None is that of the data, or the space's usual one
    seed: int
    space_code: str  # fingerprint of the user's code that defines the space; empty for one of ours


def read_winner(folder: str | Path) -> Winner:
    """The winner of a run folder and what it was searched for. The space is not loaded: it may be the user's code.

    Raises:
        UsageError: There is none, because nothing has a score.
    """
    from untrained.strategies._run import Run

    run = Run.read(folder)
    ranked = read_ranking(run)
    standing = find_winner(run, ranked)
    if standing is None:
        raise UsageError(f"{folder} has no winner: nothing in it has a score; its report says why")
    settings = run.settings
    shape = None
    if settings.input_size:
        shape = next(record.task.input_shape for record in ranked.records if record.measure == run.measure)
    return Winner(standing.arch, standing, settings.space, settings.data, shape, settings.seed, run.space_code)


def open_space(winner: Winner, folder: Path, named: str | Space, command: str) -> str | Space:
    """The space of a run, where it may be loaded.

    A run folder may come from somebody else, and loading a space of the user's own runs its file. So that file is
    loaded only if it is as it was when the run was made and the user has named it on this machine before, or if the
    user names it now.

    Args:
        winner: What the run folder is about.
        folder: The run folder.
        named: The space that the user names with this command, or the default.
        command: What the user typed, for the message.
    """
    if not names_file(parse_call(winner.space)[0]):
        # A space that was an object in Python has a name that leads nowhere; the object does.
        return named if isinstance(named, Space) and named.name == winner.space else winner.space
    if isinstance(named, Space) or names_file(parse_call(named)[0]):
        return named
    require_named(winner.space, winner.space_code or None, str(folder), f"{command} --space {winner.space}")
    return winner.space
