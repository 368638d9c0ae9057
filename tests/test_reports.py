"""The report room: numbers, axes, drawings and the page, read as text and in Chromium."""

import re
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
import scipy.stats

from untrained import _numbers as _units
from untrained.reports._axis import axis, log_ticks, nice_ticks
from untrained.reports._evidence import spearman
from untrained.reports._layout import separate
from untrained.reports.charts import MOST_POINTS, histogram, scatter
from untrained.reports.drawing import draw, family
from untrained.reports.page import headline, render
from untrained.reports.summary import Failed, Ranked, Summary
from untrained.spaces._sketch import Cell

CONV3, CONV1, SKIP, NONE, POOL = "nor_conv_3x3", "nor_conv_1x1", "skip_connect", "none", "avg_pool_3x3"
PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))


def nb201(*ops: str) -> Cell:
    return Cell(("in", "1", "2", "out"), tuple((a, b, op) for (a, b), op in zip(PAIRS, ops, strict=True)))


def nb101(ops: str, wires: str) -> Cell:
    names = {"i": "input", "o": "output", "3": "conv3x3-bn-relu", "1": "conv1x1-bn-relu", "m": "maxpool3x3"}
    edges = tuple((int(wire[0]), int(wire[1]), "") for wire in wires.split())
    return Cell(tuple(names[op] for op in ops), edges)


CELLS = {
    "mixed": nb201(CONV3, SKIP, CONV1, NONE, POOL, CONV3),
    "all conv": nb201(*[CONV3] * 6),
    "all skip": nb201(*[SKIP] * 6),
    "many none": nb201(NONE, NONE, NONE, CONV3, NONE, NONE),
    "101 branches": nb101("i31m33o", "01 02 04 05 16 23 36 46 56"),
    "101 chain": nb101("i31m33o", "01 12 23 34 45 56 02 14 06"),
    "101 inception": nb101("i11m33o", "01 02 03 04 16 25 36 45 56"),
}


def arch(random: Random) -> str:
    ops = [random.choice((CONV3, CONV1, SKIP, NONE, POOL)) for _ in range(6)]
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


def summary(count: int = 94, failures: int = 6, **changes: Any) -> Summary:
    """A realistic run: scores fall with rank, sizes spread over more than a decade."""
    random = Random(0)
    sizes = [random.uniform(0.07, 1.5) for _ in range(count)]
    ranking = tuple(
        Ranked(i + 1, arch(random), 3.91 - 0.02 * i, None, 1e6 * size, 1.5e8 * size) for i, size in enumerate(sizes)
    )
    kinds = ("disconnected", "disconnected", "nan")
    fields: dict[str, Any] = {
        "title": "nasbench201 by dextr",
        "command": "untrained search --space nasbench201 --proxy dextr --run runs/a",
        "space": "nasbench201",
        "space_size": 15625,
        "proxy": "dextr",
        "proxy_about": "Condition numbers of feature maps and curvature of the output; Dextr.",
        "higher_is_better": True,
        "ranking": ranking,
        "failed": tuple(Failed(arch(random), kinds[i % 3], f"detail {i}") for i in range(failures)),
        "drawing": CELLS["mixed"],
        "settings": {"strategy": "random", "seed": "7"},
        "versions": {"torch": "2.13.0"},
        "cost": {"build": 3.1, "measure": 48.7, "total": 72.0},
        "made_on": "31 January 2025, 14:05",
    }
    return Summary(**(fields | changes))


def body_of(page: str) -> str:
    """The body without style, script and places to break a line; a space before each tag."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page[page.index("<body>") :], flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<wbr>", "", body).replace("\u00a0", " ").replace("<", " <")).strip()


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (732, "732"),
        (73_306, "73.3 k"),
        (999_900, "1.00 M"),
        (1_073_466, "1.07 M"),
        (153.6e6, "154 M"),
    ],
)
def test_quantities_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert _units.quantity(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.0042, "4.2 ms"), (0.12, "0.12 s"), (48.7, "49 s"), (59.7, "1 min"), (72, "1 min 12 s"),
        (7530, "2 h 5 min"), (97_200, "1 d 3 h"),
    ],
)  # fmt: skip
def test_durations_are_told_in_two_units(seconds: float, text: str) -> None:
    assert _units.duration(seconds) == text


def test_scores_of_a_column_line_up() -> None:
    text = _units.column([3.9124, 2.5, -0.25])
    assert [text(value) for value in (3.9124, 2.5, -0.25)] == ["3.912", "2.500", "\u22120.250"]
    assert _units.column([4e12, 3e9])(4e12) == "4.000e12"
    assert _units.column([])(0.0) == "0.000"


@pytest.mark.parametrize(
    ("values", "units", "labels"),
    [
        ((0, 500_000, 1e6, 1.5e6), True, ["0", "0.5M", "1M", "1.5M"]),
        ((1e5, 2e5, 5e5, 1e6), True, ["0.1M", "0.2M", "0.5M", "1M"]),
        ((5e7, 1e8), True, ["50M", "100M"]),
        ((1e2, 1e4, 1e6), True, ["100", "10k", "1M"]),
        ((3, 3.5, 4), False, ["3.0", "3.5", "4.0"]),
        ((-2, 0, 2), False, ["\u22122", "0", "2"]),
        ((0, 2e7), False, ["0", "2e7"]),
    ],
)
def test_tick_labels_share_unit_and_decimals(values: tuple[float, ...], units: bool, labels: list[str]) -> None:
    assert _units.ticks(values, units=units) == labels


# Axes


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0.0, 1.0, 5) == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert nice_ticks(1.7, 3.52, 5) == (2.0, 2.5, 3.0, 3.5)
    assert log_ticks(0.07e6, 1.5e6) == pytest.approx((1e5, 2e5, 5e5, 1e6))
    assert len(log_ticks(1e-20, 1e20)) <= 7


def test_an_axis_turns_logarithmic_beyond_a_decade() -> None:
    assert not axis([1.0, 9.0]).log
    assert axis([1.0, 11.0]).log
    assert not axis([0.0, 1e6]).log, "zero has no place on a log scale"
    scale = axis([10.0, 1000.0])
    assert scale.at(100.0) == pytest.approx(0.5)


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [-3.0], [1e-12, 1e-12], [1e30]])
def test_an_axis_of_equal_values_has_room_and_ticks(values: list[float]) -> None:
    scale = axis(values)
    assert scale.low < values[0] < scale.high
    assert scale.ticks
    assert 0 < scale.at(values[0]) < 1


# Charts


def test_the_histogram_counts_every_score_once() -> None:
    rows = summary().ranking
    titles = re.findall(r"<title>(.*?)</title>", histogram(rows))
    assert sum(int(re.findall(r": (\d+)", title)[0]) for title in titles) == 94
    assert sum(int(n) for title in titles for n in re.findall(r", (\d+) of them", title)) == 10


@pytest.mark.parametrize("scores", [[1.0], [2.0, 2.0, 2.0], [1e-3, 1.0, 1e9], [-1e6, 0.0, 3.0], [0.0]])
def test_the_histogram_bears_any_scores(scores: list[float]) -> None:
    rows = [Ranked(i + 1, "a", score) for i, score in enumerate(scores)]
    chart = ElementTree.fromstring(histogram(rows))
    bars = chart.findall(".//rect")
    assert bars
    assert all(float(bar.attrib["height"]) > 0 and float(bar.attrib["width"]) > 0 for bar in bars)
    assert "nan" not in histogram(rows)


def test_the_scatter_has_a_named_dot_for_each_row_and_marks_ten() -> None:
    rows = summary().ranking
    chart = ElementTree.fromstring(scatter(rows, lambda row: row.params, "parameters"))
    dots = [dot for dot in chart.iter("circle") if dot.find("title") is not None]
    assert len(dots) == 94
    assert len([dot for dot in dots if dot.get("class") == "top"]) == 10
    assert dots[-1].findtext("title", "").startswith(f"1. {rows[0].arch}\nscore 3.91"), "the best is drawn last, on top"
    assert "parameters (log scale)" in [text.text for text in chart.iter("text")]
    assert all(0 <= float(dot.attrib["cx"]) <= 440 and 0 <= float(dot.attrib["cy"]) <= 300 for dot in dots)


def test_the_scatter_leaves_out_rows_without_a_size() -> None:
    rows = [Ranked(1, "a", 3.0, params=None), Ranked(2, "b", 2.0, params=5.0)]
    assert scatter(rows, lambda row: row.params, "parameters").count("<title>") == 1
    assert scatter(rows, lambda row: row.flops, "multiply-adds") == ""


def test_very_many_points_are_thinned_and_the_page_says_so() -> None:
    page = render(summary(count=3 * MOST_POINTS))
    shown = page.count("</title></circle>") // 2
    assert MOST_POINTS <= shown <= MOST_POINTS + 10
    assert f"{shown:,} of 6,000 points are drawn." in page


# Drawings


def boxes(svg: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    rects = [group.find("rect") for group in svg.iter("g") if group.attrib["class"].split()[0] == kind]
    return [tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height")) for rect in rects if rect is not None]  # type: ignore[misc]


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return all(a[k] < b[k] + b[k + 2] and b[k] < a[k] + a[k + 2] for k in (0, 1))


def on_path(path: str) -> list[tuple[float, float]]:
    """Points on a path of cubic pieces."""
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    found = []
    for i in range(0, len(points) - 1, 3):
        for t in (k / 40 for k in range(41)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            found.append(tuple(sum(w * p[k] for w, p in zip(weights, points[i : i + 4], strict=True)) for k in (0, 1)))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("room", [880, 350])
@pytest.mark.parametrize("name", CELLS)
def test_a_drawing_has_every_edge_and_nothing_overlaps(name: str, room: float) -> None:
    cell = CELLS[name]
    svg = ElementTree.fromstring(draw(cell, room=room))
    wires = {group.attrib["data-edge"]: group for group in svg.iter("g") if "data-edge" in group.attrib}
    assert set(wires) == {f"{a}-{b}" for a, b, _ in cell.edges}
    texts = [text.text or "" for text in svg.iter("text")]
    assert sorted(texts) == sorted([*cell.nodes, *(label for *_, label in cell.edges if label)])
    everything = boxes(svg, "node") + boxes(svg, "tag")
    assert len(everything) == len(texts)
    assert not [pair for pair in combinations(everything, 2) if overlap(*pair)]
    left, top, width, height = map(float, svg.attrib["viewBox"].split())
    assert all(x >= left and y >= top and x + w <= left + width and y + h <= top + height for x, y, w, h in everything)


@pytest.mark.parametrize("room", [880, 350])
@pytest.mark.parametrize("name", CELLS)
def test_wires_keep_clear_of_boxes_that_are_not_theirs(name: str, room: float) -> None:
    cell = CELLS[name]
    svg = ElementTree.fromstring(draw(cell, room=room))
    nodes, tags = boxes(svg, "node"), iter(boxes(svg, "tag"))
    labels = {f"{a}-{b}": next(tags) for a, b, label in cell.edges if label}
    for a, b, _ in cell.edges:
        path = svg.find(f".//g[@data-edge='{a}-{b}']/path")
        assert path is not None
        foreign = [box for n, box in enumerate(nodes) if n not in (a, b)]
        foreign += [box for edge, box in labels.items() if edge != f"{a}-{b}"]
        hit = [p for p in on_path(path.attrib["d"]) if any(overlap((*p, 0.0, 0.0), box) for box in foreign)]
        assert not hit, f"{a}-{b} runs over a box"


@pytest.mark.parametrize("seed", range(12))
def test_boxes_of_any_graph_keep_apart(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 7)
    labels = ["", CONV3, SKIP, "a_rather_long_operation"] if seed % 2 else [""]
    pairs = [pair for pair in combinations(range(count), 2) if random.random() < 0.5]
    cell = Cell(tuple(str(n) * n for n in range(count)), tuple((a, b, random.choice(labels)) for a, b in pairs))
    svg = ElementTree.fromstring(draw(cell, room=random.choice((350, 880))))
    everything = boxes(svg, "node") + boxes(svg, "tag")
    assert len(everything) == count + sum(bool(label) for *_, label in cell.edges)
    assert not [pair for pair in combinations(everything, 2) if overlap(*pair)]


def test_a_narrow_drawing_flows_down_and_a_wide_one_right() -> None:
    wide, narrow = (ElementTree.fromstring(draw(CELLS["mixed"], room=room)) for room in (880, 350))
    ends = [(boxes(svg, "node")[0], boxes(svg, "node")[-1]) for svg in (wide, narrow)]
    assert ends[0][0][0] < ends[0][1][0]
    assert ends[0][0][1] == ends[0][1][1]
    assert ends[1][0][1] < ends[1][1][1]
    assert float(narrow.attrib["viewBox"].split()[2]) < 400


def test_none_is_faint_and_colours_follow_operations() -> None:
    assert [family(op) for op in (CONV3, CONV1, SKIP, NONE, POOL)] == ["conv3", "conv1", "skip", "none", "avg"]
    assert [family(op) for op in ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")] == ["conv3", "conv1", "max"]
    assert [family(op) for op in ("sep_conv_5x5", "dil_conv_3x3", "input", "")] == ["sep", "dil", "plain", "plain"]
    drawing = draw(CELLS["mixed"])
    assert drawing.count('class="wire op-none"') == 1
    assert drawing.index("wire op-none") < drawing.index("wire op-conv3"), "faint wires lie underneath"
    assert re.search(r"\.wire\.op-none path \{[^}]*stroke-dasharray", render(summary()))


def test_drawings_are_deterministic_and_refuse_cycles() -> None:
    assert draw(CELLS["101 branches"]) == draw(CELLS["101 branches"])
    with pytest.raises(ValueError, match="acyclic"):
        draw(Cell(("a", "b"), ((0, 1, ""), (1, 0, ""))))


def test_separate_moves_no_more_than_needed() -> None:
    assert separate([0.0, 10.0], [1.0, 1.0], [4.0]) == [0.0, 10.0]
    assert separate([0.0, 0.0], [1.0, 1.0], [4.0]) == [-2.0, 2.0]
    assert separate([0.0, 0.0], [1.0, 3.0], [4.0]) == [-3.0, 1.0]


# The page as text


def test_the_page_tells_the_result_in_order() -> None:
    best = replace(summary().ranking[0], params=1.073e6, flops=153.6e6)
    run = summary(ranking=(best, *summary().ranking[1:]))
    assert headline(run) == "Best of 94: score 3.91, 1.07 M parameters, 154 M multiply-adds."
    seen = body_of(render(run))
    order = [
        headline(run), "Higher is better.", "Tried 100 of 15,625 architectures", "6 of them have no score",
        "The best architecture", "Ranking", "The other 44", "Scores", "Score and size", "Spearman rank correlation",
        "What failed", "Cost", "3.1 s", "49 s", "1 min 12 s", "0.72 s (100 tried)", "Settings", "seed", "torch",
        "To do it again", "untrained search",
    ]  # fmt: skip
    places = [seen.find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_page_asks_the_network_for_nothing() -> None:
    page = render(summary())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page
    assert re.findall(r'<link [^>]*href="([^"]*)"', page) == ["data:,"]


def test_every_string_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">&'
    row = Ranked(1, evil, 1.0, 0.1, 1.0, 1.0)
    page = render(
        summary(
            title=evil, command=evil, space=evil, proxy=evil, proxy_about=evil, made_on=evil,
            ranking=(row, replace(row, rank=2, score=0.5)), failed=(Failed(evil, evil, evil),),
            drawing=Cell((evil, evil), ((0, 1, evil),)), settings={evil: evil}, versions={evil: evil}, cost={evil: 1.0},
        )
    )  # fmt: skip
    assert "<img" not in page
    assert 'onerror="' not in page
    assert page.count("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;") >= 20


def test_a_run_without_a_score_says_so() -> None:
    page = render(summary(count=0, failures=3, drawing=None))
    seen = body_of(page)
    assert "No architecture has a score: 3 tried, 3 failed." in seen
    assert "There is nothing to rank." in seen
    assert "<svg" not in page
    assert "Nothing was scored." in body_of(render(summary(count=0, failures=0, cost={})))


def test_one_architecture_needs_no_distribution() -> None:
    page = render(summary(count=1, failures=0))
    assert "Best of 1: score 3.91" in page
    assert 'class="chart"' not in page
    assert 'class="cell"' in page
    assert "Nothing failed." in page


def test_a_lower_score_can_be_better() -> None:
    rows = tuple(Ranked(i + 1, f"a{i}", 1.0 + i, None, 1e5 * (i + 1)) for i in range(20))
    seen = body_of(render(summary(ranking=rows, higher_is_better=False)))
    assert "Lower is better." in seen
    assert "igher is better" not in seen
    assert "score (lower is better)" in seen
    assert "Best of 24" not in seen
    assert re.search(r"<dt>Best <\/dt> <dd>1\.00+ <\/dd>", seen)


def test_failures_are_counted_by_kind_with_their_first_example() -> None:
    seen = body_of(render(summary(failures=6)))
    rows = re.findall(r"<code>(disconnected|nan) </code> </td> <td class=\"num\">(\d+) </td>.*?<p>(detail \d)", seen)
    assert rows == [("disconnected", "4", "detail 0"), ("nan", "2", "detail 2")]


@pytest.mark.parametrize(
    ("size", "correlation", "verdict"),
    [
        (lambda i: 1e6 - 1e4 * i, "1.00", "little more than a ranking by size"),
        (lambda i: 1e6 + 1e4 * i, "\u22121.00", "little more than a ranking by size"),
        (lambda i: 1e6 + 1e4 * (i % 2), "0.", "Size alone does not explain this ranking"),
    ],
)
def test_the_correlation_with_size_is_told(size: Any, correlation: str, verdict: str) -> None:
    rows = tuple(Ranked(i + 1, f"a{i}", 50.0 - i, None, size(i)) for i in range(40))
    seen = body_of(render(summary(ranking=rows)))
    assert re.search(
        rf"correlation of the score: \u2212?{re.escape(correlation.lstrip(chr(0x2212)))}\d* with parameters", seen
    )
    assert verdict in seen
    assert "with multiply-adds" not in seen


@pytest.mark.parametrize("params", [None, 1e6])
def test_no_correlation_without_three_different_sizes(params: float | None) -> None:
    rows = tuple(Ranked(i + 1, f"a{i}", 5.0 - i, None, params) for i in range(4))
    seen = body_of(render(summary(ranking=rows)))
    assert "Spearman" not in seen
    assert ("Neither parameters nor multiply-adds were measured." in seen) == (params is None)


def test_missing_numbers_are_dashes_and_empty_columns_are_left_out() -> None:
    rows = (Ranked(1, "a", 2.0, 0.1, 1e6, margin=0.2), Ranked(2, "b", 1.0, None, None))
    page = render(summary(ranking=rows, seeds=3))
    assert re.findall(r'<th scope="col" class="[^"]*">([^<]*)</th>', page)[:5] == [
        "Rank",
        "Architecture",
        "Score",
        "\u00b1",
        "Params",
    ]
    assert page.count("\u2013</td>") == 2
    assert "means over 3 seeds" in page
    assert "FLOPs" not in page


def test_what_the_seeds_cannot_tell_from_the_best_is_marked() -> None:
    rows = [Ranked(1, "a", 2.0, 0.1, margin=0.2), Ranked(2, "b", 1.9, 0.3, margin=0.7, tied=True)]
    page = render(summary(ranking=(*rows, Ranked(3, "c", 1.0, 0.1, margin=0.2)), seeds=3))
    assert re.findall(r'<td class="num soft">(= \d|\d)</td>', page) == ["1", "= 2", "3"]
    assert "cannot tell from the best" in page


def test_an_interrupted_run_tells_how_to_go_on() -> None:
    early, whole = body_of(render(summary(stopped_early=True))), body_of(render(summary()))
    assert "Stopped early" in early
    assert "To go on" in early
    assert "Stopped early" not in whole


# The page in a browser


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    long = replace(summary().ranking[0], arch="x" * 400, spread=0.25)
    rows = (long, *summary().ranking[1:])
    file = tmp_path / "report.html"
    file.write_text(render(summary(ranking=rows, seeds=3, stopped_early=True)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert complaints == []
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    for box in ("html", ".rank", ".copy pre", ".drawing.wide", ".drawing.narrow"):
        beyond = "element => element.scrollWidth - element.clientWidth"
        assert page.locator(box).first.evaluate(beyond) <= 0, f"{box} is too wide"
    drawn = page.evaluate(
        """[...document.querySelectorAll("svg")].map(svg => [svg, svg.getBoundingClientRect()]).map(([svg, box]) =>
        [svg.getAttribute("class"), box.width, box.height, svg.querySelectorAll("circle, rect").length])
        .filter(row => row[1] > 0)"""
    )
    assert [kind for kind, *_ in drawn] == ["cell", "chart", "chart", "chart"], "one drawing of two is shown"
    assert all(w > 250 and h > 100 and marks >= 10 for _, w, h, marks in drawn)
    assert [marks for *_, marks in drawn][2:] == [95, 95]
    assert page.locator("button:visible").count() == 2
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["mixed", "101 chain"])
def test_labels_fit_their_boxes(browser: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(summary(drawing=CELLS[name])), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    slack = page.evaluate(
        """[...document.querySelectorAll(".wide .tag, .wide .node")].map(group => {
        const [box, text] = ["rect", "text"].map(tag => group.querySelector(tag).getBoundingClientRect());
        return Math.min(text.left - box.left, box.right - text.right, text.top - box.top, box.bottom - text.bottom);
        })"""
    )
    assert len(slack) == len(CELLS[name].nodes) + sum(bool(label) for *_, label in CELLS[name].edges)
    assert min(slack) > 1
    page.close()


@pytest.mark.browser
def test_tick_labels_do_not_overlap(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(summary()), encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(file.as_uri())
    rows = page.evaluate(
        """[...document.querySelectorAll(".chart")].map(chart => [...chart.querySelectorAll(".tick")].map(tick => {
        const box = tick.getBoundingClientRect(); return [box.left, box.right]; }))"""
    )
    assert all(len(ticks) >= 3 for ticks in rows)
    assert all(a[1] + 4 < b[0] for ticks in rows for a, b in pairwise(ticks))
    page.close()


def test_rank_correlation_is_scipys():
    xs, ys = [3.0, 1.0, 1.0, 5.0, 9.0, 2.0], [1.0, 4.0, 1.0, 5.0, 6.0, 6.0]
    assert spearman(xs, ys) == pytest.approx(float(scipy.stats.spearmanr(xs, ys).statistic), abs=1e-12)
