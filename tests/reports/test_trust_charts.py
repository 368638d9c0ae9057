"""Charts of proxies: every mark lies where its number says. What the page makes of them: test_trust_page.py."""

import re
from collections import Counter
from itertools import combinations, pairwise
from math import log10
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.reports.examples import overlap, rooms
from untrained.reports.svg.bars import Bar, draw_bars
from untrained.reports.svg.heatmap import draw_heatmap
from untrained.reports.svg.plot import MAX_POINTS, thin_out
from untrained.reports.svg.scatter import ScatterPoint, choose_scale, draw_scatter
from untrained.reports.svg.strips import Strip, draw_strips, locate_best_tenth
from untrained.reports.svg.tradeoff import CostPoint, draw_tradeoff, is_on_front

Svg = ElementTree.Element
EVIL = '<img src="x">&'


def parsed(svg: str) -> Svg:
    assert "nan" not in re.sub(r"<title>.*?</title>", "", svg)
    return ElementTree.fromstring(svg)


def kind(svg: Svg, name: str) -> list[Svg]:
    return [element for element in svg.iter() if name in element.get("class", "").split()]


def number(text: str | None) -> float:
    return float((text or "").replace("\u2212", "-"))


def across(svg: Svg) -> list[tuple[float, float]]:
    """(value, pixel) of the ticks along the bottom."""
    return [(number(tick.text), float(tick.attrib["x"])) for tick in kind(svg, "tick")]


def at(ticks: list[tuple[float, float]], value: float) -> float:
    """The pixel of a value, on a linear axis through the outermost ticks."""
    (a, x), (b, y) = min(ticks), max(ticks)
    return x + (value - a) / (b - a) * (y - x)


def places(path: Svg) -> list[tuple[float, float]]:
    return [
        (float(x), float(y)) for x, y in re.findall(r"M([-\d.]+),([-\d.]+)h0", path.attrib["d"])
    ]


# Bars


@rooms
def test_bars_and_intervals_lie_where_their_numbers_say(room: float) -> None:
    rows = [
        Bar("a", 0.9, 0.85, 0.93),
        Bar("b", 0.4, kind="baseline"),
        Bar("c", -0.25, -0.4, -0.1, "other"),
    ]
    svg = parsed(draw_bars(rows, room, reference=0.4))
    ticks = across(svg)
    assert {0.0} < {value for value, _ in ticks}
    for row, group in zip(rows, svg.findall("g"), strict=True):
        (rect,) = kind(group, "bar")
        left, right = sorted((at(ticks, 0.0), at(ticks, row.value)))
        assert float(rect.attrib["x"]) == pytest.approx(left, abs=0.15)
        assert float(rect.attrib["width"]) == pytest.approx(right - left, abs=0.15)
        assert group.attrib["class"] == f"k-{row.kind}"
        whiskers = [
            re.findall(r"[MH]([-\d.]+)", path.attrib["d"]) for path in kind(group, "whisker")
        ]
        assert len(whiskers) == (row.low is not None)
        for ends in whiskers:
            expected = [at(ticks, end) for end in (row.low, row.high) if end is not None]
            assert [float(end) for end in ends] == pytest.approx(expected, abs=0.15)
    (mark,) = kind(svg, "mark")
    assert float(re.findall(r"M([-\d.]+)", mark.attrib["d"])[0]) == pytest.approx(
        at(ticks, 0.4), abs=0.15
    )
    assert [text.text for text in kind(svg, "title")] == ["0.900", "0.400", "\u22120.250"]


@rooms
def test_a_bar_of_any_name_and_of_zero(room: float) -> None:
    svg = parsed(draw_bars([Bar(EVIL + "x" * 200, 0.0)], room))
    (name,) = kind(svg, "name")
    assert (name.text or "").startswith(EVIL)
    assert (name.text or "").endswith("\u2026")
    assert svg.findtext("g/title") == f"{EVIL}{'x' * 200}: 0.000"
    assert float(svg.attrib["viewBox"].split()[2]) <= room + 12


# Clouds


def dots(count: int, seed: int = 0) -> list[ScatterPoint]:
    rng = np.random.default_rng(seed)
    return [
        ScatterPoint(float(s), float(80 + t), f"arch {i}")
        for i, (s, t) in enumerate(rng.standard_normal((count, 2)))
    ]


@pytest.mark.parametrize("higher", [True, False])
def test_a_cloud_has_every_dot_in_its_place(higher: bool) -> None:
    points = dots(100)
    svg = parsed(draw_scatter(points, "dextr", "0.91", higher_is_better=higher))
    dim, top = (places(path) for path in kind(svg, "points"))
    assert (len(dim), len(top)) == (90, 10)
    ticks = across(svg)
    by_truth = sorted(points, key=lambda dot: -dot.truth)
    assert sorted(x for x, _ in top) == pytest.approx(
        sorted(at(ticks, dot.score) for dot in by_truth[:10]), abs=0.15
    )
    assert max(y for _, y in top) < min(y for _, y in dim), "the best tenth lies above"
    (ring,) = kind(svg, "ring")
    best = (max if higher else min)(points, key=lambda dot: dot.score)
    assert float(ring.attrib["cx"]) == max(x for x, _ in dim + top), (
        "the better score is on the right"
    )
    assert ring.findtext("title", "").startswith(f"{best.arch}\nbest score")


@pytest.mark.parametrize(
    "made", [lambda x: x, lambda x: np.exp(9 * x), lambda x: np.sign(x) * np.exp(9 * abs(x))]
)
def test_histograms_count_what_lies_before_them(made: object) -> None:
    points = [ScatterPoint(float(made(dot.score)), dot.truth, "") for dot in dots(300)]  # type: ignore[operator]
    svg = parsed(draw_scatter(points, "a", ""))
    seen = [place for path in kind(svg, "points") for place in places(path)]
    (margin,) = kind(svg, "margin")
    bars = [[float(rect.attrib[k]) for k in ("x", "y", "width", "height")] for rect in margin]
    counts = [int(rect.findtext("title", "")) for rect in margin]
    right = max(x for x, _ in seen)
    above = [i for i, (x, *_) in enumerate(bars) if x < right]
    if "rank by score" in [text.text for text in svg.iter("text")]:
        assert above == [], "ranks lie evenly"
    groups = [(above, 0), ([i for i in range(len(bars)) if i not in above], 1)]
    for group, axis in groups[not above :]:
        assert sum(counts[i] for i in group) == 300
        longest = max(bars[i][3 - axis] for i in group)
        for i in group:
            start, length = bars[i][axis], bars[i][axis + 2]
            end = start + length + 0.5
            least, most = (
                sum(start - s < place[axis] < end + s for place in seen) for s in (-0.2, 0.2)
            )
            assert least <= counts[i] <= most, "all before it, and of those on its border some"
            assert bars[i][3 - axis] / longest == pytest.approx(
                counts[i] / max(counts[j] for j in group), abs=0.1 / longest + 0.003
            )


def test_an_axis_is_as_plain_as_the_values_allow() -> None:
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
def test_a_cloud_says_which_axis_it_has_and_bears_any_scores(
    values: list[float], title: str
) -> None:
    svg = parsed(
        draw_scatter(
            [ScatterPoint(value, float(i), EVIL) for i, value in enumerate(values)], EVIL, "\u2013"
        )
    )
    assert title in [text.text for text in svg.iter("text")]
    assert sum(len(places(path)) for path in kind(svg, "points")) == len(values)
    flat = parsed(
        draw_scatter([ScatterPoint(value, 10.0, "") for value in values], "constant truth", "")
    )
    assert sum(len(places(path)) for path in kind(flat, "points")) == len(values)


def test_truth_by_rank_is_told_in_its_own_numbers() -> None:
    """Of 41 truths the ticks are the 1st, 11th, 21st, 31st and 41st best."""
    truths = [-1e9, *range(39), 1e9]
    svg = parsed(
        draw_scatter([ScatterPoint(1.0 * i, truth, "") for i, truth in enumerate(truths)], "a", "")
    )
    assert "score, truth by rank" in [text.text for text in svg.iter("text")]
    ticks = [text for text in kind(svg, "end") if "title" not in text.attrib["class"]]
    assert [text.text for text in ticks] == ["1.00e9", "29.0", "19.0", "9.00", "\u22121.00e9"]
    heights = sorted(y for path in kind(svg, "points") for _, y in places(path))
    assert [float(text.attrib["y"]) - 4 for text in ticks] == pytest.approx(
        [heights[i] for i in (0, 10, 20, 30, 40)]
    )


def test_many_dots_are_thinned_evenly_and_the_same_way_twice() -> None:
    assert thin_out(range(MAX_POINTS)) == list(range(MAX_POINTS))
    few = thin_out(range(1000))
    assert len(few) == MAX_POINTS
    assert {b - a for a, b in pairwise(few)} == {2, 3}
    many = dots(1000)
    assert draw_scatter(many, "a", "") == draw_scatter(many, "a", "")
    svg = parsed(draw_scatter(many, "a", ""))
    assert sum(len(places(path)) for path in kind(svg, "points")) == MAX_POINTS
    assert sum(int(rect.findtext("title", "")) for rect in kind(svg, "margin")[0]) == 2 * 1000


# The best tenth


def test_the_best_tenth_of_twenty_by_hand() -> None:
    """The two best by truth have the scores 20 (the best of all) and 5 (sixteenth, so the fifth from below)."""
    truth = np.array([*range(18), 30.0, 40.0])
    scores = np.array([1.0, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 5, 20])
    tenth = locate_best_tenth(scores, truth)
    assert tenth.places == (((20 - 0.5) / 20, 1.0), ((5 - 0.5) / 20, 0.0))
    assert tenth.found == 1
    assert tenth.within is None, "two points have no rank correlation"


def test_ties_are_found_by_chance_only() -> None:
    """Of 30 equal scores any 3 may be the best: each of the three best is among them with chance 3 / 30."""
    assert locate_best_tenth(np.ones(30), np.arange(30.0)).found == pytest.approx(3 * 3 / 30)


@rooms
def test_strips_place_dots_by_rank(room: float) -> None:
    scores, truth = np.random.default_rng(1).standard_normal((2, 50))
    rows = [
        Strip("perfect", locate_best_tenth(truth, truth)),
        Strip(EVIL, locate_best_tenth(scores, truth), "baseline"),
    ]
    svg = parsed(draw_strips(rows, room))
    for row, group in zip(rows, svg.findall("g"), strict=True):
        (track,), (zone,), (path,) = (
            kind(group, "track"),
            kind(group, "zone"),
            kind(group, "points"),
        )
        left, width = float(track.attrib["x"]), float(track.attrib["width"])
        expected = [left + share * width for share, _ in row.tenth.places]
        assert [x for x, _ in places(path)] == pytest.approx(expected, abs=0.15)
        inside = sum(x >= float(zone.attrib["x"]) for x, _ in places(path))
        assert kind(group, "title")[0].text == f"{inside} of 5"
        top, height = (float(track.attrib[k]) for k in ("y", "height"))
        assert all(top < y < top + height for _, y in places(path))
    assert kind(svg, "title")[0].text == "5 of 5"


# Heat maps


@rooms
@pytest.mark.parametrize("count", [1, 4, 60])
def test_a_heat_map_has_a_cell_for_every_pair(count: int, room: float) -> None:
    table = [
        [1.0 if i == j else -0.5 if (i + j) % 2 else 0.25 for j in range(count)]
        for i in range(count)
    ]
    svg = parsed(draw_heatmap([f"p{i}" for i in range(count)], table, room))
    rows = svg.findall("g[@transform]")
    cells = [list(row.iter("rect")) for row in rows]
    assert [len(row) for row in cells] == [count] * count
    for i, row in enumerate(cells):
        for j, rect in enumerate(row):
            value = table[i][j]
            assert rect.attrib["class"] == ("minus" if value < 0 else "plus")
            assert float(rect.attrib["fill-opacity"]) == abs(value)
            assert rect.findtext("title") == f"p{i}, p{j}: {value:.2f}".replace("-", "\u2212")
    assert len(kind(svg, "figure")) == (count**2 if count < 60 else 0)
    lefts = [float(rect.attrib["x"]) for rect in cells[0]]
    tops = [float(re.findall(r"0 ([\d.]+)", row.attrib["transform"])[0]) for row in rows]
    assert lefts == pytest.approx(tops, abs=0.1), "the diagonal is one"


def test_a_pair_without_correlation_is_an_empty_cell() -> None:
    svg = parsed(draw_heatmap(["a", EVIL], [[1.0, None], [None, None]], 350))
    assert len(kind(svg, "void")) == 3
    assert f"a, {EVIL}: not defined" in [title.text for title in svg.iter("title")]
    assert [text.text for text in kind(svg, "figure")] == ["1.00"]


def test_the_legend_goes_from_minus_one_to_one() -> None:
    (legend,) = kind(parsed(draw_heatmap(["a"], [[1.0]], 350)), "legend")
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


def test_only_what_nothing_cheaper_matches_is_worth_its_cost() -> None:
    assert [offer.name for offer in POINTS if is_on_front(offer, POINTS)] == [
        "params",
        "naswot",
        "meco",
        EVIL,
    ]
    twins = [CostPoint("a", 1, 0.5), CostPoint("b", 1, 0.5), CostPoint("c", 2, 0.5)]
    assert [offer.name for offer in twins if is_on_front(offer, twins)] == ["a", "b"]


@rooms
def test_costs_lie_on_a_log_axis_and_nothing_left_of_it(room: float) -> None:
    svg = parsed(draw_tradeoff(POINTS, room, "cost", "Spearman"))
    seen = [[float(dot.attrib[k]) for k in ("cx", "cy")] for dot in kind(svg, "offer")]
    one, hundred = seen[2][0], seen[6][0]
    for offer, (x, _) in zip(POINTS[2:], seen[2:], strict=True):
        assert x == pytest.approx(one + log10(offer.cost) / 2 * (hundred - one), abs=0.15)
    assert seen[0][0] == seen[1][0] < one - 10
    high, low = seen[6][1], seen[5][1]
    for offer, (_, y) in zip(POINTS, seen, strict=True):
        assert y == pytest.approx(low + (offer.value + 0.5) / 1.42 * (high - low), abs=0.15)
    assert next(x for value, x in across(svg) if value == 0) == pytest.approx(seen[0][0], abs=0.1)
    assert {"params", "naswot", "meco", EVIL} <= {text.text for text in kind(svg, "name")}
    front = re.findall(r"[ML]([-\d.]+)", kind(svg, "front")[0].attrib["d"])
    assert [float(x) for x in front] == [seen[i][0] for i in (0, 2, 4, 6)]


def test_names_that_need_not_be_there_cover_nothing() -> None:
    crowd = [
        CostPoint("best", 1, 0.9),
        *(CostPoint(f"proxy {i}", 3, 0.5 + 0.001 * i) for i in range(30)),
    ]
    svg = parsed(draw_tradeoff(crowd, 350, "cost", "Spearman"))
    names = [(float(text.attrib["x"]), float(text.attrib["y"]) - 11, 7.0 * len(text.text or ""), 14.0)
             for text in kind(svg, "name")]  # fmt: skip
    assert 2 <= len(names) < 10
    assert not [pair for pair in combinations(names, 2) if overlap(*pair)]


@pytest.mark.parametrize("costs", [(0, 0), (3, 3), (0, 5), (1, 1e6)])
def test_any_costs_can_be_drawn(costs: tuple[float, float]) -> None:
    svg = parsed(
        draw_tradeoff(
            [CostPoint("a", costs[0], 0.5), CostPoint("b", costs[1], 0.5)], 350, "cost", "Spearman"
        )
    )
    assert len(kind(svg, "offer")) == 2
    assert all(0 < float(dot.attrib["cx"]) < 350 for dot in kind(svg, "offer"))
