"""The result of confirmation trainings: short trainings after a search on a table.

`workflows/confirm.py` runs the trainings. The report and the terminal show the result.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

from untrained.files import read_result_file, write_atomically
from untrained.formatting import format_fixed, format_measured, format_quantity
from untrained.reports.group_comparison import Contrast, TrainedGroup
from untrained.runs.folder import RunFolder
from untrained.runs.winner import CONFIRMATION_FILE, belongs_to_search
from untrained.training.recipes import Recipe
from untrained.types import BINARY, REGRESSION, TASK_KINDS, TaskKind

# Multiples of the recipe's learning rate that are tried for every network of a comparison.
RATE_FACTORS = (1.0, 1 / 3, 3.0)


def list_learning_rates(recipe: Recipe) -> tuple[float, ...]:
    """Return the learning rates that are tried for every network of a comparison."""
    # Rounded, so that 0.12 / 3 is 0.04.
    return tuple(float(f"{factor * recipe.rate:.4g}") for factor in RATE_FACTORS)


# The name of the best architecture of the short trainings in a comparison with hand-designed
# networks. Run folders contain this text.
BEST_OF_SEARCH = "found"

# Why gradient boosting was skipped.
NO_TIME_LEFT = "no time was left"
# Why a searched network was not trained, or not to the end.
STOPPED_BY_TIME = "stopped by the time limit"

# Fields of `Confirmation` that have another name in `confirmed.json`, which old runs contain too.
_STORED_KEYS = {
    "best_arch": "winner",
    "best_arch_result": "winner_result",
    "winning_design": "reference",
}


def list_comparison_columns(kind: TaskKind) -> tuple[str, ...]:
    """Return the column headings of the comparison with hand-designed networks.

    The first column of the table contains the names of the networks and is not included.
    """
    # The unit is in the heading, because columns must be narrow.
    quality = f"{kind.quality_title} in %"
    difference = "Difference to winner"
    if kind == REGRESSION:
        quality = kind.quality_title
        difference = "Squared error minus that of winner"
    return (
        "Params",
        "LR",
        f"Val. {kind.error_title}",
        f"Val. {quality}",
        f"Test {kind.error_title}",
        f"Test {quality}",
        difference,
    )


@dataclass(frozen=True)
class DesignResult:
    """The result of one network in the comparison with hand-designed networks.

    Attributes:
        name: `BEST_OF_SEARCH`, or the name of the hand-designed network.
        params: Number of parameters.
        val_loss: Loss on the validation part: log loss, or the squared error of standardised
            labels.
        val_quality: AUC, accuracy or R2 on the validation part.
        loss: Loss on the test part.
        quality: AUC, accuracy or R2 on the test part.
        excess_loss: Mean loss on the test part minus that of the winner; None for the winner.
        margin: Half-width of the 95 % confidence interval of `excess_loss`.
        error: Why the training failed or was skipped; empty if it succeeded.
        rate: The learning rate that was best on the validation part.
        violation: The limit of the search that it violates, so that it cannot win; empty if there
            is none.
        limit_values: Its parameters, latency and so on, by the name of the limit of the search;
            None for a value that is not known. Empty for `BEST_OF_SEARCH`.
    """

    name: str
    params: int | None = None
    val_loss: float | None = None
    val_quality: float | None = None
    loss: float | None = None
    quality: float | None = None
    excess_loss: float | None = None
    margin: float | None = None
    error: str = ""
    rate: float | None = None
    violation: str = ""
    limit_values: dict[str, float | None] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the network is called in sentences."""
        if self.name == BEST_OF_SEARCH:
            return "the best network that the search found"
        return self.name

    @property
    def short_title(self) -> str:
        """What the network is called in tables, whose columns should be narrow."""
        if self.name == BEST_OF_SEARCH:
            return "best of the search"
        return self.name

    def format_cells(self, kind: TaskKind, label_std: float) -> list[str]:
        """Return one text per column of `list_comparison_columns`; empty where a number is missing.

        Args:
            kind: What the networks predict.
            label_std: Standard deviation of the label of a regression.
        """
        cells = []
        cells.append("" if self.params is None else format_quantity(self.params))
        cells.append("" if self.rate is None else f"{self.rate:g}")
        results = (
            (self.val_loss, self.val_quality),
            (self.loss, self.quality),
        )
        for loss, quality in results:
            cells.append("" if loss is None else format_loss(loss, kind, label_std))
            cells.append("" if quality is None else _format_quality(quality, kind))
        difference = ""
        if self.excess_loss is not None:
            difference = self._format_difference(self.excess_loss, kind, label_std, sign="+")
        cells.append(difference)
        return cells

    def describe(self, kind: TaskKind, label_std: float, word: str) -> str:
        """Return the title, with the size of the difference in loss in brackets.

        The sentence around it says which loss is lower, so the difference has no sign.

        Args:
            kind: What the networks predict.
            label_std: Standard deviation of the label of a regression.
            word: The word before the difference.
        """
        assert self.excess_loss is not None
        size = self._format_difference(abs(self.excess_loss), kind, label_std)
        return f"{self.title} ({word} {size})"

    def _format_difference(
        self, difference: float, kind: TaskKind, label_std: float, sign: str = "-"
    ) -> str:
        """Return a difference in loss with its margin.

        Args:
            difference: The difference.
            kind: What the networks predict.
            label_std: Standard deviation of the label of a regression.
            sign: "+" to write the sign of a positive difference, "-" to leave it out.
        """
        assert self.margin is not None
        if kind == REGRESSION:
            # The unit of a squared error is the square of the unit of the label.
            difference *= label_std**2
            margin = self.margin * label_std**2
            return f"{difference:{sign}.3g} \u00b1 {margin:.3g}"
        return f"{difference:{sign}.4f} \u00b1 {self.margin:.4f}"


def format_loss(loss: float, kind: TaskKind, label_std: float) -> str:
    """Return a log loss, or for a regression the RMSE in the unit of the label."""
    if kind == REGRESSION:
        return format_measured(sqrt(loss) * label_std)
    return f"{loss:.4f}"


def _format_quality(quality: float, kind: TaskKind) -> str:
    """Return an accuracy or AUC in per cent without the unit, or R2 as a number."""
    if kind == REGRESSION:
        return format_fixed(quality, 4)
    return format_fixed(100 * quality, 2)


def format_result(result: float, kind: TaskKind, unit: bool = True) -> str:
    """Return the result of a short training: accuracy or AUC in per cent, R2 as a number.

    Args:
        result: Accuracy, AUC or R2, times 100.
        kind: What the network predicts.
        unit: Whether to append the % sign.
    """
    if kind == REGRESSION:
        return format_fixed(result / 100, 3)
    return f"{format_fixed(result, 1)} %" if unit else format_fixed(result, 1)


def describe_comparison(
    entries: Sequence[DesignResult], kind: TaskKind = BINARY, label_std: float = 1.0
) -> str:
    """Return a sentence that compares the winner with all other networks.

    Args:
        entries: The results. Those of the winner and of failed trainings have no `excess_loss`
            and are not mentioned.
        kind: What the networks predict.
        label_std: Standard deviation of the label of a regression.

    Returns:
        The sentence, or an empty text if nothing can be compared.
    """
    names_by_verdict: dict[str, list[str]] = {}
    for entry in entries:
        if entry.excess_loss is None or entry.margin is None:
            continue
        word = "by"
        if abs(entry.excess_loss) <= entry.margin:
            word = "difference"
            verdict = "does not differ significantly from"
        elif entry.excess_loss > 0:
            verdict = f"has a lower {kind.loss_title} than"
        else:
            verdict = f"has a higher {kind.loss_title} than"
        title = entry.describe(kind, label_std, word)
        names_by_verdict.setdefault(verdict, []).append(title)
    if not names_by_verdict:
        return ""
    clauses = [f"{verdict} {', '.join(names)}" for verdict, names in names_by_verdict.items()]
    return f"On the test data, the winner {'; it '.join(clauses)}."


@dataclass(frozen=True)
class Confirmation:
    """The result of the confirmation trainings of a run.

    Attributes:
        best_arch: The best architecture of all groups; the first of the ranking if none could be
            trained.
        best_arch_result: AUC, accuracy or R2 of `best_arch` on the validation part, in per cent;
            None if it could not be trained.
        selected_by: Names of the groups that contain `best_arch`.
        groups: The trained groups. The first one is that of the proxy.
        contrasts: Comparisons of the first group with each of the others.
        epochs: Number of epochs of each training.
        samples: Number of samples per training.
        data: Name of the data.
        seconds: Duration of all trainings.
        entries: The results of `best_arch` and of hand-designed networks; empty if this comparison
            was interrupted.
        search_key: The key of the search whose ranking was confirmed.
        winning_design: Name of the hand-designed network that won against `best_arch`; empty if
            `best_arch` is the winner of the run.
        task: What the networks predict: "binary", "classification" or "regression".
        label_std: Standard deviation of the label of a regression.
        constant: What a constant prediction achieves on the test data, as a sentence without a full
            stop; empty for binary labels.
    """

    best_arch: str
    best_arch_result: float | None
    selected_by: tuple[str, ...]
    groups: tuple[TrainedGroup, ...]
    contrasts: tuple[Contrast, ...]
    epochs: int
    samples: int
    data: str
    seconds: float
    entries: tuple[DesignResult, ...] = ()
    search_key: str = ""
    winning_design: str = ""
    task: str = BINARY.name
    label_std: float = 1.0
    constant: str = ""

    @property
    def kind(self) -> TaskKind:
        """What the networks predict."""
        return TASK_KINDS[self.task]

    @property
    def columns(self) -> tuple[str, ...]:
        """Headings of the comparison with hand-designed networks."""
        return list_comparison_columns(self.kind)

    def format_cells(self, entry: DesignResult) -> list[str]:
        """Return one text per heading in `columns`."""
        return entry.format_cells(self.kind, self.label_std)

    @property
    def winner_name(self) -> str:
        """The winner of the run: an architecture, or the name of a hand-designed network."""
        return self.winning_design or self.best_arch

    @property
    def winner_entry(self) -> DesignResult | None:
        """The result of the winner among `entries`; None without them."""
        name = self.winning_design or BEST_OF_SEARCH
        for entry in self.entries:
            if entry.name == name:
                return entry
        return None

    @property
    def sentences(self) -> tuple[str, ...]:
        """One conclusion per comparison."""
        proxy = self.groups[0].name
        quality = self.kind.quality_title
        sentences = []
        if self.training_text:
            sentences.append(self.training_text)
        sentences += [contrast.describe(proxy, quality) for contrast in self.contrasts]
        if len(self.groups) > 1 and not self.contrasts:
            sentences.append(
                f"Too few networks were trained to compare {proxy} with other selections."
            )
        comparison = describe_comparison(self.entries, self.kind, self.label_std)
        if comparison:
            sentences.append(comparison)
        if self.constant:
            sentences.append(f"{self.constant[0].upper()}{self.constant[1:]}.")
        return tuple(sentences)

    @property
    def training_text(self) -> str:
        """How many searched networks were trained, if not all were.

        An example is "3 of 11 searched networks were trained; 8 stopped by the time limit."
        """
        archs: set[str] = set()
        reasons: dict[str, str] = {}
        for group in self.groups:
            archs.update(group.archs)
            texts = group.reasons or ("failed",) * len(group.archs)
            for arch, result, reason in zip(group.archs, group.results, texts, strict=True):
                if result is None:
                    reasons[arch] = reason or "failed"
        if not reasons:
            return ""
        count = len(archs) - len(reasons)
        verb = "was" if count == 1 else "were"
        counts = [f"{number} {reason}" for reason, number in Counter(reasons.values()).items()]
        return f"{count} of {len(archs)} searched networks {verb} trained; {'; '.join(counts)}."

    @property
    def winner_text(self) -> str:
        """The result of the winner and how it was selected, without a full stop."""
        if self.winning_design:
            return self._describe_winning_design()
        selections = []
        for name in self.selected_by:
            selections.append("at random" if name == "random" else f"by {name}")
        selection = " and ".join(selections)
        if self.best_arch_result is None:
            return (
                "No searched network could be trained and no hand-designed network won, so the "
                "first of the ranking wins"
            )
        # "An" is right for AUC, accuracy and R2.
        result = format_result(self.best_arch_result, self.kind)
        return (
            f"The winner of this run is the network with the lowest {self.kind.loss_title} on the "
            f"validation data (an {self.kind.quality_title} of {result}); "
            f"this network was selected {selection}"
        )

    def _describe_winning_design(self) -> str:
        """Return the result of the hand-designed network that won, without a full stop."""
        text = (
            f"The winner of this run is {self.winning_design}, a hand-designed network: trained "
            f"on all rows, it has the lowest {self.kind.error_title} on the validation data"
        )
        losses = {entry.name: entry.val_loss for entry in self.entries}
        design_loss = losses.get(self.winning_design)
        search_loss = losses.get(BEST_OF_SEARCH)
        if design_loss is None:
            return text
        text = f"{text}, {format_loss(design_loss, self.kind, self.label_std)}"
        if search_loss is None:
            return f"{text}; the best network that the search found was not trained on all rows"
        search_text = format_loss(search_loss, self.kind, self.label_std)
        return f"{text} instead of the {search_text} of the best network that the search found"

    def to_document(self) -> dict[str, Any]:
        """Return the confirmation as plain data for JSON, with the keys of `confirmed.json`."""
        document = {}
        for name, value in asdict(self).items():
            document[_STORED_KEYS.get(name, name)] = value
        return document

    def save(self, folder: Path) -> "Confirmation":
        """Write `confirmed.json` into a run folder; return the confirmation itself."""
        text = json.dumps(self.to_document(), indent=1)
        write_atomically(folder / CONFIRMATION_FILE, text + "\n")
        return self

    @staticmethod
    def read(run: RunFolder) -> "Confirmation | None":
        """Read the confirmation of a run.

        Returns:
            The confirmation, or None if there is none or it belongs to an earlier ranking.

        Raises:
            UsageError: The file is damaged.
        """
        path = run.folder / CONFIRMATION_FILE
        if not path.is_file():
            return None
        with read_result_file(path) as facts:
            if not belongs_to_search(run, facts):
                return None
            groups = []
            for row in facts["groups"]:
                archs = tuple(row["archs"])
                results = tuple(row["results"])
                reasons = tuple(row.get("reasons", ()))
                groups.append(TrainedGroup(row["name"], row["about"], archs, results, reasons))
            facts["groups"] = tuple(groups)
            facts["contrasts"] = tuple(Contrast(**row) for row in facts["contrasts"])
            entries = []
            for row in facts.get("entries", ()):
                # Earlier versions only supported binary labels, and called the quality AUC.
                for name in ("auc", "val_auc"):
                    if name in row:
                        row[name.replace("auc", "quality")] = row.pop(name)
                entries.append(DesignResult(**row))
            facts["entries"] = tuple(entries)
            facts["selected_by"] = tuple(facts["selected_by"])
            for name, key in _STORED_KEYS.items():
                # Earlier versions did not let hand-designed networks win.
                if key in facts:
                    facts[name] = facts.pop(key)
            return Confirmation(**facts)
