"""Read scores that another run measured, perhaps on another machine, instead of measuring them.

The scores are in a Parquet file of `untrained store export`. A recorded score is used if space,
architecture, measure, samples, weights and seed are those of the experiment. Device, torch version
and the number of networks per pass may differ: they change the last digits, and the page of results
names them.

The files in docs/results/data/scores are reduced to save space: they lack the columns of space,
samples and weights. A score of a reduced file is used if architecture, proxy and seed agree, but
only for fresh weights and for spaces without options. The page of results says so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import NamedTuple

from untrained.engine.seed_batches import SeedBatches
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.readers.limits import describe_error
from untrained.types import FAILURE_KINDS, FRESH, Arch, Failure, Record, ScoreRequest


class _ScoreId(NamedTuple):
    """The properties in which a recorded score and a request must agree."""

    space: str
    arch: str
    measure: str
    data: str
    init: str
    seed: int


class _Outcome(NamedTuple):
    """A recorded value or failure, and where it was measured."""

    value: float | None
    failure: str
    device: str
    torch: str


@dataclass
class RecordedScores:
    """The scores in a file, or in all Parquet files of a folder.

    Attributes:
        path: The file or folder.
        outcomes: The recorded values and failures.
        archs: The architectures, as texts.
        used: Number of scores that an experiment has read.
        used_reduced: Number of these scores that are from reduced files.
        environments: Device and torch version of the scores that were read.
    """

    path: Path
    outcomes: dict[_ScoreId, _Outcome] = field(repr=False)
    archs: frozenset[str] = field(default_factory=frozenset, repr=False)
    used: int = 0
    used_reduced: int = 0
    environments: set[str] = field(default_factory=set)

    @staticmethod
    def read(path: Path) -> "RecordedScores":
        """Read a Parquet file that `untrained store export` wrote, or all such files of a folder.

        Raises:
            UsageError: A file cannot be read, is another kind of file, or the folder has none.
        """
        paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not paths:
            raise UsageError(f"{path} has no Parquet files; write one with untrained store export")
        outcomes: dict[_ScoreId, _Outcome] = {}
        archs: set[str] = set()
        for file_path in paths:
            file_outcomes = _read_outcomes(file_path)
            outcomes |= file_outcomes
            archs.update(score_id.arch for score_id in file_outcomes)
        return RecordedScores(path, outcomes, frozenset(archs))

    def find_records(
        self,
        archs: Sequence[Arch],
        proxy: Proxy,
        batches: SeedBatches,
        init: str,
    ) -> list[Record] | None:
        """Return the records of a proxy for all architectures and seeds.

        Returns:
            The records; None if one of them is missing, so that a proxy is never measured partly on
            one machine and partly on another.
        """
        records = []
        environments = set()
        reduced_count = 0
        for seed in batches.seeds:
            for arch in archs:
                outcome = self._find_in_reduced_file(arch, proxy, seed, init)
                if outcome is not None:
                    data = ""
                    reduced_count += 1
                else:
                    data = batches.get_fingerprint(proxy.samples, seed)
                    score_id = _ScoreId(arch.space, str(arch), proxy.measure, data, init, seed)
                    outcome = self.outcomes.get(score_id)
                if outcome is None:
                    return None
                request = ScoreRequest(
                    arch,
                    proxy.measure,
                    batches.source.task,
                    seed,
                    data=data,
                    init=init,
                    device=outcome.device,
                    torch=outcome.torch,
                )
                if outcome.value is None:
                    records.append(Record.of(request, _parse_failure(outcome.failure)))
                else:
                    records.append(Record.of(request, outcome.value))
                environments.add(f"{outcome.device}, torch {outcome.torch}")
        self.used += len(records)
        self.used_reduced += reduced_count
        self.environments |= environments
        return records

    def _find_in_reduced_file(
        self, arch: Arch, proxy: Proxy, seed: int, init: str
    ) -> _Outcome | None:
        """Return the outcome in a reduced file; None if there is none that may be used."""
        # Options of a space change the network, but not the text of an architecture. The option
        # `head` of TransNAS-Bench-101 is allowed: the task of the accuracies determines it.
        if re.search(r"\((?!head=\w+\))", arch.space) or init != FRESH:
            return None
        return self.outcomes.get(_ScoreId("", str(arch), proxy.label, "", "", seed))

    def describe_use(self) -> str:
        """Return a sentence about the scores that were read instead of measured."""
        if not self.used:
            return (
                f"None of the scores in {self.path.name} were used: no proxy of this experiment "
                "has all its scores there."
            )
        environments = "; ".join(sorted(self.environments))
        text = (
            f"{self.used:,} scores were read from {self.path.name} ({environments}) and not "
            "measured."
        )
        if self.used_reduced:
            text += (
                " They were measured with one batch of images and one number of classes per "
                "space, even if the space has accuracies on several data sets; the file does not "
                "say which images these were."
            )
        return text


def _read_outcomes(path: Path) -> dict[_ScoreId, _Outcome]:
    # Imported here, because pandas is not needed for experiments without recorded scores.
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
        is_reduced = "measure" not in frame.columns
        if is_reduced:
            frame = frame.rename(columns={"proxy": "measure"})
            frame = frame.assign(space="", data="", init="")
        frame = frame[[*_ScoreId._fields, "value", "error", "device", "torch"]]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{path} cannot be read as recorded scores: {describe_error(error)}; write it with "
            "untrained store export"
        ) from error
    outcomes = {}
    for row in frame.itertuples(index=False):
        score_id = _ScoreId(row.space, row.arch, row.measure, row.data, row.init, row.seed)
        failure = row.error if isinstance(row.error, str) else ""
        value = None if failure or isnan(row.value) else float(row.value)
        outcomes[score_id] = _Outcome(value, failure, row.device, row.torch)
    return outcomes


def _parse_failure(text: str) -> Failure:
    """Parse the text of a failure, as `str(failure)` returns it; unknown kinds become `error`."""
    kind_text, _, detail = text.partition(": ")
    for kind in FAILURE_KINDS:
        if kind == kind_text:
            return Failure(kind, detail)
    return Failure("error", text)
