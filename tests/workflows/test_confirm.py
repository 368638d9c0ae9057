"""Confirm, do not believe: who is trained, what the differences are worth, and who wins."""

import json
from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.records import make_record
from untrained import Arch, Record, Task, report, search, train
from untrained.cli.terminal.search_result import show_search_result
from untrained.config import SearchConfig
from untrained.data import load_data
from untrained.errors import Interrupted, UsageError
from untrained.reports.confirmation_result import Confirmation, Contrast, TrainedGroup
from untrained.runs.folder import RunFolder, default_confirmations
from untrained.runs.ranking import rank_records
from untrained.runs.winner import read_winner
from untrained.types import Failure
from untrained.workflows.confirm import (
    ConfirmationTrainings,
    choose_groups,
    compare_groups,
    compute_permutation_p,
    conclude_confirmation,
)
from untrained.workflows.search import SearchResult

TASK = Task("noise", (3, 8, 8), 4)


def arch(i: int) -> Arch:
    return Arch("s", (("i", i),))


def records(scores: list[float], params: list[int]) -> list[Record]:
    found = [make_record(arch(i), "naswot@1", TASK, 0, score) for i, score in enumerate(scores)]
    return found + [
        make_record(arch(i), "params@1", TASK, 0, float(size)) for i, size in enumerate(params)
    ]


def run(folder: Path = Path("run")) -> RunFolder:
    return RunFolder(folder, SearchConfig("s", "naswot", budget=30), "naswot@1", True, "")


def group(name: str, *values: float | None, first: int = 0) -> TrainedGroup:
    return TrainedGroup(name, "", tuple(str(first + i) for i in range(len(values))), values)


def test_the_best_the_largest_and_some_at_random_of_those_that_have_a_score():
    asked = records([float(i) for i in range(30)], [100 - i for i in range(30)])
    failed = make_record(arch(99), "naswot@1", TASK, 0, None, Failure("nan"))
    large = make_record(arch(99), "params@1", TASK, 0, 1e9)
    everything = [*asked, failed, large]
    groups = choose_groups(rank_records(everything, "naswot@1", True), everything, 5, run())
    assert list(groups) == ["naswot", "params", "random"]
    assert groups["naswot"] == [arch(i) for i in (29, 28, 27, 26, 25)]
    assert groups["params"] == [
        arch(i) for i in range(5)
    ]  # the largest has no score, so it was never a candidate
    assert len(set(groups["random"])) == 5
    assert groups == choose_groups(rank_records(everything, "naswot@1", True), everything, 5, run())
    few = choose_groups(rank_records(asked[:2], "naswot@1", True), asked, 5, run())
    assert [len(group) for group in few.values()] == [2, 2, 2]


def test_the_difference_its_interval_and_its_chance_by_hand():
    """Means 93 and 90, variances 1 and 4 of three values each: t for three values is 4.3027."""
    found = compare_groups(
        group("dextr", 92.0, 93.0, 94.0), group("random", 88.0, 90.0, 92.0, first=2)
    )
    half = 4.302652730 * sqrt(1 / 3 + 4 / 3)
    assert (found.difference, found.low, found.high) == pytest.approx((3.0, 3 - half, 3 + half))
    assert found.shared == 1
    values = [92.0, 93.0, 94.0, 88.0, 90.0, 92.0]
    splits = [abs(fmean(s) - (sum(values) - sum(s)) / 3) for s in combinations(values, 3)]
    assert found.p == pytest.approx(sum(d >= 3.0 for d in splits) / 20)
    alone = compare_groups(group("dextr", 92.0), group("random", 90.0))
    assert (alone.low, alone.high, alone.p) == (None, None, None)


def test_the_chance_of_the_clearest_difference_is_two_splits_of_all():
    assert compute_permutation_p([5.0, 6, 7, 8, 9], [0.0, 1, 2, 3, 4]) == pytest.approx(2 / 252)
    assert compute_permutation_p([1.0, 2.0], [1.0, 2.0]) == 1.0
    many = compute_permutation_p([float(i) for i in range(20, 40)], [float(i) for i in range(20)])
    assert many is not None
    assert many < 0.001


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (([93.0, 94, 95, 94, 93], [80.0, 81, 79, 80, 82]), "Here dextr is better than chance."),
        (([80.0, 81, 79, 80, 82], [93.0, 94, 95, 94, 93]), "Here dextr is worse than chance."),
        (
            ([90.0, 80, 95, 85, 88], [91.0, 82, 94, 80, 87]),
            "With so few trainings, dextr does not differ significantly from chance.",
        ),
    ],
)
def test_the_words_are_honest(values, said):
    found = compare_groups(group("dextr", *values[0]), group("random", *values[1], first=9))
    told = found.describe("dextr")
    assert told.endswith(said)
    direction = "higher" if found.difference > 0 else "lower"
    assert f"is {abs(found.difference):.1f} points {direction} than" in told
    assert "selected at random" in told
    assert "p = " in told
    by_size = Contrast("params", 1.0, None, None, None, 2).describe("dextr")
    assert "selected by params (2 are in both groups). With so few trainings, dextr does" in by_size


def trainings_with(results: dict[Arch, float]) -> ConfirmationTrainings:
    return ConfirmationTrainings(results, results, epochs=3, samples=100, seconds=1.0)


def test_the_best_of_all_wins_and_a_failed_training_is_no_number(tmp_path):
    groups = {"naswot": [arch(1), arch(2)], "params": [arch(3), arch(1)], "random": [arch(4)]}
    reached = {arch(1): 90.0, arch(3): 95.0, arch(4): 95.0}
    found = conclude_confirmation(groups, trainings_with(reached), run())
    assert (found.winner, found.reached, found.by) == (str(arch(3)), 95.0, ("params",))
    assert found.groups[0].reached == (90.0, None)
    assert [c.against for c in found.contrasts] == ["params", "random"]
    assert found.contrasts[0].difference == pytest.approx(90 - 92.5)
    found.save(tmp_path)
    assert Confirmation.read(replace(run(), folder=tmp_path)) == found
    assert Confirmation.read(replace(run(), folder=tmp_path, question="another")) is None
    assert Confirmation.read(replace(run(), folder=tmp_path / "elsewhere")) is None


@pytest.mark.parametrize(
    ("data", "count"),
    [
        ("digits", 0),
        ("cifar10", 0),
        ("noise", 0),
        ("npz:a.npz", 5),
        ("folder:./x", 5),
        ("csv:t.csv", 5),
        ("parquet:t.parquet?label=click", 5),
        ("criteo:train.txt", 5),
        ("hf:mnist", 0),
        ("clicks", 0),
        ("clicks:rows=1000", 0),
        ("./photos", 0),  # which is refused later, with what to type
    ],
)
def test_it_is_usual_on_data_of_the_users_own(data, count):
    assert default_confirmations(data) == count


def shown(winner: int | None, capsys: pytest.CaptureFixture[str]) -> str:
    """What the terminal shows of a search of twelve, of which training chose this one; or nobody was trained."""
    known = records([float(-i) for i in range(12)], [1] * 12)
    trained = [] if winner is None else [arch(0), arch(winner)]
    reached = {each: float(each["i"] == winner) for each in trained}
    told = (
        conclude_confirmation({"naswot": trained}, trainings_with(reached), run())
        if trained
        else None
    )
    show_search_result(
        SearchResult(run(), tuple(known), rank_records(known, "naswot@1", True), told), Path("page")
    )
    return capsys.readouterr().out


def test_the_ranking_marks_whom_training_chose_if_it_is_shown(capsys):
    said = shown(3, capsys)
    assert [line.split()[:2] for line in said.splitlines() if line.split()[:1] == ["*"]] == [
        ["*", "4"],
        ["*", "the"],
    ]
    assert "*" not in shown(11, capsys)  # beyond the ten that are shown
    assert "*" not in shown(None, capsys)


def test_ctrl_c_while_confirming_keeps_the_ranking_and_the_same_call_goes_on(
    mine, tmp_path, monkeypatch
):
    ask: dict[str, Any] = {"data": "digits", "budget": 3, "run": "run", "workers": 1, "confirm": 1}

    def stopped(*_: Any) -> None:
        raise Interrupted("stopped by Ctrl-C")

    with monkeypatch.context() as impatient:
        impatient.setattr("untrained.workflows.search.confirm_ranking", stopped)
        first = search(mine, "params", **ask)
    assert (first.run.ended, first.confirmed, len(first.ranking.standings)) == (
        "interrupted",
        None,
        3,
    )
    assert "Ctrl-C" in first.report().read_text()
    again = search(mine, "params", **ask)
    assert again.confirmed is not None
    assert again.run.ended == "budget"


BAD = """
import untrained as ut

@ut.proxy(higher_is_better=False)
def backwards(probe):
    return float(probe.params)
"""


def test_a_proxy_that_misleads_is_overruled_and_the_winner_goes_on(mine, tmp_path):
    """Narrow networks first: what is drawn otherwise learns more, wins, is trained and shown."""
    Path("bad.py").write_text(BAD)
    ask: dict[str, Any] = {"data": "digits", "budget": 12, "run": "run", "workers": 1, "confirm": 2}
    ask |= {"limits": {"params": "1M"}}
    found = search(mine, "./bad.py:backwards", **ask)
    assert found.confirmed is not None
    assert found.confirmed.groups[0].name == "./bad.py:backwards"
    assert str(found.best) == found.confirmed.winner != str(found.ranking.standings[0].arch)
    assert "./bad.py:backwards" not in found.confirmed.by
    assert read_winner("run").arch == found.best
    sizes = {record.arch: record.value for record in found.records if record.proxy == "params"}
    assert sizes[found.best] != sizes[found.ranking.standings[0].arch]
    for kept in (found.run.limits, RunFolder.read("run").limits):
        assert [row["value"] for row in kept] == [
            sizes[found.best]
        ]  # not those of the best by proxy
    again = search(mine, "./bad.py:backwards", **ask)
    assert again.confirmed is not None
    assert again.confirmed.groups == found.confirmed.groups
    page = report("run").read_text()
    assert "Confirmation by training" in page
    assert "--confirm 2" in page
    assert "selected by params" in page
    learned = train("run", recipe="quick(epochs=1,batch=256,average=0.0)", input_shape=(3, 8, 8))
    assert learned.key.arch == found.confirmed.winner
    plain = search(mine, "./bad.py:backwards", **ask | {"confirm": 0})
    assert not Path("run/confirmed.json").exists()
    assert read_winner("run").arch == plain.best == plain.ranking.standings[0].arch
    assert "a different architecture" in report("run").read_text()


def test_what_cannot_be_trained_on_is_refused_before_the_search(mine):
    with pytest.raises(UsageError, match="noise has nothing to learn from"):
        search(mine, "params", budget=2, data="noise", run="run", confirm=2)
    assert not Path("run").exists()
    with pytest.raises(UsageError, match="confirm is -1; write a whole number from 0"):
        search(mine, "params", budget=2, run="run", confirm=-1)


def test_the_test_part_has_no_say_and_a_damaged_file_is_told(mine):
    """digits has 1,797 samples, 15 % of each class for val and for test; more than the rest are asked for."""
    found = search(mine, "params", data="digits", budget=2, run="run", workers=1, confirm=1)
    assert found.confirmed is not None
    assert found.confirmed.samples == len(
        load_data("digits", Task("", (1, 8, 8), 10)).parts["train"]
    )
    assert found.confirmed.samples == pytest.approx(0.7 * 1797, abs=10)
    question = found.run.question
    for damaged in (
        {"question": question, "groups": []},
        {"question": question, "winner": 5},
        [],
        "half",
    ):
        Path("run/confirmed.json").write_text(json.dumps(damaged))
        with pytest.raises(
            UsageError,
            match=r"confirmed.json cannot be read: .*; repeat the command that wrote it",
        ):
            read_winner("run")
