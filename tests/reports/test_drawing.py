"""Drawings of stages, layers and several cells; single cells: test_cells.py."""

from itertools import combinations, pairwise
from math import sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.reports.examples import CELLS, boxes, drawn, opened, overlap, rooms, summary
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.svg.style import find_family
from untrained.spaces.core.diagrams import CellGraphs, Diagram, Stage, StageList, TransformerLayers

MOBILE = StageList(
    (
        Stage("conv 3x3", 16, stride=2),
        Stage("E1 K7", 40, stride=2, inner=72),
        Stage("E4 K7", 96, stride=2, repeats=5, inner=48),
        Stage("E2 K5", 224, repeats=3, inner=224),
        Stage("conv 1x1", 2048),
    )
)
MLP = StageList((Stage("linear", 128), Stage("linear", 512)))
TINY = TransformerLayers(192, (3, 4, 3), (3.5, 4.0, 3.5))
BASE = TransformerLayers(624, (9, 10) * 8, (3.0, 3.5, 4.0, 3.0) * 4)
LISTS: dict[str, Diagram] = {"mobile": MOBILE, "mlp": MLP, "tiny": TINY, "base": BASE}


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter("text")]


def bars(root: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    found = [
        rect for rect in root.iter("rect") if rect.attrib.get("class", "").split()[:1] == [kind]
    ]
    return [tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height")) for rect in found]  # type: ignore[misc]


def rows(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter("g") if group.attrib["class"].split()[0] == "row"]


# stages


@rooms
def test_every_block_has_a_bar_as_long_as_the_root_of_its_channels(room: float) -> None:
    """1 + 1 + 5 + 3 + 1 blocks; a bar of 2048 channels is sqrt(2048 / 96) times as long as one of 96."""
    lists = [bars(row, "bar") for row in rows(drawn(MOBILE, room))]
    assert [len(row) for row in lists] == [1, 1, 5, 3, 1]
    lengths = [row[0][2] for row in lists]
    for stage, length in zip(MOBILE.stages, lengths, strict=True):
        assert length == pytest.approx(
            lengths[-1] * sqrt(stage.channels / 2048), abs=0.11
        )  # printed to 0.1
    assert all(box[2] == row[0][2] for row in lists for box in row)


def test_the_line_in_a_bar_is_its_bottleneck_even_if_wider() -> None:
    per_row = [(bars(row, "bar"), bars(row, "part")) for row in rows(drawn(MOBILE))]
    assert [len(parts) for _, parts in per_row] == [0, 1, 5, 3, 0]
    for stage, (outer, inner) in zip(MOBILE.stages, per_row, strict=True):
        for whole, part in zip(outer, inner, strict=bool(inner)):
            assert part[2] / whole[2] == pytest.approx(sqrt(stage.inner / stage.channels), rel=0.01)
            assert part[1] > whole[1]
            assert part[1] + part[3] < whole[1] + whole[3]


def test_a_stage_is_told_in_words_and_numbers() -> None:
    root = drawn(MOBILE)
    assert texts(root)[:3] == ["block", "map", "channels (bottleneck)"]
    assert [text for text in texts(root) if text.startswith("1/")] == ["1/2", "1/4", "1/8"]
    assert [texts(row) for row in rows(root)] == [
        ["conv 3x3", "16"], ["E1 K7", "40 (72)"], ["E4 K7", "\u00d75", "96 (48)"], ["E2 K5", "\u00d73", "224 (224)"],
        ["conv 1x1", "2048"],
    ]  # fmt: skip
    titles = [title.text for title in root.iter("title")]
    assert titles[2] == "5 E4 K7 to 96 channels, bottleneck 48, stride 2"
    assert all(str(title) in root.attrib["aria-label"] for title in titles)


def test_rules_stand_where_the_map_gets_smaller() -> None:
    root = drawn(MOBILE)
    rules = [float(line.attrib["y1"]) for line in root.iter("line")]
    tops = [min(box[1] for box in boxes(row, "tag")) for row in rows(root)]
    assert len(rules) == 3  # above the first row, and above the second and third
    assert all(rule < top for rule, top in zip(rules, tops, strict=False))
    assert tops[0] < rules[1] < tops[1]


def test_without_strides_and_bottlenecks_nothing_is_said_of_them() -> None:
    root = drawn(MLP)
    assert texts(root) == ["block", "channels", "linear", "128", "linear", "512"]
    assert (
        drawn(StageList((Stage("conv 3x3", 8), Stage("conv 3x3", 8, stride=2))), 350).find(
            ".//text[.='1']"
        )
        is not None
    )


def test_blocks_are_coloured_by_what_they_are_made_of() -> None:
    assert [find_family(label) for label in ("E6 K3", "K3 K3", "K1 K7 K1", "conv 3x3", "conv 1x1", "linear")] == [
        "sep", "conv3", "conv1", "conv3", "conv1", "plain",
    ]  # fmt: skip
    assert [row.attrib["class"] for row in rows(drawn(MOBILE))][:2] == [
        "row op-conv3",
        "row op-sep",
    ]


# layers


@rooms
def test_a_square_for_every_head_and_a_bar_for_every_mlp(room: float) -> None:
    found = rows(drawn(BASE, room))
    assert [len(bars(row, "part")) for row in found] == [9, 10] * 8
    lengths = [bars(row, "bar")[0][2] for row in found]
    assert lengths[2] / lengths[0] == pytest.approx(4 / 3, rel=0.01)
    assert lengths[1] / lengths[0] == pytest.approx(3.5 / 3, rel=0.01)


def test_a_layer_is_told_in_numbers() -> None:
    """192 * 3.5 = 672, 192 * 4 = 768."""
    root = drawn(TINY)
    assert texts(root)[:3] == ["layer", "heads", "MLP: ratio \u00d7 192"]
    assert [texts(row) for row in rows(root)] == [
        ["1", "3.5 = 672"],
        ["2", "4 = 768"],
        ["3", "3.5 = 672"],
    ]
    assert root.attrib["aria-label"] == (
        "Transformer of width 192 with 3 layers. 3 heads, MLP ratio 3.5; 4 heads, MLP ratio 4; 3 heads, MLP ratio 3.5"
    )


# All of them


@rooms
@pytest.mark.parametrize("name", LISTS)
def test_boxes_keep_apart_and_inside(name: str, room: float) -> None:
    root = drawn(LISTS[name], room)
    everything = (
        bars(root, "bar")
        + boxes(root, "tag")
        + (bars(root, "part") if name in ("tiny", "base") else [])
    )
    assert not [pair for pair in combinations(everything, 2) if overlap(*pair)]
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert width <= room + 12
    assert all(
        x >= left and y >= top and x + w <= left + width and y + h <= top + height
        for x, y, w, h in everything
    )


def test_named_cells_stand_one_below_the_other() -> None:
    root = drawn(CellGraphs((("normal", CELLS["mixed"]), ("<reduce>", CELLS["101 chain"]))))
    assert [child.tag for child in root] == ["h3", "svg", "h3", "svg"]
    assert [heading.text for heading in root.iter("h3")] == ["normal", "<reduce>"]
    assert ElementTree.tostring(root[1]) == ElementTree.tostring(drawn(CELLS["mixed"]))


@pytest.mark.parametrize(
    "sketch",
    [StageList(()), TransformerLayers(8, (), ()), CellGraphs(())],
    ids=lambda sketch: type(sketch).__name__,
)
def test_nothing_is_drawn_of_nothing(sketch: Diagram) -> None:
    assert not rows(drawn(sketch))


def test_labels_are_escaped() -> None:
    evil = '<img src="x">&'
    root = drawn(StageList((Stage(evil, 8),)))
    assert evil in texts(root)
    assert evil in root.attrib["aria-label"]


@pytest.mark.parametrize("name", LISTS)
def test_a_page_shows_it(name: str) -> None:
    page = render_search_page(summary(diagram=LISTS[name]))
    assert page.count('<svg class="list"') == 2  # for a wide page and for a narrow one


@pytest.mark.browser
@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (390, "narrow")])
@pytest.mark.parametrize("name", LISTS)
def test_texts_of_a_row_keep_apart_in_a_browser(
    browser: Any, tmp_path: Path, name: str, width: int, shown: str
) -> None:
    page = opened(browser, tmp_path, summary(diagram=LISTS[name]), width)
    found = page.evaluate(
        f"""[...document.querySelectorAll(".{shown} .list")].map(svg => [...svg.querySelectorAll("g.row")].map(row =>
        [...row.querySelectorAll("text, rect")].map(mark => {{ const box = mark.getBoundingClientRect();
        return [mark.tagName, box.left, box.right]; }})))[0]"""
    )
    frame = page.locator(f".{shown} .list").bounding_box()
    assert len(found) == len(rows(drawn(LISTS[name])))
    for row in found:
        spans = sorted((left, right) for tag, left, right in row if tag == "text")
        assert all(a[1] < b[0] for a, b in pairwise(spans))
        assert frame["x"] <= spans[0][0]
        assert spans[-1][1] <= frame["x"] + frame["width"] + 0.5
        last = max(right for tag, _, right in row if tag == "rect")
        assert last < spans[-1][0], "the numbers stand behind the bars"
    page.close()
