"""Trainings after a search: the trained groups, the significance of differences, and the winner.

Tables are confirmed, images have a contest.
"""

import json
from dataclasses import replace
from html import escape
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
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.group_comparison import (
    Contrast,
    TrainedGroup,
    compare_groups,
    compute_permutation_p,
)
from untrained.runs.folder import RunFolder, get_default_group_size
from untrained.runs.ranking import rank_records
from untrained.runs.winner import read_winner
from untrained.types import Failure
from untrained.workflows.confirm import (
    ConfirmationTrainings,
    choose_groups,
    make_confirmation,
)
from untrained.workflows.search import SearchResult
from untrained.workflows.search import _make_entries as make_entries

TASK = Task("noise", (3, 8, 8), 4)
TABLE_SPACE = "nasrec_small(blocks=1)"


def make_arch(i: int) -> Arch:
    return Arch("s", (("i", i),))


def make_records(scores: list[float], params: list[int]) -> list[Record]:
    scored = [
        make_record(make_arch(i), "naswot@1", TASK, 0, score) for i, score in enumerate(scores)
    ]
    return scored + [
        make_record(make_arch(i), "params@1", TASK, 0, float(size)) for i, size in enumerate(params)
    ]


def make_run(folder: Path = Path("run")) -> RunFolder:
    return RunFolder(folder, SearchConfig("s", "naswot", budget=30), "naswot@1", True, "")


def make_group(name: str, *values: float | None, first: int = 0) -> TrainedGroup:
    return TrainedGroup(name, "", tuple(str(first + i) for i in range(len(values))), values)


def test_the_groups_are_the_best_the_largest_and_random_scored_architectures():
    scored = make_records([float(i) for i in range(30)], [100 - i for i in range(30)])
    failed = make_record(make_arch(99), "naswot@1", TASK, 0, None, Failure("nan"))
    large = make_record(make_arch(99), "params@1", TASK, 0, 1e9)
    everything = [*scored, failed, large]
    groups = choose_groups(rank_records(everything, "naswot@1", True), everything, 5, make_run())
    assert list(groups) == ["naswot", "params", "random"]
    assert groups["naswot"] == [make_arch(i) for i in (29, 28, 27, 26, 25)]
    # The largest has no score, so it was never a candidate
    assert groups["params"] == [make_arch(i) for i in range(5)]
    assert len(set(groups["random"])) == 5
    assert groups == choose_groups(
        rank_records(everything, "naswot@1", True), everything, 5, make_run()
    )
    few = choose_groups(rank_records(scored[:2], "naswot@1", True), scored, 5, make_run())
    assert [len(group) for group in few.values()] == [2, 2, 2]


@pytest.mark.parametrize("name", ["params", "random"])
def test_the_group_of_the_proxy_is_the_best_by_score_whatever_its_name_is(name):
    """Scores and sizes have opposite orders, so the two groups would differ."""
    scored = [make_record(make_arch(i), f"{name}@1", TASK, 0, float(i), None) for i in range(30)]
    sizes = [] if name == "params" else make_records([], [100 - i for i in range(30)])
    run = replace(make_run(), config=SearchConfig("s", name, budget=30, confirm=2))
    ranking = rank_records(scored, f"{name}@1", True)
    groups = choose_groups(ranking, [*scored, *sizes], 4, run)
    others = {"params", "random"} - {name}
    assert list(groups) == [name, *others]
    assert groups[name] == [make_arch(i) for i in (29, 28, 27, 26)]
    entries = make_entries(SearchResult(run, (*scored, *sizes), ranking), 0.1)
    by_score = [entry for entry in entries if f"best by {name}" in entry.selections]
    assert [entry.arch for entry in by_score] == [str(make_arch(i)) for i in (29, 28, 27, 26)]


def test_the_difference_its_interval_and_its_p_value_are_those_computed_by_hand():
    """Means 93 and 90, variances 1 and 4 of three values each: t for three values is 4.3027."""
    contrast = compare_groups(
        make_group("dextr", 92.0, 93.0, 94.0), make_group("random", 88.0, 90.0, 92.0, first=2)
    )
    half = 4.302652730 * sqrt(1 / 3 + 4 / 3)
    assert (contrast.difference, contrast.low, contrast.high) == pytest.approx(
        (3.0, 3 - half, 3 + half)
    )
    assert contrast.shared == 1
    values = [92.0, 93.0, 94.0, 88.0, 90.0, 92.0]
    splits = [abs(fmean(s) - (sum(values) - sum(s)) / 3) for s in combinations(values, 3)]
    assert contrast.p == pytest.approx(sum(d >= 3.0 for d in splits) / 20)
    alone = compare_groups(make_group("dextr", 92.0), make_group("random", 90.0))
    assert (alone.low, alone.high, alone.p) == (None, None, None)


def test_the_p_value_of_the_clearest_difference_is_two_of_all_splits():
    assert compute_permutation_p([5.0, 6, 7, 8, 9], [0.0, 1, 2, 3, 4]) == pytest.approx(2 / 252)
    assert compute_permutation_p([1.0, 2.0], [1.0, 2.0]) == 1.0
    many = compute_permutation_p([float(i) for i in range(20, 40)], [float(i) for i in range(20)])
    assert many is not None
    assert many < 0.001


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (([93.0, 94, 95, 94, 93], [80.0, 81, 79, 80, 82]), "Here dextr is better than chance."),
        (([80.0, 81, 79, 80, 82], [93.0, 94, 95, 94, 93]), "Here dextr is worse than chance."),
        (
            ([90.0, 80, 95, 85, 88], [91.0, 82, 94, 80, 87]),
            "With so few trainings, dextr does not differ significantly from chance.",
        ),
    ],
)
def test_the_sentence_says_whether_a_difference_is_significant(values, sentence):
    contrast = compare_groups(
        make_group("dextr", *values[0]), make_group("random", *values[1], first=9)
    )
    text = contrast.describe("dextr")
    assert text.endswith(sentence)
    direction = "higher" if contrast.difference > 0 else "lower"
    assert f"is {abs(contrast.difference):.1f} points {direction} than" in text
    assert "selected at random" in text
    assert "p = " in text
    by_size = Contrast("params", 1.0, None, None, None, 2).describe("dextr")
    assert "selected by params (2 are in both groups). With so few trainings, dextr does" in by_size


def make_trainings(results: dict[Arch, float]) -> ConfirmationTrainings:
    return ConfirmationTrainings(results, results, epochs=3, samples=100, seconds=1.0)


def test_the_highest_accuracy_wins_and_a_failed_training_has_no_value(tmp_path):
    groups = {
        "naswot": [make_arch(1), make_arch(2)],
        "params": [make_arch(3), make_arch(1)],
        "random": [make_arch(4)],
    }
    reached = {make_arch(1): 90.0, make_arch(3): 95.0, make_arch(4): 95.0}
    trainings = replace(
        make_trainings(reached), reasons={make_arch(2): "stopped by the time limit"}
    )
    confirmation = make_confirmation(groups, trainings, make_run())
    assert (confirmation.best_arch, confirmation.best_arch_result, confirmation.selected_by) == (
        str(make_arch(3)),
        95.0,
        ("params",),
    )
    assert confirmation.groups[0].results == (90.0, None)
    assert confirmation.groups[0].reasons == ("", "stopped by the time limit")
    assert confirmation.contrasts == (), "a single network is not compared with others"
    assert confirmation.sentences == (
        "3 of 4 searched networks were trained; 1 stopped by the time limit.",
        "Too few networks were trained to compare naswot with other selections.",
    )
    confirmation.save(tmp_path)
    assert Confirmation.read(replace(make_run(), folder=tmp_path)) == confirmation
    assert Confirmation.read(replace(make_run(), folder=tmp_path, search_key="another")) is None
    assert Confirmation.read(replace(make_run(), folder=tmp_path / "elsewhere")) is None


def test_only_groups_of_several_and_different_networks_are_compared():
    groups = {
        "naswot": [make_arch(1), make_arch(2)],
        "params": [make_arch(2), make_arch(1)],
        "random": [make_arch(2), make_arch(3)],
    }
    reached = {make_arch(1): 90.0, make_arch(2): 92.0, make_arch(3): 95.0}
    confirmation = make_confirmation(groups, make_trainings(reached), make_run())
    assert [contrast.against for contrast in confirmation.contrasts] == ["random"]
    assert confirmation.contrasts[0].difference == pytest.approx(91 - 93.5)
    assert len(confirmation.sentences) == 1


def test_without_any_training_the_first_of_the_ranking_is_the_best():
    groups = {"naswot": [make_arch(1)], "random": [make_arch(2)]}
    trainings = replace(
        make_trainings({}), reasons={make_arch(i): "stopped by the time limit" for i in (1, 2)}
    )
    confirmation = make_confirmation(groups, trainings, make_run())
    assert (confirmation.best_arch, confirmation.best_arch_result) == (str(make_arch(1)), None)
    assert confirmation.sentences[0] == (
        "0 of 2 searched networks were trained; 2 stopped by the time limit."
    )
    assert confirmation.winner_text == (
        "No searched network could be trained and no hand-designed network won, so the first of "
        "the ranking wins"
    )


@pytest.mark.parametrize(
    ("data", "count"),
    [
        ("digits", 0),
        ("cifar10", 0),
        ("noise", 0),
        ("npz:a.npz", 3),
        ("folder:./x", 3),
        ("csv:t.csv", 5),
        ("parquet:t.parquet?label=click", 5),
        ("criteo:train.txt", 5),
        ("hf:mnist", 0),
        ("clicks", 0),
        ("clicks:rows=1000", 0),
        ("./photos", 0),  # refused later with a hint
    ],
)
def test_confirmations_are_the_default_for_data_of_the_user(data, count):
    assert get_default_group_size(data) == count


def show_result(winner: int | None, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the terminal output of a search of twelve whose trainings selected `winner`; None: no trainings."""
    records = make_records([float(-i) for i in range(12)], [1] * 12)
    trained = [] if winner is None else [make_arch(0), make_arch(winner)]
    reached = {one_arch: float(one_arch["i"] == winner) for one_arch in trained}
    confirmation = (
        make_confirmation({"naswot": trained}, make_trainings(reached), make_run())
        if trained
        else None
    )
    show_search_result(
        SearchResult(
            make_run(), tuple(records), rank_records(records, "naswot@1", True), confirmation
        ),
        Path("page"),
    )
    return capsys.readouterr().out


def test_the_ranking_marks_the_winner_of_the_trainings(capsys):
    output = show_result(3, capsys)
    assert [line.split()[:2] for line in output.splitlines() if line.split()[:1] == ["*"]] == [
        ["*", "4"],
        ["*", "the"],
    ]
    assert "*" not in show_result(11, capsys)  # beyond the ten that are shown
    assert "*" not in show_result(None, capsys)


def test_ctrl_c_in_a_confirmation_keeps_the_ranking_and_the_same_call_resumes(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {
        "data": "clicks:rows=600",
        "budget": 3,
        "run": "run",
        "workers": 1,
        "confirm": 1,
    }

    def interrupt(*_: Any) -> None:
        raise Interrupted("stopped by Ctrl-C")

    with monkeypatch.context() as patch:
        patch.setattr("untrained.workflows.search.confirm_ranking", interrupt)
        first = search(TABLE_SPACE, "params", **options)
    assert (first.run.end_reason, first.confirmation, len(first.ranking.standings)) == (
        "interrupted",
        None,
        3,
    )
    assert "Ctrl-C" in first.report().read_text()
    again = search(TABLE_SPACE, "params", **options)
    assert again.confirmation is not None
    assert again.run.end_reason == "budget"
    assert "<h1>clicks rows=600: 600 rows</h1>" in again.report().read_text()


BAD = """
import untrained as ut

@ut.proxy(higher_is_better=False)
def backwards(probe):
    return float(probe.params)
"""


def test_a_misleading_proxy_is_overruled_by_the_trainings(own_space, tmp_path):
    """The proxy prefers narrow networks; another network learns more, wins, is trained and shown."""
    Path("bad.py").write_text(BAD)
    options: dict[str, Any] = {
        "data": "digits",
        "budget": 12,
        "run": "run",
        "workers": 1,
        "confirm": 2,
    }
    options |= {"limits": {"params": "1M"}}
    result = search(own_space, "./bad.py:backwards", **options)
    contest = result.contest
    assert contest is not None
    assert result.confirmation is None
    assert str(result.best) == contest.winner != str(result.ranking.standings[0].arch)
    assert "best by ./bad.py:backwards" not in contest.winning_entry.selections
    assert contest.verdict in repr(result)
    assert escape(contest.verdict) in result._repr_html_()
    assert read_winner("run").arch == result.best
    sizes = {record.arch: record.value for record in result.records if record.proxy == "params"}
    assert sizes[result.best] != sizes[result.ranking.standings[0].arch]
    for limits in (result.run.limit_results, RunFolder.read("run").limit_results):
        # Not those of the best by score.
        assert [row["value"] for row in limits] == [sizes[result.best]]
    again = search(own_space, "./bad.py:backwards", **options)
    assert again.contest is not None
    assert again.contest.entries == contest.entries
    page = report("run").read_text()
    assert "<h1>digits: 10 classes, 1,797 pictures</h1>" in page
    assert "--confirm 2" in page
    assert escape(contest.verdict) in page
    comparisons = " ".join(contest.sentences)
    assert "the largest ones" in comparisons
    assert "random ones" in comparisons
    for sentence in contest.sentences:
        assert escape(sentence) in page
    trained = train("run", recipe="quick(epochs=1,batch=256,average=0.0)", input_shape=(3, 8, 8))
    assert trained.key.arch == contest.winner
    plain = search(own_space, "./bad.py:backwards", **options | {"confirm": 0})
    assert not Path("run/contest.json").exists()
    assert read_winner("run").arch == plain.best == plain.ranking.standings[0].arch
    assert "a different architecture" in report("run").read_text()


def test_data_without_labels_are_refused_before_the_search(own_space):
    with pytest.raises(UsageError, match="noise has no parts to train on"):
        search(own_space, "params", budget=2, data="noise", run="run", confirm=2)
    assert not Path("run").exists()
    with pytest.raises(UsageError, match="confirm is -1; write a whole number from 0"):
        search(own_space, "params", budget=2, run="run", confirm=-1)


@pytest.mark.parametrize("file_name", ["contest.json", "confirmed.json"])
def test_a_contest_does_not_use_the_test_part_and_a_damaged_file_is_refused(own_space, file_name):
    """digits has 1,797 samples, 15 % of each class for the test; all others are used."""
    result = search(own_space, "params", data="digits", budget=2, run="run", workers=1, confirm=1)
    contest = result.contest
    assert contest is not None
    parts = load_data("digits", Task("", (1, 8, 8), 10)).parts
    used = contest.train_samples + contest.val_samples
    assert used == len(parts["train"]) + len(parts["val"])
    assert used == pytest.approx(0.85 * 1797, abs=10)
    Path("run/contest.json").unlink()
    search_key = result.run.search_key
    for damaged in (
        {"search_key": search_key, "groups": []},
        {"search_key": search_key, "winner": 5},
        [],
        "half",
    ):
        Path("run", file_name).write_text(json.dumps(damaged))
        with pytest.raises(
            UsageError,
            match=rf"{file_name} cannot be read: .*; repeat the command that wrote it",
        ):
            read_winner("run")
