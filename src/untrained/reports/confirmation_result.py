"""The result of confirmation trainings: short trainings after a search on a table of clicks.

`workflows/confirm.py` runs the trainings. The report and the terminal show the result.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from untrained.files import read_result_file, write_atomically
from untrained.formatting import format_quantity
from untrained.reports.group_comparison import Contrast, TrainedGroup
from untrained.runs.folder import RunFolder
from untrained.runs.winner import CONFIRMED, is_confirmation_of
from untrained.training.recipes import RECIPES

# Every network of a comparison is trained with each of these learning rates: the published one, a
# third of it, and three times as much.
LEARNING_RATES = (RECIPES["ctr"].rate, 0.04, 0.36)

# The best architecture of the short trainings, in a comparison with hand-designed networks.
FOUND = "found"

# Headings of the comparison with hand-designed networks, after the name of the network.
REFERENCE_COLUMNS = (
    "Params",
    "LR",
    "Val. log loss",
    "Val. AUC",
    "Test log loss",
    "Test AUC",
    "Difference to winner",
)


@dataclass(frozen=True)
class ReferenceResult:
    """The result of one network in the comparison with hand-designed networks.

    Attributes:
        name: `FOUND`, or the name of the hand-designed network.
        params: Number of parameters.
        val_loss: Log loss on the validation part.
        val_auc: AUC on the validation part.
        loss: Log loss on the test part.
        auc: AUC on the test part.
        excess_loss: Mean log loss on the test part minus that of the winner; None for the winner.
        margin: Half-width of the 95 % confidence interval of `excess_loss`.
        error: Why the training failed; empty if it succeeded.
        rate: The learning rate that was best on the validation part.
        violation: Why a limit of the search keeps it from winning; empty if none does.
        limit_values: Its values for the limits of the search, by limit; None for unknown ones.
            Empty for the found network.
    """

    name: str
    params: int | None = None
    val_loss: float | None = None
    val_auc: float | None = None
    loss: float | None = None
    auc: float | None = None
    excess_loss: float | None = None
    margin: float | None = None
    error: str = ""
    rate: float | None = None
    violation: str = ""
    limit_values: dict[str, float | None] = field(default_factory=dict)

    def format_cells(self) -> list[str]:
        """Return one text per column of `REFERENCE_COLUMNS`; empty where there is no number."""
        cells = []
        cells.append("" if self.params is None else format_quantity(self.params))
        cells.append("" if self.rate is None else f"{self.rate:g}")
        for value in (self.val_loss, self.val_auc, self.loss, self.auc):
            cells.append("" if value is None else f"{value:.4f}")
        cells.append("" if self.excess_loss is None else self._format_difference())
        return cells

    def describe(self) -> str:
        """Return the name, with the difference in log loss in brackets."""
        name = self.name
        if name == FOUND:
            name = "the best network that the search found"
        return f"{name} ({self._format_difference()})"

    def _format_difference(self) -> str:
        return f"{self.excess_loss:+.4f} \u00b1 {self.margin:.4f}"


def describe_references(entries: Sequence[ReferenceResult]) -> str:
    """Return a sentence that compares the winner with all other networks.

    Args:
        entries: The results. That of the winner has no difference to the winner.

    Returns:
        The sentence, or an empty text if nothing can be compared.
    """
    names_by_verdict: dict[str, list[str]] = {}
    for entry in entries:
        if entry.excess_loss is None or entry.margin is None:
            continue
        if abs(entry.excess_loss) <= entry.margin:
            verdict = "does not differ significantly from"
        elif entry.excess_loss > 0:
            verdict = "has a lower log loss than"
        else:
            verdict = "has a higher log loss than"
        names_by_verdict.setdefault(verdict, []).append(entry.describe())
    if not names_by_verdict:
        return ""
    clauses = [f"{verdict} {', '.join(names)}" for verdict, names in names_by_verdict.items()]
    return f"On the test data, the winner {'; it '.join(clauses)}."


@dataclass(frozen=True)
class Confirmation:
    """The result of the confirmation trainings of a run.

    Attributes:
        winner: The best architecture of all groups.
        winner_result: AUC of `winner` on the validation part, in per cent.
        selected_by: Names of the groups that contain `winner`.
        groups: The trained groups. The first one is that of the proxy.
        contrasts: Comparisons of the first group with each of the others.
        epochs: Number of epochs of each training.
        samples: Number of samples per training.
        data: Name of the data.
        seconds: Duration of all trainings.
        entries: The results of `winner` and of hand-designed networks; empty if this comparison was
            interrupted.
        search_key: The key of the search whose ranking was confirmed.
        reference: Name of the hand-designed network that won against `winner`; empty if `winner` is
            the winner of the run.
    """

    winner: str
    winner_result: float
    selected_by: tuple[str, ...]
    groups: tuple[TrainedGroup, ...]
    contrasts: tuple[Contrast, ...]
    epochs: int
    samples: int
    data: str
    seconds: float
    entries: tuple[ReferenceResult, ...] = ()
    search_key: str = ""
    reference: str = ""

    @property
    def winner_name(self) -> str:
        """The winner of the run: an architecture, or the name of a hand-designed network."""
        return self.reference or self.winner

    @property
    def winner_entry(self) -> ReferenceResult | None:
        """The result of the winner among `entries`; None without them."""
        name = self.reference or FOUND
        for entry in self.entries:
            if entry.name == name:
                return entry
        return None

    @property
    def sentences(self) -> tuple[str, ...]:
        """One conclusion per comparison."""
        proxy = self.groups[0].name
        sentences = [contrast.describe(proxy) for contrast in self.contrasts]
        comparison = describe_references(self.entries)
        if comparison:
            sentences.append(comparison)
        return tuple(sentences)

    @property
    def winner_text(self) -> str:
        """The result of the winner and how it was selected, without a full stop."""
        if self.reference:
            return self._describe_reference()
        selections = []
        for name in self.selected_by:
            selections.append("at random" if name == "random" else f"by {name}")
        selection = " and ".join(selections)
        return (
            "The winner of this run is the network with the lowest log loss on the validation data "
            f"(an AUC of {self.winner_result:.1f} %), which was selected {selection}"
        )

    def _describe_reference(self) -> str:
        """Return the result of the hand-designed network that won, without a full stop."""
        text = (
            f"The winner of this run is {self.reference}, a hand-designed network: trained on all "
            "rows, it has the lowest log loss on the validation data"
        )
        losses = {entry.name: entry.val_loss for entry in self.entries}
        reference_loss = losses.get(self.reference)
        found_loss = losses.get(FOUND)
        if reference_loss is None:
            return text
        text = f"{text}, {reference_loss:.4f}"
        if found_loss is None:
            return f"{text}; the training of the best network that the search found failed"
        return f"{text} instead of the {found_loss:.4f} of the best network that the search found"

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
                archs = tuple(row["archs"])
                results = tuple(row["results"])
                groups.append(TrainedGroup(row["name"], row["about"], archs, results))
            facts["groups"] = tuple(groups)
            facts["contrasts"] = tuple(Contrast(**row) for row in facts["contrasts"])
            facts["entries"] = tuple(ReferenceResult(**row) for row in facts.get("entries", ()))
            facts["selected_by"] = tuple(facts["selected_by"])
            return Confirmation(**facts)
