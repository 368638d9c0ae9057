"""The result of a contest: which of several networks is best after short trainings.

`workflows/contest.py` runs the contest. The report and the terminal show the result.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

from untrained.files import read_result_file, write_atomically
from untrained.formatting import (
    format_count,
    format_label_name,
    format_measured,
    format_percent,
    join_words,
)
from untrained.reports.group_comparison import Contrast, TrainedGroup, compare_groups
from untrained.runs.folder import RunFolder
from untrained.runs.winner import CONTEST_FILE, belongs_to_search
from untrained.types import CLASSIFICATION, REGRESSION, TASK_KINDS, TaskKind

# How an entry was selected, see `ContestEntry.selections`.
BEST_PREFIX = "best by "
DESIGN_PREFIX = "known design "
LARGEST = "largest"
RANDOM = "random"
KNOWN_DESIGNS = "known designs"

# Half-width of a 95 % interval in standard errors.
INTERVAL = 1.96
# The groups that the networks selected by a proxy are compared with, in the words of a sentence.
_OTHER_GROUPS = {
    LARGEST: "the largest ones",
    RANDOM: "random ones",
    KNOWN_DESIGNS: "the known designs",
}


# A comparison of accuracies whose 95 % interval reaches further than this from the difference, in
# percentage points, says nothing.
MAX_HALF_WIDTH = 20.0
# The networks that were selected by score after better ones were passed over.
_FAST_ENOUGH = "among those fast enough to train"

# The errors of entries that were not trained. Run folders contain these texts.
TOO_SLOW = "too slow to train in the available time"
_OLD_TOO_SLOW = "too slow to train in the time"  # in run folders of earlier versions
NO_TIME = "no time for more networks"


@dataclass(frozen=True)
class RoundResult:
    """The training of one network in one round.

    Attributes:
        epochs: Number of epochs that were trained in this round. It is not a whole number if
            the training was stopped because it took too long.
        samples: Number of training samples.
        seconds: Duration of the training.
        accuracy: Fraction of the validation samples that are classified correctly after the round;
            None for a regression.
        correct: One bit per validation sample, as hexadecimal digits: whether it is classified
            correctly. Two networks are compared sample by sample.
        rmse: For a regression, the root of the mean squared error on the validation samples, in the
            unit of the label; else None.
        rmse_margin: Half-width of its 95 % interval.
        r2: For a regression, the share of the variance that is explained; None if all labels are
            equal.
        squared_errors: For a regression, the squared error of each validation sample, as
            hexadecimal digits of float64.
    """

    epochs: float
    samples: int
    seconds: float
    accuracy: float | None = None
    correct: str = ""
    rmse: float | None = None
    rmse_margin: float | None = None
    r2: float | None = None
    squared_errors: str = ""

    @property
    def rank_value(self) -> float:
        """What entries are ranked by: the accuracy, or minus the RMSE. Higher is better."""
        if self.rmse is not None:
            return -self.rmse
        return self.accuracy or 0.0

    @property
    def percentage(self) -> float | None:
        """The accuracy or R2 in per cent; None for an undefined R2."""
        share = self.accuracy if self.rmse is None else self.r2
        if share is None:
            return None
        return 100 * share

    @property
    def text(self) -> str:
        """The result, such as "71.2 %", or an RMSE."""
        if self.rmse is not None:
            return f"{format_measured(self.rmse)}"
        return format_percent(self.accuracy or 0.0)


@dataclass(frozen=True)
class ContestEntry:
    """A network in a contest.

    Attributes:
        number: Number of the entry, from 1.
        arch: The architecture.
        selections: Why it takes part: `BEST_PREFIX` and the name of a proxy, `LARGEST`, `RANDOM`,
            or `DESIGN_PREFIX` and the name of a known design ("known design ResNet-20").
        rate: Highest learning rate of its trainings.
        params: Number of parameters.
        latency: Seconds for one sample, if latency is limited; else None.
        rounds: The rounds that it has finished.
        error: Why its training failed or did not begin; empty if it finished.
        is_copy: Whether it repeats an earlier entry with a different learning rate.
    """

    number: int
    arch: str
    selections: tuple[str, ...]
    rate: float
    params: int | None = None
    latency: float | None = None
    rounds: tuple[RoundResult, ...] = ()
    error: str = ""
    is_copy: bool = False

    @property
    def epochs(self) -> float:
        """Number of epochs of all rounds."""
        return sum(result.epochs for result in self.rounds)

    @property
    def epochs_text(self) -> str:
        """Number of epochs of all rounds, such as "80", or "1.7" if a training was stopped."""
        return f"{round(self.epochs, 1):g}"

    @property
    def seconds(self) -> float:
        """Training time of all rounds."""
        return sum(result.seconds for result in self.rounds)

    @property
    def accuracy(self) -> float | None:
        """Validation accuracy after the last round; None for a regression or without a round."""
        if self.last_round is None:
            return None
        return self.last_round.accuracy

    @property
    def last_round(self) -> RoundResult | None:
        """The last round that it has finished; None if there is none."""
        if not self.rounds:
            return None
        return self.rounds[-1]

    @property
    def is_left_out(self) -> bool:
        """Whether it was left out because there was too little time to train it."""
        return self.error in (TOO_SLOW, NO_TIME)

    @property
    def selection_text(self) -> str:
        """How it was selected, such as "ResNet-20 (known design), largest"."""
        texts = []
        for selection in self.selections:
            if selection.startswith(DESIGN_PREFIX):
                selection = f"{selection.removeprefix(DESIGN_PREFIX)} (known design)"
            texts.append(selection)
        return ", ".join(texts)


@dataclass(frozen=True)
class Contest:
    """The result of a contest.

    Attributes:
        winner: The architecture of the winner.
        winner_number: Number of the winning entry.
        entries: All entries, sorted by the number of finished rounds and then by accuracy or RMSE,
            best first. Entries that failed come last.
        tied: Numbers of the entries that the validation samples cannot distinguish from the best
            one, including that one.
        rounds: Number of planned rounds.
        train_samples: Number of training samples; a round may use fewer.
        val_samples: Number of validation samples.
        recipe: What to type for the recipe.
        data: Name of the data.
        seconds: Duration of the contest.
        end_reason: "finished", "time" or "interrupted".
        search_key: Identity of the ranking that the entries come from.
        passed_over: Number of networks with high scores that were too slow to train in the
            available time.
        replacements: Number of networks with the next best scores that took part instead.
        task: What the networks predict: "classification" or "regression".
        label: Name of the label of a regression; may be empty.
        constant_rmse: For a regression, the RMSE of always predicting the mean label of the
            training part on the validation samples; else None.
        small_share: Share of the steps that see reduced pictures in the training of the winner, if
            the time for it is short.
    """

    winner: str
    winner_number: int
    entries: tuple[ContestEntry, ...]
    tied: tuple[int, ...]
    rounds: int
    train_samples: int
    val_samples: int
    recipe: str
    data: str
    seconds: float
    end_reason: str = "finished"
    search_key: str = ""
    passed_over: int = 0
    replacements: int = 0
    task: str = CLASSIFICATION.name
    label: str = ""
    constant_rmse: float | None = None
    small_share: float = 0.0

    @property
    def finished_rounds(self) -> int:
        """Number of rounds that took place: fewer than planned if the contest ended early."""
        return max((len(entry.rounds) for entry in self.entries), default=0)

    @property
    def kind(self) -> TaskKind:
        """What the networks predict."""
        return TASK_KINDS[self.task]

    @property
    def result_title(self) -> str:
        """What the networks are compared by: "accuracy" or "RMSE"."""
        if self.kind == REGRESSION:
            return self.kind.error_title
        return self.kind.quality_title

    @property
    def winning_entry(self) -> ContestEntry:
        """The entry of the winner."""
        for entry in self.entries:
            if entry.number == self.winner_number:
                return entry
        raise ValueError(f"there is no entry {self.winner_number}")

    @property
    def network_count(self) -> int:
        """Number of networks that took part. One that entered with several rates counts once."""
        return len({entry.arch for entry in self.entries if not entry.is_left_out})

    @property
    def count_text(self) -> str:
        """How many networks took part and were left out: "4 networks (3 others were left out)"."""
        text = format_count(self.network_count, "network")
        left_out = len({entry.arch for entry in self.entries if entry.is_left_out})
        if left_out == 1:
            return f"{text} (1 other was left out)"
        if left_out:
            return f"{text} ({left_out} others were left out)"
        return text

    def describe_selection(self, entry: ContestEntry) -> str:
        """Return how an entry was selected, such as "largest" or "best by consensus".

        If networks with higher scores were passed over, "best" is qualified.
        """
        if not self.passed_over or entry.is_left_out:
            return entry.selection_text
        texts = []
        for selection in entry.selections:
            if selection.startswith(BEST_PREFIX):
                selection = f"{selection} {_FAST_ENOUGH}"
            texts.append(selection)
        return replace(entry, selections=tuple(texts)).selection_text

    def compute_margin(self, entry: ContestEntry) -> float | None:
        """Return the half-width of the 95 % interval of an entry's result; None without one."""
        result = entry.last_round
        if result is None:
            return None
        if result.accuracy is None:
            return result.rmse_margin
        variance = result.accuracy * (1 - result.accuracy) / self.val_samples
        return INTERVAL * sqrt(variance)

    def format_result(self, entry: ContestEntry) -> str:
        """Return accuracy or RMSE with its interval, such as "71.2 ± 3.9 %", or why it has none."""
        result = entry.last_round
        margin = self.compute_margin(entry)
        if result is None or margin is None:
            if entry.is_left_out:
                return "left out"
            if entry.error:
                return "failed"
            if self.end_reason == "interrupted":
                return "not trained (interrupted)"
            return "not trained"
        if result.rmse is not None:
            return f"{format_measured(result.rmse)} \u00b1 {margin:.2g}"
        assert result.accuracy is not None
        return f"{100 * result.accuracy:.1f} \u00b1 {100 * margin:.1f} %"

    @property
    def verdict(self) -> str:
        """Which network wins, its result, and how certain the choice is."""
        entry = self.winning_entry
        text = f"Network {entry.number} wins: {self.describe_selection(entry)}. "
        if self.kind == REGRESSION:
            text += (
                f"Its RMSE on {self.val_samples:,} validation samples is "
                f"{self.format_result(entry)}, in the unit of {format_label_name(self.label)}"
            )
        else:
            text += (
                f"It classifies {self.format_result(entry)} of {self.val_samples:,} validation "
                "samples correctly"
            )
        others = self._count_other_ties()
        if others == 0:
            return f"{text}."
        noun = "network is" if others == 1 else "networks are"
        # Latency decides if it is limited, as in `workflows/contest.py`.
        preferred = "smallest" if entry.latency is None else "fastest"
        return (
            f"{text}. {others} other {noun} within one standard error of the best result; among "
            f"all of them, the {preferred} wins."
        )

    def _count_other_ties(self) -> int:
        """Return how many networks other than the winner are tied with the best one."""
        archs = {entry.arch for entry in self.entries if entry.number in self.tied}
        return len(archs - {self.winner})

    @property
    def constant_text(self) -> str:
        """What always predicting the mean achieves in a regression; else empty."""
        result = self.winning_entry.last_round
        if self.constant_rmse is None or result is None or result.rmse is None:
            return ""
        text = f"Always predicting the mean has an RMSE of {format_measured(self.constant_rmse)}"
        if result.rmse >= self.constant_rmse:
            return f"{text}, so the winner has not learned to predict the label yet."
        return f"{text} on these samples."

    @property
    def passed_over_text(self) -> str:
        """How many networks with high scores were too slow to train; empty if none."""
        if not self.passed_over:
            return ""
        if self.passed_over == 1:
            verb = "was"
            reason = f"because it is {TOO_SLOW}"
            replacement = "it was not replaced"
        else:
            verb = "were"
            reason = f"because they are {TOO_SLOW}"
            replacement = "they were not replaced"
        if self.replacements:
            count = format_count(self.replacements, "network")
            replacement = f"{count} with the next best scores took part instead"
        return (
            f"{self.passed_over} of the best networks by score {verb} passed over, {reason}; "
            f"{replacement}."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Whether the proxy helped on these data, in one sentence per comparison with a group.

        Groups that are equal to that of the proxy, or cannot be compared with it, share a sentence.
        The results are those of the first round, in which all entries are trained for equal time.
        """
        groups = self._list_groups()
        sentences = []
        for name, group in groups.items():
            if name.startswith(BEST_PREFIX):
                sentences += _compare_with_others(group, groups, self.kind)
        return tuple(sentences)

    def _list_groups(self) -> dict[str, TrainedGroup]:
        """Return the architectures by selection, with accuracy or R2 after the first round."""
        archs: dict[str, list[str]] = {}
        results: dict[str, list[float]] = {}
        compared: set[str] = set()
        # An architecture that entered again with another learning rate counts once.
        for entry in sorted(self.entries, key=lambda entry: entry.number):
            if entry.arch in compared or not entry.rounds:
                continue
            percentage = entry.rounds[0].percentage
            if percentage is None:
                continue
            compared.add(entry.arch)
            for selection in entry.selections:
                name = selection
                if selection.startswith(DESIGN_PREFIX):
                    name = KNOWN_DESIGNS
                archs.setdefault(name, []).append(entry.arch)
                results.setdefault(name, []).append(percentage)
        groups = {}
        for name in archs:
            groups[name] = TrainedGroup(name, "", tuple(archs[name]), tuple(results[name]))
        return groups

    def to_summary(self) -> dict[str, Any]:
        """Return the contest as plain data for `--json`, without the results per sample."""
        facts = asdict(self)
        for row in facts["entries"]:
            for result in row["rounds"]:
                del result["correct"]
                del result["squared_errors"]
        facts["ended"] = facts.pop("end_reason")
        facts["verdict"] = self.verdict
        facts["sentences"] = list(self.sentences)
        return facts

    def save(self, folder: Path) -> "Contest":
        """Write `contest.json` into a run folder; return the contest itself."""
        facts = asdict(self)
        facts["ended"] = facts.pop("end_reason")  # the key of earlier versions
        write_atomically(folder / CONTEST_FILE, json.dumps(facts, indent=1) + "\n")
        return self

    @staticmethod
    def read(run: RunFolder) -> "Contest | None":
        """Read the contest of a run.

        Returns:
            The contest, or None if there is none or it belongs to an earlier ranking.

        Raises:
            UsageError: The file is damaged.
        """
        path = run.folder / CONTEST_FILE
        if not path.is_file():
            return None
        with read_result_file(path) as facts:
            if not belongs_to_search(run, facts):
                return None
            facts["entries"] = tuple(read_entry(row) for row in facts["entries"])
            facts["tied"] = tuple(facts["tied"])
            if "ended" in facts:
                facts["end_reason"] = facts.pop("ended")
            contest = Contest(**facts)
            _check_contest(contest)
            return contest


def _compare_with_others(
    group: TrainedGroup, groups: Mapping[str, TrainedGroup], kind: TaskKind
) -> list[str]:
    """Compare the networks that a proxy selected with the other groups, in sentences."""
    proxy = group.name.removeprefix(BEST_PREFIX)
    equal_texts = []
    unclear_texts = []
    too_short_texts = []
    comparisons = []
    for other_name, other_text in _OTHER_GROUPS.items():
        other = groups.get(other_name)
        if other is None:
            continue
        contrast = compare_groups(group, other)
        if set(group.archs) == set(other.archs):
            equal_texts.append(other_text)
        elif contrast.low is None or contrast.high is None:
            unclear_texts.append(other_text)
        elif kind != REGRESSION and contrast.high - contrast.low > 2 * MAX_HALF_WIDTH:
            too_short_texts.append(other_text)
        else:
            comparisons.append(_compare_in_words(contrast, proxy, other_text, kind))
    sentences = []
    if equal_texts:
        sentences.append(f"The networks selected by {proxy} are also {join_words(equal_texts)}.")
    if unclear_texts:
        sentences.append(
            f"Too few trainings to compare the networks selected by {proxy} with "
            f"{join_words(unclear_texts)}."
        )
    if too_short_texts:
        sentences.append(
            f"The contest was too short to compare the networks selected by {proxy} with "
            f"{join_words(too_short_texts)}."
        )
    return sentences + comparisons


def _compare_in_words(contrast: Contrast, proxy: str, other_text: str, kind: TaskKind) -> str:
    """Compare the networks that a proxy selected with another group, in one sentence.

    Args:
        contrast: The comparison, which has an interval.
        proxy: Name of the proxy.
        other_text: The other group in words.
        kind: What the networks predict.
    """
    assert contrast.low is not None
    assert contrast.high is not None
    is_regression = kind == REGRESSION
    if is_regression:
        # R2 is a number, not per cent.
        interval = f"95 % interval {contrast.format_interval(scale=0.01, decimals=3)}"
        direction = "higher" if contrast.difference > 0 else "lower"
        size = f"{abs(contrast.difference) / 100:.3f}"
        comparison = f"their R2 is on average {size} {direction}"
    else:
        interval = f"95 % interval {contrast.format_interval()}"
        direction = "more" if contrast.difference > 0 else "less"
        comparison = f"{abs(contrast.difference):.1f} points {direction} accurate"
    if contrast.low <= 0 <= contrast.high:
        return (
            f"With so few trainings, the networks selected by {proxy} cannot be distinguished from "
            f"{other_text}: {comparison} after equal training time ({interval})."
        )
    if is_regression:
        return (
            f"After equal training time, the networks selected by {proxy} differ from "
            f"{other_text}: {comparison} ({interval})."
        )
    return (
        f"After equal training time, the networks selected by {proxy} are on average "
        f"{comparison} than {other_text} ({interval})."
    )


def _check_contest(contest: Contest) -> None:
    """Check values that may come from a damaged file.

    Raises:
        ValueError: A number is impossible, or the winner was not trained.
        TypeError: A value has the wrong type.
    """
    if not isinstance(contest.winner, str):
        raise TypeError(f"its winner is {contest.winner!r}")
    if contest.val_samples < 1:
        raise ValueError(f"val_samples is {contest.val_samples}")
    if contest.task not in (CLASSIFICATION.name, REGRESSION.name):
        raise ValueError(f"its task is {contest.task!r}")
    if not isinstance(contest.label, str):
        raise TypeError(f"its label is {contest.label!r}")
    if not 0 <= contest.small_share < 1:
        raise ValueError(f"small_share is {contest.small_share}")
    if not 0 <= (contest.constant_rmse or 0.0) < inf:
        raise ValueError(f"constant_rmse is {contest.constant_rmse}")
    for entry in contest.entries:
        numbers = [entry.rate, entry.params or 0, entry.latency or 0.0]
        for result in entry.rounds:
            numbers += [result.epochs, result.seconds]
            if contest.kind == REGRESSION:
                numbers += _list_regression_numbers(result)
            elif result.accuracy is None or not 0 <= result.accuracy <= 1:
                raise ValueError(f"the accuracy of entry {entry.number} is {result.accuracy}")
        if not all(0 <= number < inf for number in numbers):
            raise ValueError(f"a number of entry {entry.number} is impossible")
        if not all(isinstance(text, str) for text in (entry.arch, entry.error, *entry.selections)):
            raise TypeError(f"a text of entry {entry.number} is not a string")
    winner = contest.winning_entry
    if winner.arch != contest.winner or winner.last_round is None:
        raise ValueError("its winner was not trained")


def _list_regression_numbers(result: RoundResult) -> list[float]:
    """Return the numbers of a regression that must be finite and not negative.

    Raises:
        ValueError: The round has no RMSE, or has an accuracy, or an impossible R2.
    """
    if result.rmse is None or result.rmse_margin is None or result.accuracy is not None:
        raise ValueError("a round has no RMSE")
    if result.r2 is not None and not -inf < result.r2 <= 1:
        raise ValueError(f"an R2 is {result.r2}")
    return [result.rmse, result.rmse_margin]


def read_entry(row: dict[str, Any]) -> ContestEntry:
    """Read an entry that was written as plain data.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is unknown.
    """
    facts = dict(row)
    facts["selections"] = tuple(row["selections"])
    facts["rounds"] = tuple(RoundResult(**result) for result in row["rounds"])
    if facts.get("error") == _OLD_TOO_SLOW:
        facts["error"] = TOO_SLOW
    return ContestEntry(**facts)
