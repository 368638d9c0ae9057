"""Drawings of single cells: every edge is there, nothing overlaps. Others: test_drawing.py."""

import re
from itertools import combinations
from random import Random

import pytest

from tests.reports.examples import (
    CELLS,
    CONV1,
    CONV3,
    NONE,
    POOL,
    SKIP,
    both_widths,
    boxes_overlap,
    draw_svg,
    list_boxes,
    make_summary,
)
from untrained.drawings.diagrams import CellGraph
from untrained.drawings.draw import draw_diagram
from untrained.drawings.elements import find_family
from untrained.drawings.layout import separate_places
from untrained.reports.pages.search_page import render_search_page


def sample_path(path: str) -> list[tuple[float, float]]:
    """Return points on a path of cubic Bezier curves."""
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    samples = []
    for i in range(0, len(points) - 1, 3):
        for t in (k / 40 for k in range(41)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            samples.append(
                tuple(
                    sum(w * p[k] for w, p in zip(weights, points[i : i + 4], strict=True))
                    for k in (0, 1)
                )
            )
    return samples  # type: ignore[return-value]


@both_widths
@pytest.mark.parametrize("name", CELLS)
def test_a_drawing_has_every_edge_and_no_overlapping_boxes(name: str, room: float) -> None:
    cell = CELLS[name]
    svg = draw_svg(cell, room)
    wires = {
        group.attrib["data-edge"]: group for group in svg.iter("g") if "data-edge" in group.attrib
    }
    assert set(wires) == {f"{a}-{b}" for a, b, _ in cell.edges}
    texts = [text.text or "" for text in svg.iter("text")]
    assert sorted(texts) == sorted([*cell.nodes, *(label for *_, label in cell.edges if label)])
    everything = list_boxes(svg, "node") + list_boxes(svg, "tag")
    assert len(everything) == len(texts)
    assert not [pair for pair in combinations(everything, 2) if boxes_overlap(*pair)]
    left, top, width, height = map(float, svg.attrib["viewBox"].split())
    assert all(
        x >= left and y >= top and x + w <= left + width and y + h <= top + height
        for x, y, w, h in everything
    )


@both_widths
@pytest.mark.parametrize("name", CELLS)
def test_edges_do_not_cross_boxes_of_other_nodes(name: str, room: float) -> None:
    cell = CELLS[name]
    svg = draw_svg(cell, room)
    nodes = list_boxes(svg, "node")
    tags = iter(list_boxes(svg, "tag"))
    labels = {f"{a}-{b}": next(tags) for a, b, label in cell.edges if label}
    for a, b, _ in cell.edges:
        path = svg.find(f".//g[@data-edge='{a}-{b}']/path")
        assert path is not None
        foreign = [box for n, box in enumerate(nodes) if n not in (a, b)]
        foreign += [box for edge, box in labels.items() if edge != f"{a}-{b}"]
        crossings = [
            p
            for p in sample_path(path.attrib["d"])
            if any(boxes_overlap((*p, 0.0, 0.0), box) for box in foreign)
        ]
        assert not crossings, f"{a}-{b} runs over a box"


@pytest.mark.parametrize("seed", range(12))
def test_boxes_of_random_graphs_do_not_overlap(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 7)
    labels = ["", CONV3, SKIP, "a_rather_long_operation"] if seed % 2 else [""]
    pairs = [pair for pair in combinations(range(count), 2) if random.random() < 0.5]
    cell = CellGraph(
        tuple(str(n) * n for n in range(count)),
        tuple((a, b, random.choice(labels)) for a, b in pairs),
    )
    svg = draw_svg(cell, random.choice((350, 880)))
    everything = list_boxes(svg, "node") + list_boxes(svg, "tag")
    assert len(everything) == count + sum(bool(label) for *_, label in cell.edges)
    assert not [pair for pair in combinations(everything, 2) if boxes_overlap(*pair)]


def test_a_narrow_drawing_runs_down_and_a_wide_one_to_the_right() -> None:
    wide, narrow = (draw_svg(CELLS["mixed"], room) for room in (880, 350))
    ends = [(list_boxes(svg, "node")[0], list_boxes(svg, "node")[-1]) for svg in (wide, narrow)]
    assert ends[0][0][0] < ends[0][1][0]
    assert ends[0][0][1] == ends[0][1][1]
    assert ends[1][0][1] < ends[1][1][1]
    assert float(narrow.attrib["viewBox"].split()[2]) < 400


def test_none_is_faint_and_colours_follow_operations() -> None:
    assert [find_family(op) for op in (CONV3, CONV1, SKIP, NONE, POOL)] == [
        "conv3",
        "conv1",
        "skip",
        "none",
        "avg",
    ]
    assert [find_family(op) for op in ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")] == [
        "conv3",
        "conv1",
        "max",
    ]
    assert [find_family(op) for op in ("sep_conv_5x5", "dil_conv_3x3", "input", "")] == [
        "sep",
        "dil",
        "plain",
        "plain",
    ]
    drawing = draw_diagram(CELLS["mixed"])
    assert drawing.count('class="wire op-none"') == 1
    assert drawing.index("wire op-none") < drawing.index("wire op-conv3"), (
        "faint edges are drawn first"
    )
    assert re.search(
        r"\.wire\.op-none path \{[^}]*stroke-dasharray", render_search_page(make_summary())
    )


def test_drawings_are_deterministic_and_refuse_cycles() -> None:
    assert draw_diagram(CELLS["101 branches"]) == draw_diagram(CELLS["101 branches"])
    with pytest.raises(ValueError, match="acyclic"):
        draw_diagram(CellGraph(("a", "b"), ((0, 1, ""), (1, 0, ""))))


def test_places_are_moved_no_more_than_needed() -> None:
    assert separate_places([0.0, 10.0], [1.0, 1.0], [4.0]) == [0.0, 10.0]
    assert separate_places([0.0, 0.0], [1.0, 1.0], [4.0]) == [-2.0, 2.0]
    assert separate_places([0.0, 0.0], [1.0, 3.0], [4.0]) == [-3.0, 1.0]
