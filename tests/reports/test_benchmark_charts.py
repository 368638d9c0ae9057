"""Charts of a benchmark: every mark is at its value. The page is tested in test_benchmark_page.py."""

import re
from collections import Counter
from itertools import combinations, pairwise
from math import log10
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.reports.examples import both_widths, boxes_overlap
from untrained.reports.svg.bars import Bar, draw_bars
from untrained.reports.svg.heatmap import draw_heatmap
from untrained.reports.svg.plot import MAX_POINTS, thin_out
from untrained.reports.svg.scatter import ScatterPoint, choose_scale, draw_scatter
from untrained.reports.svg.strips import Strip, draw_strips, locate_best_tenth
from untrained.reports.svg.tradeoff import CostPoint, draw_tradeoff, is_on_front

Svg = ElementTree.Element
EVIL = '<img src="x">&'


def parse_svg(svg: str) -> Svg:
    assert "nan" not in re.sub(r"<title>.*?</title>", "", svg)
    return ElementTree.fromstring(svg)


def find_by_class(svg: Svg, name: str) -> list[Svg]:
    return [element for element in svg.iter() if name in element.get("class", "").split()]


def parse_number(text: str | None) -> float:
    return float((text or "").replace("\u2212", "-"))


def read_ticks(svg: Svg) -> list[tuple[float, float]]:
    """Return (value, pixel) of the ticks along the bottom."""
    return [
        (parse_number(tick.text), float(tick.attrib["x"])) for tick in find_by_class(svg, "tick")
    ]


def find_pixel(ticks: list[tuple[float, float]], value: float) -> float:
    """Return the pixel of a value on a linear axis through the outermost ticks."""
    (a, x) = min(ticks)
    (b, y) = max(ticks)
    return x + (value - a) / (b - a) * (y - x)


def read_dots(path: Svg) -> list[tuple[float, float]]:
    return [
        (float(x), float(y)) for x, y in re.findall(r"M([-\d.]+),([-\d.]+)h0", path.attrib["d"])
    ]


# Bars


@both_widths
def test_bars_and_intervals_are_at_their_values(room: float) -> None:
    rows = [
        Bar("a", 0.9, 0.85, 0.93),
        Bar("b", 0.4, kind="baseline"),
        Bar("c", -0.25, -0.4, -0.1, "other"),
    ]
    svg = parse_svg(draw_bars(rows, room, reference=0.4))
    ticks = read_ticks(svg)
    assert {0.0} < {value for value, _ in ticks}
    for row, group in zip(rows, svg.findall("g"), strict=True):
        (rect,) = find_by_class(group, "bar")
        left, right = sorted((find_pixel(ticks, 0.0), find_pixel(ticks, row.value)))
        assert float(rect.attrib["x"]) == pytest.approx(left, abs=0.15)
        assert float(rect.attrib["width"]) == pytest.approx(right - left, abs=0.15)
        assert group.attrib["class"] == f"k-{row.kind}"
        whiskers = [
            re.findall(r"[MH]([-\d.]+)", path.attrib["d"])
            for path in find_by_class(group, "whisker")
        ]
        assert len(whiskers) == (row.low is not None)
        for ends in whiskers:
            expected = [find_pixel(ticks, end) for end in (row.low, row.high) if end is not None]
            assert [float(end) for end in ends] == pytest.approx(expected, abs=0.15)
    (line,) = find_by_class(svg, "reference")
    assert float(re.findall(r"M([-\d.]+)", line.attrib["d"])[0]) == pytest.approx(
        find_pixel(ticks, 0.4), abs=0.15
    )
    assert [text.text for text in find_by_class(svg, "title")] == ["0.900", "0.400", "\u22120.250"]


@both_widths
def test_a_bar_may_have_any_name_and_the_value_zero(room: float) -> None:
    svg = parse_svg(draw_bars([Bar(EVIL + "x" * 200, 0.0)], room))
    (name,) = find_by_class(svg, "name")
    assert (name.text or "").startswith(EVIL)
    assert (name.text or "").endswith("\u2026")
    assert svg.findtext("g/title") == f"{EVIL}{'x' * 200}: 0.000"
    assert float(svg.attrib["viewBox"].split()[2]) <= room + 12


# Scatter plots


def make_points(count: int, seed: int = 0) -> list[ScatterPoint]:
    rng = np.random.default_rng(seed)
    return [
        ScatterPoint(float(s), float(80 + t), f"arch {i}")
        for i, (s, t) in enumerate(rng.standard_normal((count, 2)))
    ]


@pytest.mark.parametrize("higher", [True, False])
def test_a_scatter_plot_has_every_dot_in_its_place(higher: bool) -> None:
    points = make_points(100)
    svg = parse_svg(draw_scatter(points, "dextr", "0.91", higher_is_better=higher))
    dim, top = (read_dots(path) for path in find_by_class(svg, "points"))
    assert (len(dim), len(top)) == (90, 10)
    ticks = read_ticks(svg)
    by_truth = sorted(points, key=lambda dot: -dot.truth)
    assert sorted(x for x, _ in top) == pytest.approx(
        sorted(find_pixel(ticks, dot.score) for dot in by_truth[:10]), abs=0.15
    )
    assert max(y for _, y in top) < min(y for _, y in dim), "the best tenth is above the others"
    (ring,) = find_by_class(svg, "ring")
    best = (max if higher else min)(points, key=lambda dot: dot.score)
    assert float(ring.attrib["cx"]) == max(x for x, _ in dim + top), (
        "the better score is on the right"
    )
    assert ring.findtext("title", "").startswith(f"{best.arch}\nbest score")


@pytest.mark.parametrize(
    "transform", [lambda x: x, lambda x: np.exp(9 * x), lambda x: np.sign(x) * np.exp(9 * abs(x))]
)
def test_marginal_histograms_count_all_dots(transform: object) -> None:
    points = [ScatterPoint(float(transform(dot.score)), dot.truth, "") for dot in make_points(300)]  # type: ignore[operator]
    svg = parse_svg(draw_scatter(points, "a", ""))
    dots = [place for path in find_by_class(svg, "points") for place in read_dots(path)]
    (margin,) = find_by_class(svg, "margin")
    bars = [[float(rect.attrib[k]) for k in ("x", "y", "width", "height")] for rect in margin]
    counts = [int(rect.findtext("title", "")) for rect in margin]
    right = max(x for x, _ in dots)
    above = [i for i, (x, *_) in enumerate(bars) if x < right]
    if "rank by score" in [text.text for text in svg.iter("text")]:
        assert above == [], "ranks are uniform and need no histogram"
    groups = [(above, 0), ([i for i in range(len(bars)) if i not in above], 1)]
    for group, axis in groups[not above :]:
        assert sum(counts[i] for i in group) == 300
        longest = max(bars[i][3 - axis] for i in group)
        for i in group:
            start = bars[i][axis]
            length = bars[i][axis + 2]
            end = start + length + 0.5
            # A dot on the border of a bin may belong to either bin.
            least = sum(start + 0.2 < place[axis] < end - 0.2 for place in dots)
            most = sum(start - 0.2 < place[axis] < end + 0.2 for place in dots)
            assert least <= counts[i] <= most
            assert bars[i][3 - axis] / longest == pytest.approx(
                counts[i] / max(counts[j] for j in group), abs=0.1 / longest + 0.003
            )


def test_the_scale_is_linear_log_or_rank_depending_on_the_values() -> None:
    even = np.linspace(1, 2, 100)
    assert choose_scale(even).kind == "linear"
    assert choose_scale(10 ** (50 * even)).kind == "log"
    assert choose_scale(np.append(-(10 ** (50 * even)), 10 ** (50 * even))).kind == "rank"
    ranked = choose_scale([-1e9, 0.0, *range(50), 1e9])
    assert ranked.values[:3] == [53.0, 51.5, 51.5]
    assert ranked.values[-1] == 1.0
    assert ranked.axis.position(1.0) > ranked.axis.position(53.0), "the first rank is on the right"


@pytest.mark.parametrize(
    ("values", "title"),
    [([1.0, 2.0, 3.0], "score"), ([10.0**i for i in range(30)], "score (log scale)"),
     ([-1e12, *range(1, 29), 1e12], "rank by score"), ([5.0, 5.0], "score"), ([0.0, 0.0], "score")],
)  # fmt: skip
def test_a_scatter_plot_names_its_axis_and_can_draw_any_scores(
    values: list[float], title: str
) -> None:
    svg = parse_svg(
        draw_scatter(
            [ScatterPoint(value, float(i), EVIL) for i, value in enumerate(values)], EVIL, "\u2013"
        )
    )
    assert title in [text.text for text in svg.iter("text")]
    assert sum(len(read_dots(path)) for path in find_by_class(svg, "points")) == len(values)
    flat = parse_svg(
        draw_scatter([ScatterPoint(value, 10.0, "") for value in values], "constant truth", "")
    )
    assert sum(len(read_dots(path)) for path in find_by_class(flat, "points")) == len(values)


def test_ticks_of_truth_by_rank_show_the_values() -> None:
    """Of 41 truths the ticks are the 1st, 11th, 21st, 31st and 41st best."""
    truths = [-1e9, *range(39), 1e9]
    svg = parse_svg(
        draw_scatter([ScatterPoint(1.0 * i, truth, "") for i, truth in enumerate(truths)], "a", "")
    )
    assert "score, ground truth by rank" in [text.text for text in svg.iter("text")]
    ticks = [text for text in find_by_class(svg, "end") if "title" not in text.attrib["class"]]
    assert [text.text for text in ticks] == ["1.00e9", "29.0", "19.0", "9.00", "\u22121.00e9"]
    heights = sorted(y for path in find_by_class(svg, "points") for _, y in read_dots(path))
    assert [float(text.attrib["y"]) - 4 for text in ticks] == pytest.approx(
        [heights[i] for i in (0, 10, 20, 30, 40)]
    )


def test_many_dots_are_thinned_out_evenly_and_reproducibly() -> None:
    assert thin_out(range(MAX_POINTS)) == list(range(MAX_POINTS))
    few = thin_out(range(1000))
    assert len(few) == MAX_POINTS
    assert {b - a for a, b in pairwise(few)} == {2, 3}
    many = make_points(1000)
    assert draw_scatter(many, "a", "") == draw_scatter(many, "a", "")
    svg = parse_svg(draw_scatter(many, "a", ""))
    assert sum(len(read_dots(path)) for path in find_by_class(svg, "points")) == MAX_POINTS
    assert (
        sum(int(rect.findtext("title", "")) for rect in find_by_class(svg, "margin")[0]) == 2 * 1000
    )


# The best tenth


def test_the_best_tenth_of_twenty_equals_the_one_computed_by_hand() -> None:
    """The two best by truth have the scores 20 (the best) and 5 (the fifth lowest)."""
    truth = np.array([*range(18), 30.0, 40.0])
    scores = np.array([1.0, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 5, 20])
    tenth = locate_best_tenth(scores, truth)
    assert tenth.places == (((20 - 0.5) / 20, 1.0), ((5 - 0.5) / 20, 0.0))
    assert tenth.hits == 1
    assert tenth.correlation is None, "two points have no rank correlation"


def test_ties_count_with_their_probability() -> None:
    """Of 30 equal scores any 3 may be the best, so each of the three best is among them with probability 3 / 30."""
    assert locate_best_tenth(np.ones(30), np.arange(30.0)).hits == pytest.approx(3 * 3 / 30)


@both_widths
def test_strips_place_dots_by_rank(room: float) -> None:
    scores, truth = np.random.default_rng(1).standard_normal((2, 50))
    rows = [
        Strip("perfect", locate_best_tenth(truth, truth)),
        Strip(EVIL, locate_best_tenth(scores, truth), "baseline"),
    ]
    svg = parse_svg(draw_strips(rows, room))
    for row, group in zip(rows, svg.findall("g"), strict=True):
        (track,) = find_by_class(group, "track")
        (zone,) = find_by_class(group, "zone")
        (path,) = find_by_class(group, "points")
        left = float(track.attrib["x"])
        width = float(track.attrib["width"])
        expected = [left + share * width for share, _ in row.tenth.places]
        assert [x for x, _ in read_dots(path)] == pytest.approx(expected, abs=0.15)
        inside = sum(x >= float(zone.attrib["x"]) for x, _ in read_dots(path))
        assert find_by_class(group, "title")[0].text == f"{inside} of 5"
        top, height = (float(track.attrib[k]) for k in ("y", "height"))
        assert all(top < y < top + height for _, y in read_dots(path))
    assert find_by_class(svg, "title")[0].text == "5 of 5"


# Heat maps


@both_widths
@pytest.mark.parametrize("count", [1, 4, 60])
def test_a_heat_map_has_a_cell_for_every_pair(count: int, room: float) -> None:
    table = [[-0.5 if (i + j) % 2 else 0.25 for j in range(count)] for i in range(count)]
    for i in range(count):
        table[i][i] = 1.0
    svg = parse_svg(draw_heatmap([f"p{i}" for i in range(count)], table, room, "heat map"))
    rows = svg.findall("g[@transform]")
    cells = [list(row.iter("rect")) for row in rows]
    assert [len(row) for row in cells] == [count] * count
    for i, row in enumerate(cells):
        for j, rect in enumerate(row):
            value = table[i][j]
            assert rect.attrib["class"] == ("minus" if value < 0 else "plus")
            assert float(rect.attrib["fill-opacity"]) == abs(value)
            assert rect.findtext("title") == f"p{i}, p{j}: {value:.2f}".replace("-", "\u2212")
    assert len(find_by_class(svg, "figure")) == (count**2 if count < 60 else 0)
    lefts = [float(rect.attrib["x"]) for rect in cells[0]]
    tops = [float(re.findall(r"0 ([\d.]+)", row.attrib["transform"])[0]) for row in rows]
    assert lefts == pytest.approx(tops, abs=0.1), "the diagonal is one"


def test_a_pair_without_correlation_is_an_empty_cell() -> None:
    svg = parse_svg(draw_heatmap(["a", EVIL], [[1.0, None], [None, None]], 350, "heat map"))
    assert len(find_by_class(svg, "empty")) == 3
    assert f"a, {EVIL}: not defined" in [title.text for title in svg.iter("title")]
    assert [text.text for text in find_by_class(svg, "figure")] == ["1.00"]


def test_the_legend_goes_from_minus_one_to_one() -> None:
    (legend,) = find_by_class(parse_svg(draw_heatmap(["a"], [[1.0]], 350, "heat map")), "legend")
    inks = [
        (rect.attrib["class"], float(rect.attrib["fill-opacity"])) for rect in legend.iter("rect")
    ]
    assert inks[0] == ("minus", 1.0)
    assert inks[-1] == ("plus", 1.0)
    assert Counter(name for name, _ in inks) == {"minus": 10, "plus": 11}


# Cost

POINTS = [
    CostPoint("params", 0, 0.7, "baseline"), CostPoint("random", 0, 0.0, "baseline"), CostPoint("naswot", 1, 0.77),
    CostPoint("synflow", 3, 0.75), CostPoint("meco", 3, 0.91), CostPoint("grasp", 9, -0.5), CostPoint(EVIL, 100, 0.92),
]  # fmt: skip


def test_a_proxy_is_on_the_front_if_no_cheaper_one_is_as_good() -> None:
    assert [offer.name for offer in POINTS if is_on_front(offer, POINTS)] == [
        "params",
        "naswot",
        "meco",
        EVIL,
    ]
    twins = [CostPoint("a", 1, 0.5), CostPoint("b", 1, 0.5), CostPoint("c", 2, 0.5)]
    assert [offer.name for offer in twins if is_on_front(offer, twins)] == ["a", "b"]


@both_widths
def test_costs_are_on_a_log_axis_and_zero_is_left_of_it(room: float) -> None:
    svg = parse_svg(draw_tradeoff(POINTS, room, "cost", "Spearman"))
    dots = [[float(dot.attrib[k]) for k in ("cx", "cy")] for dot in find_by_class(svg, "item")]
    one = dots[2][0]
    hundred = dots[6][0]
    for offer, (x, _) in zip(POINTS[2:], dots[2:], strict=True):
        assert x == pytest.approx(one + log10(offer.cost) / 2 * (hundred - one), abs=0.15)
    assert dots[0][0] == dots[1][0] < one - 10
    high = dots[6][1]
    low = dots[5][1]
    for offer, (_, y) in zip(POINTS, dots, strict=True):
        assert y == pytest.approx(low + (offer.value + 0.5) / 1.42 * (high - low), abs=0.15)
    assert next(x for value, x in read_ticks(svg) if value == 0) == pytest.approx(
        dots[0][0], abs=0.1
    )
    assert {"params", "naswot", "meco", EVIL} <= {text.text for text in find_by_class(svg, "name")}
    front = re.findall(r"[ML]([-\d.]+)", find_by_class(svg, "front")[0].attrib["d"])
    assert [float(x) for x in front] == [dots[i][0] for i in (0, 2, 4, 6)]


def test_optional_names_do_not_overlap() -> None:
    crowd = [
        CostPoint("best", 1, 0.9),
        *(CostPoint(f"proxy {i}", 3, 0.5 + 0.001 * i) for i in range(30)),
    ]
    svg = parse_svg(draw_tradeoff(crowd, 350, "cost", "Spearman"))
    names = [(float(text.attrib["x"]), float(text.attrib["y"]) - 11, 7.0 * len(text.text or ""), 14.0)
             for text in find_by_class(svg, "name")]  # fmt: skip
    assert 2 <= len(names) < 10
    assert not [pair for pair in combinations(names, 2) if boxes_overlap(*pair)]


@pytest.mark.parametrize("costs", [(0, 0), (3, 3), (0, 5), (1, 1e6)])
def test_any_costs_can_be_drawn(costs: tuple[float, float]) -> None:
    svg = parse_svg(
        draw_tradeoff(
            [CostPoint("a", costs[0], 0.5), CostPoint("b", costs[1], 0.5)], 350, "cost", "Spearman"
        )
    )
    assert len(find_by_class(svg, "item")) == 2
    assert all(0 < float(dot.attrib["cx"]) < 350 for dot in find_by_class(svg, "item"))
