"""A network as a list of stages, read downwards: a bar for every block, as long as it is wide.

The length is the square root of the channels, so that 8 and 2048 fit on one page; the dark line in a bar is the
bottleneck. A rule across stands where the map gets smaller.
"""

from html import escape
from itertools import accumulate
from math import sqrt
from operator import mul

from untrained.reports.svg.style import CHAR, LINE, bar, breadth, family, frame, pill, words
from untrained.spaces.core.diagrams import Stage, StageList

_MAP = 40.0  # the column that says how small the map is, where it gets smaller at all
_GAP = 10.0
_BAR, _PITCH = 7.0, 9.0  # height of a bar, and from one bar to the next
_CORE = 2.0  # height of the line in a bar that is as long as the bottleneck is wide; it may be wider than the bar
_MOST = 640.0  # wider, the eye no longer follows a row


def draw_stages(sketch: StageList, room: float) -> str:
    """One row a stage: the size of the map, what a block is, how many, its bars, its channels."""
    stages, width = sketch.stages, min(room, _MOST)
    columns = _Columns(stages, width)
    halved = list(accumulate((stage.stride for stage in stages), mul))
    parts, y = [_heading(columns)], LINE
    for n, stage in enumerate(stages):
        height = max(LINE, _PITCH * stage.repeats) + _GAP
        if n == 0 or stage.stride > 1:
            parts.append(f'<line class="rule" x1="0" x2="{width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            if columns.pills:
                shown = f"1/{halved[n]}" if halved[n] > 1 else "1"
                parts.append(words(shown, columns.pills - _GAP, y + height / 2, "soft end"))
        parts.append(_row(stage, columns, y + height / 2))
        y += height
    return frame("list", (0.0, 0.0, width, y), _spoken(stages), parts)


class _Columns:
    """Where the columns of a drawing begin, and how long a bar is."""

    def __init__(self, stages: tuple[Stage, ...], width: float) -> None:
        self.pills = _MAP if any(stage.stride > 1 for stage in stages) else 0.0
        self.pill = max((breadth(stage.label) for stage in stages), default=0.0)
        self.times = self.pills + self.pill + _GAP
        self.bars = self.times + max((CHAR * len(_times(stage)) for stage in stages), default=0.0) + _GAP
        numbers = max((CHAR * len(_channels(stage)) for stage in stages), default=0.0)
        self.longest = max(width - self.bars - _GAP - numbers, 40.0)
        self.bottlenecks = any(stage.inner for stage in stages)
        self.widest = max((max(stage.channels, stage.inner) for stage in stages), default=1)

    def length(self, channels: int) -> float:
        return max(self.longest * sqrt(channels / self.widest), 3.0)


def _heading(columns: _Columns) -> str:
    said = [("block", columns.pills + columns.pill / 2, "soft mid")]
    if columns.pills:
        said.append(("map", columns.pills - _GAP, "soft end"))
    said.append(("channels (bottleneck)" if columns.bottlenecks else "channels", columns.bars, "soft"))
    return "".join(words(text, x, LINE / 2, kind) for text, x, kind in said)


def _row(stage: Stage, columns: _Columns, y: float) -> str:
    """A stage whose row has its middle at y."""
    top = y - _PITCH * stage.repeats / 2 + (_PITCH - _BAR) / 2
    outer, inner = (columns.length(c) if c else 0.0 for c in (stage.channels, stage.inner))
    bars = []
    for n in range(stage.repeats):
        bars.append(bar((columns.bars, top + n * _PITCH, outer, _BAR), "bar"))
        if inner:
            bars.append(bar((columns.bars, top + n * _PITCH + (_BAR - _CORE) / 2, inner, _CORE), "part", round=1.0))
    label = pill(stage.label, (columns.pills, y - LINE / 2, columns.pill, LINE), "tag")
    times = words(_times(stage), columns.times, y) if stage.repeats > 1 else ""
    numbers = words(_channels(stage), columns.bars + max(outer, inner) + _GAP, y)
    title = f"<title>{escape(_said(stage))}</title>"
    return f'<g class="row op-{family(stage.label)}">{title}{label}{times}{"".join(bars)}{numbers}</g>'


def _times(stage: Stage) -> str:
    return f"\u00d7{stage.repeats}" if stage.repeats > 1 else ""


def _channels(stage: Stage) -> str:
    return f"{stage.channels} ({stage.inner})" if stage.inner else str(stage.channels)


def _said(stage: Stage) -> str:
    inner = f", bottleneck {stage.inner}" if stage.inner else ""
    stride = f", stride {stage.stride}" if stage.stride > 1 else ""
    return f"{stage.repeats} {stage.label} to {stage.channels} channels{inner}{stride}"


def _spoken(stages: tuple[Stage, ...]) -> str:
    return f"Network of {len(stages)} stages. " + "; ".join(map(_said, stages))
