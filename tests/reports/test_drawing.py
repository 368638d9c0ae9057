"""Drawings of stages, layers and several cells; single cells: test_cells.py."""

from itertools import combinations, pairwise
from math import sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.reports.examples import (
    CELLS,
    both_widths,
    boxes_overlap,
    draw_svg,
    list_boxes,
    make_summary,
    open_page,
)
from untrained.drawings.diagrams import CellGraphs, Diagram, Stage, StageList, TransformerLayers
from untrained.drawings.elements import find_family
from untrained.reports.pages.search_page import render_search_page

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


def list_texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter("text")]


def list_bars(root: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    rects = [
        rect for rect in root.iter("rect") if rect.attrib.get("class", "").split()[:1] == [kind]
    ]
    return [tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height")) for rect in rects]  # type: ignore[misc]


def list_rows(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter("g") if group.attrib["class"].split()[0] == "row"]


# stages


@both_widths
def test_bars_are_proportional_to_the_square_root_of_the_channels(room: float) -> None:
    """1 + 1 + 5 + 3 + 1 blocks; a bar of 2048 channels is sqrt(2048 / 96) times as long as one of 96."""
    lists = [list_bars(row, "bar") for row in list_rows(draw_svg(MOBILE, room))]
    assert [len(row) for row in lists] == [1, 1, 5, 3, 1]
    lengths = [row[0][2] for row in lists]
    for stage, length in zip(MOBILE.stages, lengths, strict=True):
        # Coordinates are rounded to 0.1.
        assert length == pytest.approx(lengths[-1] * sqrt(stage.channels / 2048), abs=0.11)
    assert all(box[2] == row[0][2] for row in lists for box in row)


def test_the_line_in_a_bar_shows_the_bottleneck_even_if_it_is_wider() -> None:
    per_row = [
        (list_bars(row, "bar"), list_bars(row, "part")) for row in list_rows(draw_svg(MOBILE))
    ]
    assert [len(parts) for _, parts in per_row] == [0, 1, 5, 3, 0]
    for stage, (outer, inner) in zip(MOBILE.stages, per_row, strict=True):
        for whole, part in zip(outer, inner, strict=bool(inner)):
            assert part[2] / whole[2] == pytest.approx(sqrt(stage.inner / stage.channels), rel=0.01)
            assert part[1] > whole[1]
            assert part[1] + part[3] < whole[1] + whole[3]


def test_a_stage_shows_its_operations_and_numbers() -> None:
    root = draw_svg(MOBILE)
    assert list_texts(root)[:3] == ["block", "scale", "channels (bottleneck)"]
    assert [text for text in list_texts(root) if text.startswith("1/")] == ["1/2", "1/4", "1/8"]
    assert [list_texts(row) for row in list_rows(root)] == [
        ["conv 3x3", "16"], ["E1 K7", "40 (72)"], ["E4 K7", "\u00d75", "96 (48)"], ["E2 K5", "\u00d73", "224 (224)"],
        ["conv 1x1", "2048"],
    ]  # fmt: skip
    titles = [title.text for title in root.iter("title")]
    assert titles[2] == "5 E4 K7 to 96 channels, bottleneck 48, stride 2"
    assert all(str(title) in root.attrib["aria-label"] for title in titles)


def test_rules_mark_where_the_feature_map_gets_smaller() -> None:
    root = draw_svg(MOBILE)
    rules = [float(line.attrib["y1"]) for line in root.iter("line")]
    tops = [min(box[1] for box in list_boxes(row, "tag")) for row in list_rows(root)]
    assert len(rules) == 3  # above the first row, and above the second and third
    assert all(rule < top for rule, top in zip(rules, tops, strict=False))
    assert tops[0] < rules[1] < tops[1]


def test_strides_and_bottlenecks_are_shown_only_if_there_are_any() -> None:
    root = draw_svg(MLP)
    assert list_texts(root) == ["block", "channels", "linear", "128", "linear", "512"]
    assert (
        draw_svg(StageList((Stage("conv 3x3", 8), Stage("conv 3x3", 8, stride=2))), 350).find(
            ".//text[.='1']"
        )
        is not None
    )


def test_blocks_are_coloured_by_their_operation() -> None:
    assert [find_family(label) for label in ("E6 K3", "K3 K3", "K1 K7 K1", "conv 3x3", "conv 1x1", "linear")] == [
        "sep", "conv3", "conv1", "conv3", "conv1", "plain",
    ]  # fmt: skip
    assert [row.attrib["class"] for row in list_rows(draw_svg(MOBILE))][:2] == [
        "row op-conv3",
        "row op-sep",
    ]


# layers


@both_widths
def test_a_layer_has_a_square_per_head_and_a_bar_for_its_mlp(room: float) -> None:
    rows = list_rows(draw_svg(BASE, room))
    assert [len(list_bars(row, "part")) for row in rows] == [9, 10] * 8
    lengths = [list_bars(row, "bar")[0][2] for row in rows]
    assert lengths[2] / lengths[0] == pytest.approx(4 / 3, rel=0.01)
    assert lengths[1] / lengths[0] == pytest.approx(3.5 / 3, rel=0.01)


def test_the_numbers_of_a_layer_are_shown() -> None:
    """192 * 3.5 = 672, 192 * 4 = 768."""
    root = draw_svg(TINY)
    assert list_texts(root)[:3] == ["layer", "heads", "MLP: ratio \u00d7 192"]
    assert [list_texts(row) for row in list_rows(root)] == [
        ["1", "3.5 = 672"],
        ["2", "4 = 768"],
        ["3", "3.5 = 672"],
    ]
    assert root.attrib["aria-label"] == (
        "Transformer of width 192 with 3 layers. 3 heads, MLP ratio 3.5; 4 heads, MLP ratio 4; 3 heads, MLP ratio 3.5"
    )


# All of them


@both_widths
@pytest.mark.parametrize("name", LISTS)
def test_boxes_do_not_overlap_and_stay_inside(name: str, room: float) -> None:
    root = draw_svg(LISTS[name], room)
    everything = (
        list_bars(root, "bar")
        + list_boxes(root, "tag")
        + (list_bars(root, "part") if name in ("tiny", "base") else [])
    )
    assert not [pair for pair in combinations(everything, 2) if boxes_overlap(*pair)]
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert width <= room + 12
    assert all(
        x >= left and y >= top and x + w <= left + width and y + h <= top + height
        for x, y, w, h in everything
    )


def test_named_cells_are_drawn_one_below_the_other() -> None:
    root = draw_svg(CellGraphs((("normal", CELLS["mixed"]), ("<reduce>", CELLS["101 chain"]))))
    assert [child.tag for child in root] == ["h3", "svg", "h3", "svg"]
    assert [heading.text for heading in root.iter("h3")] == ["normal", "<reduce>"]
    assert ElementTree.tostring(root[1]) == ElementTree.tostring(draw_svg(CELLS["mixed"]))


@pytest.mark.parametrize(
    "diagram",
    [StageList(()), TransformerLayers(8, (), ()), CellGraphs(())],
    ids=lambda diagram: type(diagram).__name__,
)
def test_an_empty_diagram_has_no_rows(diagram: Diagram) -> None:
    assert not list_rows(draw_svg(diagram))


def test_labels_are_escaped() -> None:
    evil = '<img src="x">&'
    root = draw_svg(StageList((Stage(evil, 8),)))
    assert evil in list_texts(root)
    assert evil in root.attrib["aria-label"]


@pytest.mark.parametrize("name", LISTS)
def test_a_page_shows_the_diagram(name: str) -> None:
    page = render_search_page(make_summary(diagram=LISTS[name]))
    assert page.count('<svg class="list"') == 2  # for a wide page and for a narrow one


@pytest.mark.browser
@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (390, "narrow")])
@pytest.mark.parametrize("name", LISTS)
def test_texts_of_a_row_do_not_overlap_in_a_browser(
    browser: Any, tmp_path: Path, name: str, width: int, shown: str
) -> None:
    page = open_page(browser, tmp_path, make_summary(diagram=LISTS[name]), width)
    rows = page.evaluate(
        f"""[...document.querySelectorAll(".{shown} .list")].map(svg => [...svg.querySelectorAll("g.row")].map(row =>
        [...row.querySelectorAll("text, rect")].map(mark => {{ const box = mark.getBoundingClientRect();
        return [mark.tagName, box.left, box.right]; }})))[0]"""
    )
    frame = page.locator(f".{shown} .list").bounding_box()
    assert len(rows) == len(list_rows(draw_svg(LISTS[name])))
    for row in rows:
        spans = sorted((left, right) for tag, left, right in row if tag == "text")
        assert all(a[1] < b[0] for a, b in pairwise(spans))
        assert frame["x"] <= spans[0][0]
        assert spans[-1][1] <= frame["x"] + frame["width"] + 0.5
        last = max(right for tag, _, right in row if tag == "rect")
        assert last < spans[-1][0], "the numbers are to the right of the bars"
    page.close()
