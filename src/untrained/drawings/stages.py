"""Drawing of a network as a list of stages: one bar per block, which is longer for more channels.

The length is proportional to the square root of the channels, so that 8 and 2048 fit on one page.
The dark line in a bar is its bottleneck. A horizontal rule marks where the resolution decreases.
"""

from html import escape
from math import sqrt

from untrained.drawings.diagrams import Stage, StageList
from untrained.drawings.elements import (
    CHAR_WIDTH,
    LABEL_HEIGHT,
    Drawing,
    draw_label,
    draw_rect,
    draw_text,
    find_family,
    measure_label,
)

_RESOLUTION_WIDTH = 40.0  # column of the resolution, if it changes
_GAP = 10.0
_BAR_HEIGHT = 7.0
_BAR_DISTANCE = 9.0  # from one bar to the next
_BOTTLENECK_HEIGHT = 2.0  # of the line in a bar; it may be longer than the bar
_MIN_BAR_LENGTH = 3.0
_MAX_WIDTH = 640.0  # wider rows are hard to follow


def draw_stages(network: StageList, max_width: float) -> Drawing:
    """Draw one row per stage: resolution, kind of block, repetitions, bars, channels."""
    stages = network.stages
    width = min(max_width, _MAX_WIDTH)
    columns = _Columns(stages, width)
    parts = [_draw_heading(columns)]
    y = LABEL_HEIGHT
    downsampling = 1
    for i, stage in enumerate(stages):
        downsampling *= stage.stride
        # A stage of many blocks needs more space for its bars than for its label.
        height = max(LABEL_HEIGHT, _BAR_DISTANCE * stage.repeats) + _GAP
        if i == 0 or stage.stride > 1:
            parts.append(f'<line class="rule" x1="0" x2="{width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            if columns.has_resolutions:
                resolution = "1"
                if downsampling > 1:
                    resolution = f"1/{downsampling}"
                x = columns.labels_left - _GAP
                parts.append(draw_text(resolution, x, y + height / 2, "soft end"))
        parts.append(_draw_stage(stage, columns, y + height / 2))
        y += height
    return Drawing("list", (0.0, 0.0, width, y), _describe_stages(stages), parts)


class _Columns:
    """Left ends of the columns, and lengths of bars, in pixels."""

    def __init__(self, stages: tuple[Stage, ...], width: float) -> None:
        # Without strides the resolution never changes and needs no column.
        self.has_resolutions = any(stage.stride > 1 for stage in stages)
        self.labels_left = _RESOLUTION_WIDTH if self.has_resolutions else 0.0
        self.label_width = max((measure_label(stage.label) for stage in stages), default=0.0)
        self.repeats_left = self.labels_left + self.label_width + _GAP
        repeats_width = _measure_texts([_format_repeats(stage) for stage in stages])
        self.bars_left = self.repeats_left + repeats_width + _GAP
        channels_width = _measure_texts([_format_channels(stage) for stage in stages])
        # Bars get what the other columns leave, but they stay visible on a narrow page.
        self.longest_bar = max(width - self.bars_left - _GAP - channels_width, 40.0)
        self.has_bottlenecks = any(stage.inner for stage in stages)
        self.most_channels = max((max(stage.channels, stage.inner) for stage in stages), default=1)

    def measure_bar(self, channels: int) -> float:
        """Return the length of a bar; 0 without channels."""
        if not channels:
            return 0.0
        return max(self.longest_bar * sqrt(channels / self.most_channels), _MIN_BAR_LENGTH)


def _measure_texts(texts: list[str]) -> float:
    """Return the width of the longest text."""
    return CHAR_WIDTH * max((len(text) for text in texts), default=0)


def _draw_heading(columns: _Columns) -> str:
    y = LABEL_HEIGHT / 2
    parts = [draw_text("block", columns.labels_left + columns.label_width / 2, y, "soft mid")]
    if columns.has_resolutions:
        parts.append(draw_text("scale", columns.labels_left - _GAP, y, "soft end"))
    text = "channels (bottleneck)" if columns.has_bottlenecks else "channels"
    parts.append(draw_text(text, columns.bars_left, y, "soft"))
    return "".join(parts)


def _draw_stage(stage: Stage, columns: _Columns, y: float) -> str:
    """Draw the row of a stage, with its middle at y."""
    outer = columns.measure_bar(stage.channels)
    inner = columns.measure_bar(stage.inner)
    label_box = (columns.labels_left, y - LABEL_HEIGHT / 2, columns.label_width, LABEL_HEIGHT)
    parts = [f"<title>{escape(_describe_stage(stage))}</title>"]
    parts.append(draw_label(stage.label, label_box, "tag"))
    if stage.repeats > 1:
        parts.append(draw_text(_format_repeats(stage), columns.repeats_left, y))
    top = y - _BAR_DISTANCE * stage.repeats / 2 + (_BAR_DISTANCE - _BAR_HEIGHT) / 2
    for i in range(stage.repeats):
        bar_top = top + i * _BAR_DISTANCE
        parts.append(draw_rect((columns.bars_left, bar_top, outer, _BAR_HEIGHT), "bar"))
        if inner:
            line_top = bar_top + (_BAR_HEIGHT - _BOTTLENECK_HEIGHT) / 2
            line_box = (columns.bars_left, line_top, inner, _BOTTLENECK_HEIGHT)
            parts.append(draw_rect(line_box, "part", radius=1.0))
    x = columns.bars_left + max(outer, inner) + _GAP
    parts.append(draw_text(_format_channels(stage), x, y))
    return f'<g class="row op-{find_family(stage.label)}">{"".join(parts)}</g>'


def _format_repeats(stage: Stage) -> str:
    if stage.repeats > 1:
        return f"\u00d7{stage.repeats}"
    return ""


def _format_channels(stage: Stage) -> str:
    if stage.inner:
        return f"{stage.channels} ({stage.inner})"
    return str(stage.channels)


def _describe_stage(stage: Stage) -> str:
    text = f"{stage.repeats} {stage.label} to {stage.channels} channels"
    if stage.inner:
        text += f", bottleneck {stage.inner}"
    if stage.stride > 1:
        text += f", stride {stage.stride}"
    return text


def _describe_stages(stages: tuple[Stage, ...]) -> str:
    """Return a description for screen readers."""
    rows = "; ".join(_describe_stage(stage) for stage in stages)
    return f"Network of {len(stages)} stages. {rows}"
