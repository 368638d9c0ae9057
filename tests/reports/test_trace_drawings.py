"""Drawings of a strategy's trace: tables of choices, and the map of predictions over two tuned numbers."""

import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from tests.reports.examples import make_summary
from untrained.reports.pages.choice_tables import make_choice_tables
from untrained.reports.pages.strategy_trace import make_trace_section
from untrained.reports.svg.prediction_map import draw_prediction_map
from untrained.runs import trace as _trace
from untrained.strategies.hnas import HNAS, HNASStep
from untrained.types import Arch

Cell = tuple[str, int, str]  # tag, ink in per cent, text
ALPHA = [
    ["1<-0", [["skip", 0.5], ["conv", -0.5], ["pool", 0.0]]],
    ["<b>", [["skip", 2.0], ["conv", None]]],
]


def read_shaded_cells(page: str) -> list[list[Cell]]:
    """Return the shaded cells, row by row."""
    pattern = r'<(mark|span) class="shade" style="--share:(\d+)%">([^<]*)</'
    rows = [re.findall(pattern, row) for row in page.split("<tr>")[2:]]
    return [[(tag, int(ink), text) for tag, ink, text in row] for row in rows]


# ------------------------------------------------------------------------------------------------ choices and options


def test_the_largest_number_of_a_choice_is_marked_and_darkest():
    first, second = read_shaded_cells(make_choice_tables(ALPHA))
    assert first == [("mark", 55, "0.500"), ("span", 0, "\u22120.500"), ("span", 28, "0.00")]
    assert second == [("span", 28, "2.00"), ("span", 0, "\u2013"), ("span", 0, "\u2013")]


def test_names_of_choices_and_options_are_escaped():
    page = make_choice_tables([["<b>", [["<i>", 1.0], ["a&b", 2.0]]]])
    assert [name for name in ("<b>", "<i>", "a&b") if name in page] == []
    assert [name for name in ("&lt;b&gt;", "&lt;i&gt;", "a&amp;b") if name not in page] == []


def test_a_recorded_decision_is_marked_even_if_it_is_not_the_largest():
    verdict = {
        "name": "2<-1",
        "without": [["skip", 7.0], ["conv", 3.0], ["none", None]],
        "outcome": "conv",
    }
    page = make_choice_tables([verdict])
    assert "2&lt;-1" in page
    assert ">without</th>" in page
    assert [tag for tag, *_ in read_shaded_cells(page)[0]] == ["span", "mark", "span"]
    assert "The selected option has a frame" in page


def test_close_numbers_have_enough_digits_to_differ():
    ((low, high),) = read_shaded_cells(
        make_choice_tables([["a", [["x", 1732.125], ["y", 1732.5]]]])
    )
    assert (low[2], high[2]) == ("1732.12", "1732.50")


@pytest.mark.parametrize("numbers", [(1.5, 1.5), (0.0, 0.0), (None, None)])
def test_none_of_equal_numbers_is_marked(numbers: tuple[float | None, ...]) -> None:
    ((first, second),) = read_shaded_cells(
        make_choice_tables([["a", [["x", numbers[0]], ["y", numbers[1]]]]])
    )
    assert first == second
    assert first[0] == "span"


def test_choices_without_a_common_option_are_separate_tables():
    edges = [{"name": "n3", "without": [["n3<-0", 1.0], ["n3<-1", 2.0]], "outcome": "n3<-1"}]
    operations = [
        {"name": f"n{i}<-0", "without": [["skip", 1.0], ["conv", 2.0]], "outcome": "skip"}
        for i in (1, 2)
    ]
    page = make_choice_tables(operations + edges)
    assert page.count("<table") == 2
    assert [text.count("<tr>") for text in page.split("<table")[1:]] == [3, 2]
    assert "The selected option has a frame, and for a node the removed edge." in page
    assert "The removed edge has a frame." in make_choice_tables(edges)
    assert "The selected option has a frame." in make_choice_tables(operations)


def test_choices_after_the_twentieth_are_counted():
    many = [[f"c{i}", [["x", 0.0], ["y", 1.0]]] for i in range(23)]
    assert make_choice_tables(many).count("<tr>") == 21
    assert "3 more choices are not shown." in make_choice_tables(many)
    assert "not shown" not in make_choice_tables(many[:20])


@pytest.mark.parametrize(
    "other", [None, 1.0, "a", [], [1.0], ["a"], [["a", 1.0]], [["a", []]], [["a", [["x", "y"]]]], [{"t": 1.0}],
              [{"name": "a", "without": []}], [[1.0, 2.0]], [*ALPHA, 3.0]]
)  # fmt: skip
def test_values_of_another_form_are_not_drawn(other: Any) -> None:
    assert make_choice_tables(other) == ""
    assert "shade" not in make_trace_section(make_summary(trace=({"best": other},)))


def test_the_step_of_the_best_is_drawn_or_the_last_step():
    def make_step(arch: str | None, top: str) -> dict[str, Any]:
        return {
            "arch": arch,
            "alpha": [["c", [["x", float(top == "x")], ["y", float(top == "y")]]]],
        }

    best = make_summary().best
    section = make_trace_section(
        make_summary(trace=(make_step(best, "x"), make_step("other", "y")))
    )
    assert "<h3>Step 1: alpha</h3>" in section
    section_without_best = make_trace_section(
        make_summary(trace=(make_step("one", "x"), make_step("two", "y"), {"arch": None}))
    )
    assert "<h3>Step 2: alpha</h3>" in section_without_best
    assert "<h3>Step 1: alpha</h3>" in make_trace_section(
        make_summary(trace=(make_step("one", "x"),), ranking=())
    )
    assert section_without_best.index("<h3>") < section_without_best.index("<details>")


# --------------------------------------------------------------------------------------------------- map of predictions

AXES = {
    "x_axis": {"name": "nu <up>", "low": 0.0, "high": 5000.0, "log": False},
    "y_axis": {"name": "mu", "low": 1e-4, "high": 1.0, "log": True},
}
CORNERS = [
    [0.0, 0.0],
    [0.0, 0.5],
    [0.0, 1.0],
    [0.5, 0.0],
    [0.5, 0.5],
    [0.5, 1.0],
    [1.0, 0.0],
    [1.0, 0.5],
    [1.0, 1.0],
]


def make_prediction(mean: list[float], **axes: Any) -> dict[str, Any]:
    return {**AXES, **axes, "points": CORNERS, "mean": mean, "std": [0.25] * 9}


def make_evaluation(point: tuple[float, float], value: float | None) -> dict[str, Any]:
    return {"point": list(point), "mu": 0.01, "nu": 400.0, "arch": "<a>", "value": value}


def read_map_cells(page: str) -> list[tuple[float, float, float, float, int]]:
    """Return x, y, width, height and ink of the cells of the map, without the legend."""
    (group,) = re.findall(r'<g class="surface">(.*?)</g>', page)
    pattern = r'x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" style="--share:(\d+)%"'
    return [(*map(float, match[:4]), int(match[4])) for match in re.findall(pattern, group)]  # type: ignore[misc]


def read_dots(page: str) -> list[tuple[str, float, float, str]]:
    pattern = r'<circle class="evaluation ?(\w*)" cx="([\d.]+)" cy="([\d.]+)" r="\d"><title>([^<]*)</title>'
    return [
        (kind, float(x), float(y), unescape(title))
        for kind, x, y, title in re.findall(pattern, page)
    ]


def test_cells_cover_the_map_and_darker_is_higher():
    drawn = read_map_cells(
        draw_prediction_map(make_prediction([float(i) for i in range(9)]), (), "accuracy")
    )
    assert [ink for *_, ink in drawn] == [round(6 + 94 * i / 8) for i in range(9)]
    left = drawn[0][0]
    right = max(x + w for x, _, w, *_ in drawn)
    top = min(y for _, y, *_ in drawn)
    bottom = max(y + h for _, y, _, h, _ in drawn)
    whole = right - left
    assert whole == pytest.approx(bottom - top, abs=0.2)
    assert sum(w * h for _, _, w, h, _ in drawn) == pytest.approx(whole**2, rel=0.01)
    assert drawn[0][1] > drawn[2][1], "up is up"
    assert drawn[8][0] > drawn[2][0], "along is to the right"
    assert drawn[4][2] == pytest.approx(2 * drawn[0][2], abs=0.5), (
        "a cell at a side is cut off there"
    )


def test_evaluations_are_drawn_at_their_points_and_the_best_on_top():
    trace = (
        make_evaluation((0.0, 0.0), 91.5),
        make_evaluation((0.5, 0.5), 93.25),
        make_evaluation((1.0, 1.0), None),
    )
    page = draw_prediction_map(make_prediction([float(i) for i in range(9)]), trace, "accuracy")
    drawn = read_dots(page)
    corners = read_map_cells(page)
    assert [kind for kind, *_ in drawn] == ["", "failed", "top"]
    assert [title for *_, title in drawn] == [
        "Step 1: mu 0.01000, nu 400.0, value 91.50",
        "Step 3: mu 0.01000, nu 400.0, value failed",
        "Step 2: mu 0.01000, nu 400.0, value 93.25, the best",
    ]
    (_, x, y, _), (_, far, high, _), (_, middle, *_) = drawn
    assert (x, high) == (corners[0][0], corners[2][1])
    assert (far - middle, far - x) == pytest.approx((170, 340), abs=0.1)
    assert y - high == pytest.approx(340, abs=0.1)
    assert "3 evaluations" in page


def test_axes_are_named_and_the_legend_goes_from_lowest_to_highest():
    page = draw_prediction_map(make_prediction([80.0 + i for i in range(9)]), (), "<accuracy>")
    assert "nu &lt;up&gt;" in page
    assert ">mu<" in page
    assert [name for name in ("<up>", "<accuracy>") if name in page] == []
    (legend,) = re.findall(r'<g class="surface legend">(.*?)</g>', page)
    assert re.findall(">([^<]+)</text>", legend) == ["80.00", "88.00"]
    inks = [int(ink) for ink in re.findall(r"share:(\d+)%", legend)]
    assert (len(inks), inks[0], inks[-1], inks == sorted(inks)) == (11, 6, 100, True)
    ticks = re.findall(r'class="(?:mid tick|end)"[^>]*>([^<]+)<', page)
    assert {"5000", "0"} <= set(ticks)
    assert len(ticks) >= 8


def test_a_constant_prediction_has_one_shade():
    page = draw_prediction_map(
        make_prediction([3.0] * 9), (make_evaluation((0.5, 0.5), 3.0),), "accuracy"
    )
    assert {ink for *_, ink in read_map_cells(page)} == {53}
    (legend,) = re.findall(r'<g class="surface legend">(.*?)</g>', page)
    assert (legend.count("<rect"), re.findall(">([^<]+)</text>", legend)) == (1, ["3.000"])


def test_a_constant_axis_has_no_ticks():
    page = draw_prediction_map(
        make_prediction([3.0] * 9, y_axis={"name": "mu", "low": 0.1, "high": 0.1, "log": True}),
        (),
        "accuracy",
    )
    assert 'class="end"' not in page


def test_without_a_prediction_there_is_no_map():
    trace = (make_evaluation((0.0, 0.5), 91.5),)
    assert "<figure>" not in make_trace_section(make_summary(trace=trace))
    section = make_trace_section(make_summary(trace=trace, prediction=make_prediction([1.0] * 9)))
    assert section.index("<figure>") < section.index("<details>")
    assert "Prediction of dextr at the end" in section
    section_if_lower_is_better = make_trace_section(
        make_summary(trace=trace, prediction=make_prediction([1.0] * 9), higher_is_better=False)
    )
    assert "Prediction of minus dextr at the end" in section_if_lower_is_better


# ------------------------------------------------------------------------------------------------------ from the folder


def make_hnas(**plan: Any) -> HNAS:
    return HNAS(None, np.random.default_rng(0), lambda _: None, score_pool=lambda _: (), **plan)  # type: ignore[arg-type]


def test_the_prediction_of_a_run_folder_is_drawn(tmp_path):
    strategy = make_hnas()
    _trace.write_trace(tmp_path, strategy)
    assert list(tmp_path.iterdir()) == [], "nothing was evaluated yet"
    assert (_trace.read_trace(tmp_path), _trace.read_prediction(tmp_path)) == ([], None)
    strategy.trace.append(HNASStep((0.25, 0.5), 0.01, 400.0, Arch("s", (("c", "1"),)), 0.75))
    _trace.write_trace(tmp_path, strategy)
    prediction = _trace.read_prediction(tmp_path)
    assert prediction is not None
    assert set(prediction["mean"]) == {0.75}, "with one value the prediction is constant"
    assert prediction["x_axis"] == {
        "name": "nu: quantile of trace^2 in the pool",
        "low": 0.0,
        "high": 1.0,
        "log": False,
    }
    assert (
        prediction["y_axis"]["low"],
        prediction["y_axis"]["high"],
        prediction["y_axis"]["log"],
    ) == (
        0.01,
        10.0,
        True,
    )
    page = make_trace_section(
        make_summary(trace=tuple(_trace.read_trace(tmp_path)), prediction=prediction)
    )
    assert len(read_map_cells(page)) == 625
    assert [(kind, title) for kind, _, _, title in read_dots(page)] == [
        ("top", "Step 1: mu 0.01000, nu 400.0, value 0.7500, the best")
    ]
    (tmp_path / "prediction.json").write_text("{")
    assert _trace.read_prediction(tmp_path) is None


def test_a_preset_with_a_scale_has_plain_axes(tmp_path):
    strategy = make_hnas(preset="nasbench201")
    strategy.trace.append(HNASStep((0.0, 0.5), 0.01, 0.0, Arch("s", (("c", "1"),)), 0.75))
    _trace.write_trace(tmp_path, strategy)
    prediction = json.loads((tmp_path / "prediction.json").read_text())
    assert prediction["x_axis"] == {"name": "nu", "low": 0.0, "high": 5000.0, "log": False}
    assert prediction["y_axis"] == {"name": "mu", "low": 1e-4, "high": 1.0, "log": True}


def test_a_strategy_without_a_trace_writes_no_file(tmp_path):
    _trace.write_trace(tmp_path, object())
    assert list(tmp_path.iterdir()) == []
