"""Confirm, do not believe: did the proxy help on these data? The best of a finished search by its proxy, as many by
parameters and as many at random from the same records are trained briefly with equal budgets, and what they reach is
compared. The best of all goes on as the winner of the run.

On a table of clicks they are trained by the recipe for tables, the one of least log loss on the val part wins, and
hand-made networks stand beside it (references.py).

A few trainings a group can refute a proxy or show a large gain; more than that they cannot tell, and the words say so.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import comb, sqrt
from pathlib import Path
from statistics import fmean, variance
from time import perf_counter

from untrained._files import reading_study, write_whole
from untrained.data import SOURCES, Source
from untrained.data.parts import TRAIN
from untrained.proxies import load_proxy
from untrained.rng import generator, seed_for
from untrained.runs.ranking import Ranking, student
from untrained.runs.winner import CONFIRMED, is_confirmation_of
from untrained.spaces import Space
from untrained.strategies._run import Run
from untrained.strategies.search import Watcher
from untrained.studies import references
from untrained.studies._scores import Crew, scored
from untrained.studies.references import Entry, verdict
from untrained.training.brief import NAME
from untrained.types import Arch, Record

USUAL = 5  # networks a group
EPOCHS, SAMPLES = 3, 1500
STORE = "confirmed.sqlite"
SPLITS = 20_000  # ways to split two groups anew that are all tried; of more, so many are drawn


@dataclass(frozen=True)
class Group:
    """Architectures chosen in one way, and what each reached in per cent; None where the training failed."""

    name: str
    about: str
    archs: tuple[str, ...]
    reached: tuple[float | None, ...]

    @property
    def known(self) -> list[float]:
        return [value for value in self.reached if value is not None]


@dataclass(frozen=True)
class Contrast:
    """The proxy's group against another: the difference of their means, its 95 % interval, and how often chance
    alone, splitting the two groups anew, gives a difference as large."""

    against: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    shared: int  # architectures that are in both

    def told(self, proxy: str, unit: str = "points") -> str:
        """In a sentence."""
        by = "at random" if self.against == "random" else f"by {self.against}"
        between = f", 95 % from {self.low:+.1f} to {self.high:+.1f}" if self.low is not None else ""
        chance = f", p = {self.p:.2g}" if self.p is not None else ""
        both = f" ({self.shared} {'is' if self.shared == 1 else 'are'} in both groups)" if self.shared else ""
        said = f"{abs(self.difference):.1f} {unit} {'more' if self.difference >= 0 else 'less'} on average"
        return f"Chosen by {proxy} they reach {said} than chosen {by}{between}{chance}{both}. {self.verdict(proxy)}"

    def verdict(self, proxy: str) -> str:
        other = "chance" if self.against == "random" else self.against
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return f"So few trainings cannot tell {proxy} from {other} here."
        return f"It helped more than {other} here." if self.low > 0 else f"It did worse than {other} here."


@dataclass(frozen=True)
class Confirmation:
    """What the trainings of a run said. The first group is that of its proxy. What is reached is accuracy, or on a
    table the AUC on the val part; there `entries` are the winner and hand-made networks."""

    winner: str
    reached: float  # by the winner, in per cent
    by: tuple[str, ...]  # the groups that the winner is of
    groups: tuple[Group, ...]
    contrasts: tuple[Contrast, ...]
    epochs: int
    samples: int
    data: str
    seconds: float
    entries: tuple[Entry, ...] = ()
    question: str = ""  # of the run whose ranking was confirmed

    @property
    def lines(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        proxy = self.groups[0].name
        unit = "points of AUC" if self.entries else "points"
        told = (*(contrast.told(proxy, unit) for contrast in self.contrasts), verdict(self.entries))
        return tuple(filter(None, told))

    @property
    def won(self) -> str:
        """What the winner is the best by, and how it was chosen; no full stop."""
        by = " and ".join(f"by {name}" if name != "random" else "at random" for name in self.by)
        best = "the one of least log loss on the validation part" if self.entries else "the best of them all"
        of = "an AUC of " if self.entries else ""
        return f"The winner of this run is {best}, with {of}{self.reached:.1f} %, chosen {by}"

    def save(self, folder: Path) -> "Confirmation":
        write_whole(folder / CONFIRMED, json.dumps(asdict(self), indent=1) + "\n")
        return self

    @staticmethod
    def read(run: Run) -> "Confirmation | None":
        """The confirmation of what the run asks now; None where there is none, or only an earlier one."""
        path = run.folder / CONFIRMED
        if not path.is_file():
            return None
        with reading_study(path) as facts:
            if not is_confirmation_of(run, facts):
                return None
            groups = tuple(
                Group(row["name"], row["about"], tuple(row["archs"]), tuple(row["reached"])) for row in facts["groups"]
            )
            contrasts = tuple(Contrast(**row) for row in facts["contrasts"])
            entries = tuple(Entry(**row) for row in facts.get("entries", ()))
            told = {"groups": groups, "contrasts": contrasts, "by": tuple(facts["by"]), "entries": entries}
            return Confirmation(**facts | told)


def usual(data: str) -> int:
    """How many networks a group to confirm unless the user says: some where the data are the user's own, and none for
    those that everybody has."""
    kind = data.partition(":")[0]
    return USUAL if kind in SOURCES and SOURCES[kind].own else 0


def confirm(
    run: Run,
    ranking: Ranking,
    records: Sequence[Record],
    space: str | Space,
    source: Source,
    count: int,
    crew: Crew,
    watch: Watcher | None = None,
) -> Confirmation | None:
    """Train the best `count` by the run's score, by parameters and at random, and write down which is the winner. None
    where not one training came to an end."""
    groups = chosen(ranking, records, count, run)
    archs = list(dict.fromkeys(arch for group in groups.values() for arch in group))
    if source.task.loss == "bce":
        return _of_clicks(groups, archs, run, space, source, crew, watch)
    samples = min(SAMPLES, len(source.parts[TRAIN]))  # never one that a network is judged on later
    typed = f"{NAME}(epochs={EPOCHS},samples={samples})"
    training, seed = load_proxy(typed), run.settings.seed
    names = {training.measure: typed}
    done = scored(space, archs, [training], source, (seed,), crew, run.folder / STORE, names, watch, stage="confirming")
    reached = {r.arch: 100 * r.value for r in done.records if r.value is not None}
    if not reached:
        return None
    return concluded(groups, reached, reached, run, (EPOCHS, samples), done.seconds).save(run.folder)


def _of_clicks(
    groups: dict[str, list[Arch]],
    archs: Sequence[Arch],
    run: Run,
    space: str | Space,
    source: Source,
    crew: Crew,
    watch: Watcher | None,
) -> Confirmation | None:
    start, asked = perf_counter(), run.settings
    trials = references.Trials(space, asked.data, source, asked.seed, crew, run.folder, watch)
    found = trials.validated(archs)
    if not found:
        return None
    worth = {arch: -said["loss"] for arch, said in found.items()}
    reached = {arch: 100 * said["auc"] for arch, said in found.items()}
    rows = len(references.fewer(source.parts[TRAIN]))
    effort = references.shorter(rows).epochs, rows
    told = concluded(groups, reached, worth, run, effort, perf_counter() - start).save(run.folder)
    winner = max(worth, key=lambda arch: worth[arch])
    entries = trials.compared(winner)
    return replace(told, entries=entries, seconds=perf_counter() - start).save(run.folder)


def chosen(ranking: Ranking, records: Sequence[Record], count: int, run: Run) -> dict[str, list[Arch]]:
    """The groups by name: of those that have a score and keep to the limits, the best, the largest, and some drawn.
    Everybody has a lot of their own, so that who drops out changes nothing for the others."""
    ranked = [standing.arch for standing in ranking.standings]
    sizes = {r.arch: r.value for r in records if r.proxy == "params" and r.value is not None}
    largest = sorted((arch for arch in ranked if arch in sizes), key=lambda arch: -sizes[arch])
    lot = {arch: seed_for("confirm", run.settings.data, run.settings.seed, arch.space, arch) for arch in ranked}
    drawn = sorted(sorted(ranked, key=lambda arch: lot[arch])[:count], key=ranked.index)
    found = {run.settings.score: ranked[:count], "params": largest[:count], "random": drawn}
    return {name: group for name, group in found.items() if group}


def concluded(
    groups: dict[str, list[Arch]],
    reached: dict[Arch, float],
    worth: dict[Arch, float],
    run: Run,
    effort: tuple[int, int],
    seconds: float,
) -> Confirmation:
    """What the values say of trainings of `effort`, epochs and samples. The winner is worth most, the first of equals,
    and the proxy's come first."""
    known = [arch for group in groups.values() for arch in group if arch in reached]
    winner = max(known, key=lambda arch: worth[arch])
    about = {"params": "the largest of the same records", "random": "drawn from the same records"}
    told = tuple(
        Group(name, about.get(name, "the best of the ranking"), tuple(map(str, g)), tuple(reached.get(a) for a in g))
        for name, g in groups.items()
    )
    first, *others = told
    contrasts = tuple(contrast(first, other) for other in others if first.known and other.known)
    by = tuple(name for name, group in groups.items() if winner in group)
    facts = (*effort, run.settings.data, seconds)
    return Confirmation(str(winner), reached[winner], by, told, contrasts, *facts, question=run.question)


def contrast(first: Group, other: Group) -> Contrast:
    a, b = first.known, other.known
    difference = fmean(a) - fmean(b)
    half = None
    if min(len(a), len(b)) > 1:
        half = student(min(len(a), len(b))) * sqrt(variance(a) / len(a) + variance(b) / len(b))
    low, high = (None, None) if half is None else (difference - half, difference + half)
    shared = len(set(first.archs) & set(other.archs))
    return Contrast(other.name, difference, low, high, chance(a, b), shared)


def chance(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The share of all splits of the two groups into two of the same sizes whose means differ at least as much."""
    if min(len(a), len(b)) < 2:
        return None
    values, observed = [*a, *b], abs(fmean(a) - fmean(b))
    if comb(len(values), len(a)) <= SPLITS:
        splits = [set(split) for split in combinations(range(len(values)), len(a))]
    else:
        draws = generator("splits", len(a), len(b))
        splits = [set(draws.permutation(len(values))[: len(a)].tolist()) for _ in range(SPLITS)]
    total, n, m = sum(values), len(a), len(b)

    def apart(split: set[int]) -> float:
        inside = sum(values[i] for i in split)
        return abs(inside / n - (total - inside) / m)

    return sum(apart(split) >= observed - 1e-9 for split in splits) / len(splits)
