"""Drawing of a transformer: per layer one row with a square per head and a bar for its MLP."""

from untrained.drawings.diagrams import TransformerLayers
from untrained.drawings.elements import (
    CHAR_WIDTH,
    LABEL_HEIGHT,
    Drawing,
    draw_rect,
    draw_text,
)

_NUMBER_WIDTH = 44.0  # column of layer numbers
_GAP = 10.0
_ROW_HEIGHT = 22.0
_SQUARE_SIDE = 11.0
_SQUARE_DISTANCE = 15.0  # from one square to the next
_MAX_WIDTH = 560.0  # wider rows are hard to follow


def draw_layers(network: TransformerLayers, max_width: float) -> Drawing:
    """Draw one row per layer: its number, its heads, the ratio and the width of its MLP."""
    width = min(max_width, _MAX_WIDTH)
    heads_width = max(_SQUARE_DISTANCE * max(network.heads, default=0), CHAR_WIDTH * len("heads"))
    bars_left = _NUMBER_WIDTH + heads_width + 2 * _GAP
    # The texts end the rows, so the longest one decides how much space is left for bars.
    texts = [_format_mlp(network, ratio) for ratio in network.ratios]
    text_width = CHAR_WIDTH * max((len(text) for text in texts), default=0)
    longest_bar = max(width - bars_left - _GAP - text_width, 40.0)
    bar_length = longest_bar / max(network.ratios, default=1.0)  # of ratio 1
    heading = LABEL_HEIGHT / 2
    parts = [
        draw_text("layer", _NUMBER_WIDTH - _GAP, heading, "soft end"),
        draw_text("heads", _NUMBER_WIDTH, heading, "soft"),
        draw_text(f"MLP: ratio \u00d7 {network.embed}", bars_left, heading, "soft"),
        f'<line class="rule" x1="0" x2="{width:.1f}" '
        f'y1="{LABEL_HEIGHT:.1f}" y2="{LABEL_HEIGHT:.1f}"/>',
    ]
    top = LABEL_HEIGHT + _GAP / 2
    rows = zip(network.heads, network.ratios, texts, strict=True)
    for number, (heads, ratio, text) in enumerate(rows, 1):
        y = top + _ROW_HEIGHT * (number - 0.5)
        square_top = y - _SQUARE_SIDE / 2
        row = [f"<title>Layer {number}: {heads} heads, MLP {text}</title>"]
        row.append(draw_text(str(number), _NUMBER_WIDTH - _GAP, y, "soft end"))
        for head in range(heads):
            left = _NUMBER_WIDTH + _SQUARE_DISTANCE * head
            row.append(draw_rect((left, square_top, _SQUARE_SIDE, _SQUARE_SIDE), "part op-heads"))
        length = bar_length * ratio
        row.append(draw_rect((bars_left, square_top, length, _SQUARE_SIDE), "bar op-mlp"))
        row.append(draw_text(text, bars_left + length + _GAP, y))
        parts.append(f'<g class="row">{"".join(row)}</g>')
    height = top + _ROW_HEIGHT * len(texts)
    return Drawing("list", (0.0, 0.0, width, height), _describe_layers(network), parts)


def _format_mlp(network: TransformerLayers, ratio: float) -> str:
    return f"{ratio:g} = {int(network.embed * ratio)}"


def _describe_layers(network: TransformerLayers) -> str:
    """Return a description for screen readers."""
    layers = []
    for heads, ratio in zip(network.heads, network.ratios, strict=True):
        layers.append(f"{heads} heads, MLP ratio {ratio:g}")
    title = f"Transformer of width {network.embed} with {len(layers)} layers. "
    return title + "; ".join(layers)
