"""Select the records of a run, rank them and name the winner.

Search, report, training, export and short trainings all use this module, so they name the same
winner.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from untrained.config import LatencyLimit, parse_latency
from untrained.errors import UsageError
from untrained.files import read_result_file
from untrained.names import is_reference, parse_call, require_trusted_code
from untrained.proxies import PROXIES, load_proxy
from untrained.runs.aggregates import compute_aggregates
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Ranking, Standing, choose_winner, rank_records
from untrained.runs.store import Store
from untrained.spaces import Space
from untrained.types import Arch, Failure, Record

# Results of short trainings that name the winner: a contest on images, a confirmation on tables.
CONTEST_FILE = "contest.json"
CONFIRMATION_FILE = "confirmed.json"


@dataclass(frozen=True)
class RunRanking:
    """The records of a run, including computed aggregates, and their ranking."""

    records: tuple[Record, ...]
    ranking: Ranking

    def find_standing(self, name: str | None) -> Standing | None:
        """Return the standing of an architecture; None if it is not ranked."""
        for standing in self.ranking.standings:
            if str(standing.arch) == name:
                return standing
        return None


def rank_run(run: RunFolder, records: list[Record]) -> RunRanking:
    """Rank the records of a run, as returned by `read_records`."""
    proxy = run.config.proxy
    # The user's own proxies are never aggregates, and their files may have been deleted.
    base_name = proxy.partition("(")[0]
    is_aggregate = base_name in PROXIES and bool(PROXIES[base_name].parts)
    # An aggregate with a reference is recorded like any other score.
    if is_aggregate and not PROXIES[base_name].reference_size:
        records = records + compute_aggregates(records, load_proxy(proxy))
    slow_archs = find_slow_archs(records, run.config.limit_texts.get("max_latency"))
    ranking = rank_records(records, run.measure, run.higher_is_better, excluded=slow_archs)
    return RunRanking(tuple(records), ranking)


def find_slow_archs(records: Iterable[Record], max_latency: str | None) -> dict[Arch, Failure]:
    """Find the architectures whose latency exceeded the limit, or could not be measured.

    A single measurement above the limit is enough.

    Args:
        records: Records of any measures. Those of measures `latency(...)` are latencies.
        max_latency: The limit as it was typed, such as "5ms@cpu"; None if there is none.
    """
    slow_archs: dict[Arch, Failure] = {}
    if max_latency is None:
        return slow_archs
    limit = parse_latency(max_latency)
    for record in records:
        if not record.measure.startswith("latency("):
            continue
        if record.value is None:
            slow_archs[record.arch] = Failure("latency", str(record.error))
        elif limit.is_exceeded_by(record.value):
            latency = LatencyLimit(record.value, limit.device)
            slow_archs[record.arch] = Failure("latency", f"{latency}, over {limit}")
    return slow_archs


def read_records(run: RunFolder, store: Store) -> list[Record]:
    """Return the records of a run, in the order in which it requested them.

    The store may hold other records too: those of a larger budget, of an earlier version of the
    data, or of merged stores. A run without a search key uses all records of its store.
    """
    if run.search_key:
        return _drop_former_aggregates(store.read_search(run.search_key))
    return list(store)


def _drop_former_aggregates(records: Sequence[Record]) -> list[Record]:
    """Leave out the aggregates that a later session computed again with another reference sample.

    The reference sample of a session that had little time may be smaller than that of the session
    that resumes it. The ranking would take the two scores of a network for those of two seeds, and
    average them.

    Args:
        records: The records of a search, the latest last.
    """
    latest: dict[tuple[Arch, str, int], Record] = {}
    for record in records:
        if _has_reference(record):
            latest[record.arch, record.measure, record.seed] = record
    kept = []
    for record in records:
        key = (record.arch, record.measure, record.seed)
        # Records without a reference have no key in `latest`.
        if latest.get(key, record) is record:
            kept.append(record)
    return kept


def _has_reference(record: Record) -> bool:
    """Whether a record is that of an aggregate with a reference sample."""
    return record.proxy in PROXIES and PROXIES[record.proxy].reference_size > 0


def read_ranking(run: RunFolder) -> RunRanking:
    """Read the ranking of a run from its folder."""
    with Store(run.store_path, read_only=True) as store:
        records = read_records(run, store)
    return rank_run(run, records)


def read_winner_of_short_trainings(run: RunFolder) -> str | None:
    """Return the architecture that short trainings chose; None if there were none."""
    for file_name in (CONTEST_FILE, CONFIRMATION_FILE):
        path = run.folder / file_name
        if not path.is_file():
            continue
        with read_result_file(path) as facts:
            if not belongs_to_search(run, facts):
                continue
            winner = facts["winner"]
            if not isinstance(winner, str):
                raise TypeError(f"its winner is {winner!r}")
            return winner
    return None


def read_winning_design(run: RunFolder) -> str:
    """Return the hand-designed network that won the confirmation on tabular data.

    It is empty if a searched network won.
    """
    path = run.folder / CONFIRMATION_FILE
    if not path.is_file():
        return ""
    with read_result_file(path) as facts:
        if not belongs_to_search(run, facts):
            return ""
        # Earlier versions did not let hand-designed networks win.
        reference = facts.get("reference", "")
        if not isinstance(reference, str):
            raise TypeError(f"its reference is {reference!r}")
        return reference


def belongs_to_search(run: RunFolder, facts: dict[str, object]) -> bool:
    """Whether short trainings belong to the search of a run, not to an earlier one in its folder.

    Args:
        run: The run.
        facts: The content of `contest.json` or `confirmed.json`.
    """
    return bool(facts.get("search_key", "") == run.search_key)


def find_winner(run: RunFolder, run_ranking: RunRanking) -> Standing | None:
    """Return the best architecture of a run: what short trainings chose, else the first by score.

    The space is not loaded, because it may be the user's code.

    Returns:
        The winner; None if nothing is ranked.

    Raises:
        UsageError: The architecture that short trainings chose is not in the ranking.
    """
    names = [str(standing.arch) for standing in run_ranking.ranking.standings]
    if not names:
        return None
    trained_winner = read_winner_of_short_trainings(run)
    if trained_winner is not None and trained_winner not in names:
        raise UsageError(
            f"{run.folder} names the winner {trained_winner!r}, which is not in {run.store_path}; "
            "run the same search again to write both"
        )
    return run_ranking.find_standing(choose_winner(names, trained_winner))


@dataclass(frozen=True)
class Winner:
    """The network to train and export, and the settings of its search.

    Attributes:
        arch: The best architecture of the search.
        standing: Its score in the ranking of the search.
        space: Name of its space.
        data: Name of the data.
        input_shape: Shape of the inputs. None to use the shape of the data, or that of the space's
            task if the data have none.
        seed: First seed of the search.
        space_code: Fingerprint of the user's code that defines the space; empty for a built-in one.
        winning_design: Name of the hand-designed network that won against `arch`; empty if `arch`
            won.
    """

    arch: Arch
    standing: Standing
    space: str
    data: str
    input_shape: tuple[int, ...] | None
    seed: int
    space_code: str
    winning_design: str = ""

    @property
    def name(self) -> str:
        """The network to train and export, as text."""
        return self.winning_design or str(self.arch)


def read_winner(folder: str | Path) -> Winner:
    """Read the winner of a run folder and the settings of its search.

    The space is not loaded, because it may be the user's code.

    Raises:
        UsageError: No architecture has a score.
    """
    run = RunFolder.read(folder)
    config = run.config
    run_ranking = read_ranking(run)
    standing = find_winner(run, run_ranking)
    if standing is None:
        raise UsageError(f"{folder} has no winner: nothing in it has a score; its report says why")
    input_shape = None
    if config.input_size:
        # All networks of a run are scored on inputs of the same shape.
        for record in run_ranking.records:
            if record.measure == run.measure:
                input_shape = record.task.input_shape
                break
    return Winner(
        arch=standing.arch,
        standing=standing,
        space=config.space,
        data=config.data,
        input_shape=input_shape,
        seed=config.seed,
        space_code=run.space_code,
        winning_design=read_winning_design(run),
    )


def choose_trusted_space(
    winner: Winner, folder: Path, space: str | Space, command: str
) -> str | Space:
    """Return the space of a run if it may be loaded.

    A run folder may come from someone else, and loading a user-defined space runs its file. So the
    file is loaded only if the user names it now, or if the user has asked to run it on this machine
    before and it has not changed since the run.

    Args:
        winner: The winner of the run.
        folder: The run folder.
        space: The space that the user names with this command, or the default.
        command: The command, for the message.

    Raises:
        UsageError: The file of the space is not trusted.
    """
    if not is_reference(parse_call(winner.space)[0]):
        # A space that is a Python object cannot be loaded by its name, so the object is returned.
        if isinstance(space, Space) and space.name == winner.space:
            return space
        return winner.space
    if isinstance(space, Space) or is_reference(parse_call(space)[0]):
        return space
    fingerprint = winner.space_code or None
    require_trusted_code(
        winner.space, fingerprint, str(folder), f"{command} --space {winner.space}"
    )
    return winner.space
