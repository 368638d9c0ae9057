"""The result of a contest: its sentences, its section and charts, and a damaged file."""

import json
from collections.abc import Callable
from dataclasses import replace
from html import escape
from math import sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.reports.examples import make_contest, make_summary
from tests.reports.test_search_page import extract_body
from untrained.config import SearchConfig
from untrained.errors import UsageError
from untrained.formatting import format_fixed
from untrained.reports.contest_result import NO_TIME, TOO_SLOW, Contest, ContestEntry
from untrained.reports.group_comparison import TrainedGroup, compare_groups
from untrained.reports.pages.contest_section import make_contest_headline
from untrained.reports.pages.search_page import make_search_headline, render_search_page
from untrained.reports.search_summary import SearchSummary
from untrained.reports.svg.contest_charts import draw_result_by_size, draw_result_over_time
from untrained.reports.svg.ranking_charts import draw_size_scatter
from untrained.runs.folder import RunFolder

ARCHS = [f"width={i}" for i in range(1, 9)]


def make_page_summary(winner: int = 7, **changes: Any) -> SearchSummary:
    summary = make_summary(**changes)
    archs = [row.arch for row in summary.ranking]
    return replace(summary, contest=make_contest(archs, winner))


def test_the_sentences_compare_the_first_round_and_count_an_architecture_once():
    """dextr: 42, 44, 46; random: 50, 52; designs: 54 and 56, not 58 of the copy."""
    by_size, by_chance, by_design = make_contest(ARCHS).sentences
    # Entry 4 failed, so one of the largest is left, which has no interval.
    assert by_size == (
        "Too few trainings to compare the networks selected by dextr with the largest ones."
    )
    # Two values have one degree of freedom: t = 12.706. Variances are 4 and 2.
    half = 12.7062047 * sqrt(4 / 3 + 2 / 2)
    assert by_chance.endswith(
        "cannot be distinguished from random ones: 7.0 points less accurate after equal training time "
        # The sentence says "less", so the interval is that of how much less.
        f"(95 % interval {format_fixed(7 - half, 1)} to {7 + half:.1f})."
    )
    assert "cannot be distinguished from the known designs: 11.0 points less accurate" in by_design


def set_first_accuracies(contest: Contest, accuracies: dict[int, float]) -> Contest:
    entries = []
    for entry in contest.entries:
        if entry.number in accuracies:
            first = replace(entry.rounds[0], accuracy=accuracies[entry.number])
            entry = replace(entry, rounds=(first, *entry.rounds[1:]))
        entries.append(entry)
    return replace(contest, entries=tuple(entries))


def test_a_clear_difference_is_stated_without_a_reservation():
    accuracies = {1: 0.90, 2: 0.90, 3: 0.90, 5: 0.50, 6: 0.50}
    sentences = set_first_accuracies(make_contest(ARCHS), accuracies).sentences
    assert sentences[1].endswith(
        "40.0 points more accurate than random ones (95 % interval 40.0 to 40.0)."
    )


def test_a_proxy_that_selects_the_largest_and_a_contest_without_one_are_said_or_skipped():
    contest = make_contest(ARCHS)

    def select(change: Callable[[ContestEntry], tuple[str, ...]]) -> tuple[str, ...]:
        entries = tuple(replace(entry, selections=change(entry)) for entry in contest.entries)
        return replace(contest, entries=entries).sentences

    both = select(lambda entry: ("best by dextr", "largest") if entry.number < 4 else ())
    assert both == ("The networks selected by dextr are also the largest ones.",)
    groups = ("best by dextr", "largest", "random", "known design A")
    assert select(lambda entry: groups if entry.number < 4 else ()) == (
        "The networks selected by dextr are also the largest ones, random ones and the known "
        "designs.",
    )
    # One network per group has no interval.
    singles = {1: "best by dextr", 2: "largest", 3: "random"}
    assert select(lambda entry: (singles.get(entry.number, "none"),)) == (
        "Too few trainings to compare the networks selected by dextr with the largest ones and "
        "random ones.",
    )
    assert select(lambda entry: ("random",)) == ()


def test_the_verdict_names_the_winner_its_interval_and_ties():
    """70 % of 375 samples: the half-width is 1.96 sqrt(0.7 * 0.3 / 375)."""
    margin = 100 * 1.96 * sqrt(0.7 * 0.3 / 375)
    # Entries 7 and 9 are one network with two learning rates.
    verdict = make_contest(ARCHS, tied=(9, 7, 8)).verdict
    assert verdict == (
        f"Network 7 wins: ResNet-20 (known design). It classifies 70.0 \u00b1 {margin:.1f} % of 375 "
        "validation samples correctly. 1 other network is within one standard error of the best "
        "result; among all of them, the smallest wins."
    )
    for tied in ((7,), (9, 7)):
        alone = make_contest(ARCHS, tied=tied).verdict
        assert alone.endswith("validation samples correctly.")
    fast = make_contest(ARCHS, tied=(9, 7, 8))
    entries = tuple(replace(entry, latency=0.002) for entry in fast.entries)
    assert replace(fast, entries=entries).verdict.endswith("among all of them, the fastest wins.")


def test_the_page_begins_with_the_contest_and_highlights_the_winner():
    summary = make_page_summary(title="photos: 10 classes, 2,000 pictures")
    contest = summary.contest
    assert contest is not None
    assert make_search_headline(summary) == (
        "Winner of a contest of 8 networks: ResNet-20 (known design), 70.0 \u00b1 4.6 % of the "
        "validation samples correct, 70.0 k parameters."
    )
    text = extract_body(render_search_page(summary))
    order = ["<h1>photos: 10 classes", "Winner of a contest", ">Contest <", "Best architecture"]
    order += [
        "Ranking",
        "The winner has rank 7 by score: short trainings",
        "The other 84",
        "Command",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    for sentence in (contest.verdict, *contest.sentences):
        assert escape(sentence) in text
    # In the table of the contest, in the list of architectures and in the ranking.
    rows = text.split('<tr class="first">')[1:]
    assert len(rows) == 3
    assert "winner 7" in rows[0]
    assert "70.0 \u00b1 4.6 %" in rows[0]
    for row in rows[1:]:
        assert summary.ranking[6].arch in row[: row.index("</tr>")]
    assert "diverged: the loss is not a number" in text
    assert "The contest took 5 min 50 s." in text
    assert "Repeats the whole run." in text
    assert ">Latency <" not in text


def test_the_page_says_how_many_networks_were_too_slow():
    summary = make_page_summary()
    assert "passed over" not in extract_body(render_search_page(summary))
    contest = make_contest([row.arch for row in summary.ranking], passed_over=7, replacements=1)
    text = extract_body(render_search_page(replace(summary, contest=contest)))
    assert (
        "7 of the best networks by score were passed over, because they are too slow to train in "
        "the available time; 1 network with the next best scores took part instead."
    ) in text


def test_networks_are_counted_without_copies_and_without_those_left_out():
    """Eight architectures, of which entry 9 repeats one and entry 4 failed."""
    contest = make_contest(ARCHS)
    assert contest.network_count == 8
    entries = []
    for entry in contest.entries:
        if entry.number in (1, 2):
            entry = replace(entry, rounds=(), error=NO_TIME if entry.number == 1 else TOO_SLOW)
        entries.append(entry)
    contest = replace(contest, entries=tuple(entries))
    assert contest.network_count == 6
    assert "of a contest of 6 networks (2 others were left out):" in make_contest_headline(contest)
    assert "against training time of 6 networks" in draw_result_over_time(contest)


def test_best_by_score_is_qualified_if_better_networks_were_passed_over():
    contest = make_contest(ARCHS, winner=1, passed_over=3)
    entries = []
    for entry in contest.entries:
        if entry.number == 2:
            entry = replace(entry, error=TOO_SLOW)
        entries.append(entry)
    contest = replace(contest, entries=tuple(entries))
    texts = {entry.number: contest.describe_selection(entry) for entry in contest.entries}
    assert texts[1] == "best by dextr among those fast enough to train"
    # This one was passed over itself.
    assert texts[2] == "best by dextr, largest"
    assert texts[7] == "ResNet-20 (known design)"
    qualified = "best by dextr among those fast enough to train"
    assert qualified in contest.verdict
    assert qualified in make_contest_headline(contest)
    assert "fast enough" not in make_contest(ARCHS, winner=1).verdict


def test_a_network_that_an_interrupted_contest_did_not_train_has_not_failed():
    entries = list(make_contest(ARCHS).entries)
    entries[-1] = replace(entries[-1], error="")
    contest = make_contest(ARCHS, entries=tuple(entries), end_reason="interrupted")
    assert contest.format_result(entries[-1]) == "not trained (interrupted)"
    assert replace(contest, end_reason="time").format_result(entries[-1]) == "not trained"
    failed = replace(entries[-1], error="diverged")
    assert contest.format_result(failed) == "failed"


def test_a_wide_interval_is_not_printed():
    accuracies = {1: 0.45, 2: 0.50, 3: 0.55, 5: 0.50, 6: 0.51}
    sentences = set_first_accuracies(make_contest(ARCHS), accuracies).sentences
    assert sentences[1] == (
        "The contest was too short to compare the networks selected by dextr with random ones "
        "and the known designs."
    )


def test_the_headline_names_the_number_of_parameters_once():
    contest = make_contest(ARCHS)
    assert "70.0 k parameters" in make_contest_headline(contest)
    assert "parameters" not in make_contest_headline(contest, has_params=False)


@pytest.mark.parametrize(
    ("finished_rounds", "next_round"),
    [
        (1, None),
        (2, "; in the first of the 2 rounds, about a third of the networks advanced."),
        (3, "; in each of the 3 rounds but the last, about a third of the networks advanced."),
    ],
)
def test_the_rules_are_about_the_rounds_that_were_finished(finished_rounds, next_round):
    """The contest was planned with three rounds."""
    summary = make_page_summary()
    contest = make_contest([row.arch for row in summary.ranking])
    entries = [replace(entry, rounds=entry.rounds[:finished_rounds]) for entry in contest.entries]
    contest = replace(contest, entries=tuple(entries))
    assert (contest.rounds, contest.finished_rounds) == (3, finished_rounds)
    text = extract_body(render_search_page(replace(summary, contest=contest)))
    if next_round is None:
        assert "of the networks advanced" not in text
        assert "Every network was trained for about the same time, on up to" in text
    else:
        assert next_round in text
        assert "Every network of a round was trained for about the same time, on up to" in text


def test_an_interval_that_is_wider_than_100_points_is_left_out():
    """Two values that are 2 d apart, twice: the half-width is 12.706 d sqrt(2)."""
    wide = 12.7062047 * sqrt(2)
    for d, has_interval in ((49.9 / wide, True), (50.1 / wide, False)):
        first = TrainedGroup("dextr", "", ("a", "b"), (50 - d, 50 + d))
        other = TrainedGroup("random", "", ("c", "d"), (60 - d, 60 + d))
        contrast = compare_groups(first, other)
        assert (contrast.low is not None) is has_interval
        assert (contrast.high is not None) is has_interval
    accuracies = {1: 0.1, 2: 0.5, 3: 0.9, 5: 0.1, 6: 0.9}
    sentences = set_first_accuracies(make_contest(ARCHS), accuracies).sentences
    assert "Too few trainings to compare" in sentences[0]
    assert "random ones" in sentences[0]


def test_latency_has_a_column_if_it_was_limited():
    summary = make_page_summary()
    contest = summary.contest
    assert contest is not None
    first = replace(contest.entries[0], latency=0.0042)
    contest = replace(contest, entries=(first, *contest.entries[1:]))
    text = extract_body(render_search_page(replace(summary, contest=contest)))
    assert ">Latency <" in text
    assert ">4.20 ms <" in text


def find_circles(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter("circle"))


def test_the_time_chart_has_a_line_per_entry_and_ends_with_the_winner():
    contest = make_contest(ARCHS)
    svg = draw_result_over_time(contest)
    lines = list(ElementTree.fromstring(svg).iter("path"))
    assert [path.attrib["class"] for path in lines].count("entry") == 8
    assert lines[-1].attrib["class"] == "entry top"
    assert lines[-1].attrib["d"].count("L") == 2
    circles = find_circles(svg)
    assert len(circles) == sum(len(entry.rounds) for entry in contest.entries)
    # Ends of rounds after 10, 40 and 130 seconds, on a logarithmic axis.
    x = [float(circle.attrib["cx"]) for circle in circles[-3:]]
    assert (x[1] - x[0]) / (x[2] - x[0]) == pytest.approx(0.5405, abs=0.01)  # ln 4 / ln 13
    assert "7. ResNet-20 (known design)\nround 1: 54.0 %, 10 s" in circles[-3].findtext("title", "")
    assert draw_result_over_time(replace(contest, entries=())) == ""


def test_the_size_chart_shows_the_first_round_and_a_ring_around_the_winner():
    contest = make_contest(ARCHS)
    *dots, winner, ring = find_circles(draw_result_by_size(contest))
    assert len(dots) == 7
    assert winner.attrib["class"] == "top"
    assert ring.attrib["class"] == "ring"
    assert (ring.attrib["cx"], ring.attrib["cy"]) == (winner.attrib["cx"], winner.attrib["cy"])
    # Accuracies of entries 1 to 8 are on a line over their sizes; the copy is above it.
    places = {}
    for dot in [*dots, winner]:
        number = int(dot.findtext("title", "").partition(".")[0])
        places[number] = (float(dot.attrib["cx"]), float(dot.attrib["cy"]))
    slope = (places[8][1] - places[1][1]) / (places[8][0] - places[1][0])
    for number in (2, 3, 5, 6, 7):
        expected = places[1][1] + slope * (places[number][0] - places[1][0])
        assert places[number][1] == pytest.approx(expected, abs=0.2)
    assert places[9][1] < places[7][1]
    sizeless = tuple(replace(entry, params=None) for entry in contest.entries)
    assert draw_result_by_size(replace(contest, entries=sizeless)) == ""


def test_the_ring_of_the_score_chart_is_around_the_winner():
    rows = make_summary().ranking

    def find_ring(winner: str | None) -> tuple[str, str]:
        svg = draw_size_scatter(rows, lambda row: row.params, "parameters", winner=winner)
        (ring,) = [c for c in find_circles(svg) if c.attrib.get("class") == "ring"]
        return ring.attrib["cx"], ring.attrib["cy"]

    svg = draw_size_scatter(rows, lambda row: row.params, "parameters")
    dots = {c.findtext("title", "").partition(".")[0]: c for c in find_circles(svg)}
    for place, winner in (("1", None), ("1", rows[0].arch), ("31", rows[30].arch)):
        assert find_ring(winner) == (dots[place].attrib["cx"], dots[place].attrib["cy"])


def make_run(folder: Path) -> RunFolder:
    return RunFolder(
        folder, SearchConfig("s", "naswot", budget=30), "naswot@1", True, "", search_key="key"
    )


def test_a_contest_is_read_as_it_was_saved(tmp_path):
    contest = make_contest(ARCHS, search_key="key").save(tmp_path)
    assert Contest.read(make_run(tmp_path)) == contest
    assert Contest.read(replace(make_run(tmp_path), search_key="other")) is None
    assert Contest.read(make_run(tmp_path / "elsewhere")) is None
    summary = contest.to_summary()
    assert summary["verdict"] == contest.verdict
    assert summary["sentences"] == list(contest.sentences)
    assert "correct" not in json.dumps(summary["entries"])


def change(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(facts: dict[str, Any]) -> None:
        inner: Any = facts
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = to

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        change("winner_number", to=99),
        change("winner", to="width=1"),
        change("winner", to=5),
        change("val_samples", to=0),
        change("val_samples", to="many"),
        change("entries", to=5),
        change("entries", 0, "rounds", 0, "accuracy", to="high"),
        change("entries", 0, "rounds", 0, "accuracy", to=7.5),
        change("entries", 0, "rounds", 0, "seconds", to=-1),
        change("entries", 0, "params", to="10k"),
        change("entries", 0, "selections", to=[5]),
        change("entries", 0, "colour", to="red"),
        change("entries", 1, "rounds", to=[]),
        lambda facts: facts.pop("tied"),
    ],
)
def test_a_damaged_contest_is_an_error_of_one_line(tmp_path, damage):
    make_contest(ARCHS, search_key="key").save(tmp_path)
    path = tmp_path / "contest.json"
    facts = json.loads(path.read_text())
    damage(facts)
    path.write_text(json.dumps(facts))
    with pytest.raises(UsageError, match=r"contest\.json cannot be read: ") as error:
        Contest.read(make_run(tmp_path))
    assert "\n" not in str(error.value)
