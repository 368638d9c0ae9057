"""Cells and a run to report on, how they are drawn, where the boxes of a drawing lie, and a page in a browser."""

from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from untrained.reports.drawing import draw
from untrained.reports.page import render
from untrained.reports.summary import Failed, Ranked, Summary
from untrained.spaces._sketch import Cell, Sketch

CONV3, CONV1, SKIP, NONE, POOL = "nor_conv_3x3", "nor_conv_1x1", "skip_connect", "none", "avg_pool_3x3"
PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
rooms = pytest.mark.parametrize("room", [880, 350])


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


def drawn(sketch: Sketch, room: float = 880) -> ElementTree.Element:
    return ElementTree.fromstring(draw(sketch, room=room))


def boxes(svg: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    rects = [group.find("rect") for group in svg.iter("g") if group.attrib["class"].split()[0] == kind]
    return [tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height")) for rect in rects if rect is not None]  # type: ignore[misc]


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return all(a[k] < b[k] + b[k + 2] and b[k] < a[k] + a[k + 2] for k in (0, 1))


def opened(browser: Any, folder: Path, run: Summary, width: int) -> Any:
    """The report of a run in a browser window of some width."""
    file = folder / "report.html"
    file.write_text(render(run), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    return page
