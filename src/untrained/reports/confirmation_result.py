"""Facts about confirmation trainings: the short trainings after a search that check its proxy.

`workflows/confirm.py` produces them; the report and the terminal show them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from untrained.files import read_result_file, write_atomically
from untrained.formatting import format_quantity
from untrained.runs.folder import RunFolder
from untrained.runs.winner import CONFIRMED, is_confirmation_of
from untrained.training.recipes import RECIPES

# Learning rates that every network of a comparison is offered: the published one, a third of it
# and three times as much.
LEARNING_RATES = (RECIPES["ctr"].rate, 0.04, 0.36)

# Headings of the comparison with hand-designed networks, after the name of the network.
REFERENCE_COLUMNS = (
    "Params",
    "Rate",
    "Validation log loss",
    "AUC",
    "Test log loss",
    "AUC",
    "More log loss than found",
)


@dataclass(frozen=True)
class ReferenceResult:
    """The result of one network in the comparison with hand-designed networks.

    Attributes:
        name: `found` for the winner of the search, else the name of the hand-designed network.
        params: Number of parameters.
        val_loss: Log loss on the validation part.
        val_auc: AUC on the validation part.
        loss: Log loss on the test part.
        auc: AUC on the test part.
        behind: How much more log loss per test row it has than the winner; None for the winner.
        margin: Half-width of the 95 % interval of `behind`.
        error: Why there are no numbers; empty if the training succeeded.
        rate: The learning rate that was best on the validation part.
    """

    name: str
    params: int | None = None
    val_loss: float | None = None
    val_auc: float | None = None
    loss: float | None = None
    auc: float | None = None
    behind: float | None = None
    margin: float | None = None
    error: str = ""
    rate: float | None = None

    def format_cells(self) -> list[str]:
        """Return one text per column of `REFERENCE_COLUMNS`; empty where there is no number."""
        cells = []
        cells.append("" if self.params is None else format_quantity(self.params))
        cells.append("" if self.rate is None else f"{self.rate:g}")
        for value in (self.val_loss, self.val_auc, self.loss, self.auc):
            cells.append("" if value is None else f"{value:.4f}")
        cells.append("" if self.behind is None else self._format_difference())
        return cells

    def describe(self) -> str:
        """Return the name with the difference in brackets."""
        return f"{self.name} ({self._format_difference()})"

    def _format_difference(self) -> str:
        return f"{self.behind:+.4f} \u00b1 {self.margin:.4f}"


def describe_references(entries: Sequence[ReferenceResult]) -> str:
    """Say in one sentence how the winner compares with hand-designed networks.

    Args:
        entries: The winner first, then the hand-designed networks.

    Returns:
        The sentence, or an empty text if nothing can be compared.
    """
    names_by_verdict: dict[str, list[str]] = {}
    for entry in entries[1:]:
        if entry.behind is None or entry.margin is None:
            continue
        if abs(entry.behind) <= entry.margin:
            verdict = "cannot be told from"
        elif entry.behind > 0:
            verdict = "has less log loss than"
        else:
            verdict = "has more than"
        names_by_verdict.setdefault(verdict, []).append(entry.describe())
    if not names_by_verdict:
        return ""
    clauses = [f"{verdict} {', '.join(names)}" for verdict, names in names_by_verdict.items()]
    return f"On the test part the found network {'; it '.join(clauses)}."


@dataclass(frozen=True)
class Group:
    """Architectures that were selected in one way, and what each reached.

    Attributes:
        name: How they were selected: the name of a proxy, or `random`.
        about: The selection in a few words.
        archs: The architectures.
        reached: Accuracy or AUC of each in per cent; None where the training failed.
    """

    name: str
    about: str
    archs: tuple[str, ...]
    reached: tuple[float | None, ...]

    @property
    def finished(self) -> list[float]:
        """What the trainings reached that did not fail."""
        return [value for value in self.reached if value is not None]


@dataclass(frozen=True)
class Contrast:
    """The group of the proxy compared with another group.

    Attributes:
        against: Name of the other group.
        difference: Mean of the proxy's group minus mean of the other group.
        low: Lower end of the 95 % interval of the difference; None with one training per group.
        high: Upper end of the interval.
        p: Share of all random splits of the two groups that differ at least as much.
        shared: Number of architectures that are in both groups.
    """

    against: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    shared: int

    def describe(self, proxy: str, unit: str = "points") -> str:
        """Return the comparison and its conclusion in two sentences."""
        selection = f"by {self.against}"
        if self.against == "random":
            selection = "at random"
        direction = "more" if self.difference >= 0 else "less"
        text = (
            f"Chosen by {proxy} they reach {abs(self.difference):.1f} {unit} {direction} on average "
            f"than chosen {selection}"
        )
        if self.low is not None:
            text += f", 95 % from {self.low:+.1f} to {self.high:+.1f}"
        if self.p is not None:
            text += f", p = {self.p:.2g}"
        if self.shared:
            verb = "is" if self.shared == 1 else "are"
            text += f" ({self.shared} {verb} in both groups)"
        return f"{text}. {self._conclude(proxy)}"

    def _conclude(self, proxy: str) -> str:
        other = self.against
        if other == "random":
            other = "chance"
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return f"So few trainings cannot tell {proxy} from {other} here."
        if self.low > 0:
            return f"It helped more than {other} here."
        return f"It did worse than {other} here."


@dataclass(frozen=True)
class Confirmation:
    """The result of the confirmation trainings of a run.

    Attributes:
        winner: The best architecture of all groups.
        reached: What the winner reached in per cent: accuracy, or AUC on the validation part of a
            table.
        by: Names of the groups that contain the winner.
        groups: What was trained; the first group is that of the proxy.
        contrasts: The first group compared with each of the others.
        epochs: Length of each training.
        samples: Number of samples per training.
        data: Name of the data.
        seconds: Duration of all trainings.
        entries: On a table, the winner and hand-designed networks; else empty.
        question: Identity of the ranking that was confirmed.
    """

    winner: str
    reached: float
    by: tuple[str, ...]
    groups: tuple[Group, ...]
    contrasts: tuple[Contrast, ...]
    epochs: int
    samples: int
    data: str
    seconds: float
    entries: tuple[ReferenceResult, ...] = ()
    question: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The conclusions, one text per comparison."""
        proxy = self.groups[0].name
        unit = "points of AUC" if self.entries else "points"
        sentences = [contrast.describe(proxy, unit) for contrast in self.contrasts]
        comparison = describe_references(self.entries)
        if comparison:
            sentences.append(comparison)
        return tuple(sentences)

    @property
    def winner_text(self) -> str:
        """Why the winner won and how it was selected, without a full stop."""
        selections = []
        for name in self.by:
            selections.append("at random" if name == "random" else f"by {name}")
        best = "the best of them all"
        value = f"{self.reached:.1f} %"
        if self.entries:
            best = "the one of least log loss on the validation part"
            value = f"an AUC of {value}"
        selection = " and ".join(selections)
        return f"The winner of this run is {best}, with {value}, chosen {selection}"

    def save(self, folder: Path) -> "Confirmation":
        """Write `confirmed.json` into a run folder; return the confirmation itself."""
        write_atomically(folder / CONFIRMED, json.dumps(asdict(self), indent=1) + "\n")
        return self

    @staticmethod
    def read(run: RunFolder) -> "Confirmation | None":
        """Read the confirmation of a run.

        Returns:
            The confirmation, or None if there is none or it belongs to an earlier ranking.

        Raises:
            UsageError: The file is damaged.
        """
        path = run.folder / CONFIRMED
        if not path.is_file():
            return None
        with read_result_file(path) as facts:
            if not is_confirmation_of(run, facts):
                return None
            groups = []
            for row in facts["groups"]:
                group = Group(row["name"], row["about"], tuple(row["archs"]), tuple(row["reached"]))
                groups.append(group)
            facts["groups"] = tuple(groups)
            facts["contrasts"] = tuple(Contrast(**row) for row in facts["contrasts"])
            facts["entries"] = tuple(ReferenceResult(**row) for row in facts.get("entries", ()))
            facts["by"] = tuple(facts["by"])
            return Confirmation(**facts)
