"""A transformer, read downwards: a row for every layer, a square for every head, a bar as long as the MLP is wide."""

from untrained.reports.svg.style import CHAR, LINE, bar, frame, words
from untrained.spaces.core.diagrams import TransformerLayers

_NUMBER = 44.0  # the column of layer numbers
_GAP = 10.0
_ROW = 22.0
_HEAD, _PITCH = 11.0, 15.0  # side of a square, and from one square to the next
_MOST = 560.0  # wider, the eye no longer follows a row


def draw_layers(sketch: TransformerLayers, room: float) -> str:
    """One row a layer: its number, its heads, the ratio and the width of its MLP."""
    width, rows = min(room, _MOST), list(zip(sketch.heads, sketch.ratios, strict=True))
    mlp = _NUMBER + max(_PITCH * max(sketch.heads, default=0), CHAR * len("heads")) + 2 * _GAP
    numbers = max((CHAR * len(_mlp(sketch, ratio)) for ratio in sketch.ratios), default=0.0)
    longest = max(width - mlp - _GAP - numbers, 40.0) / max(sketch.ratios, default=1.0)
    parts = [
        words("layer", _NUMBER - _GAP, LINE / 2, "soft end"),
        words("heads", _NUMBER, LINE / 2, "soft"),
        words(f"MLP: ratio \u00d7 {sketch.embed}", mlp, LINE / 2, "soft"),
        f'<line class="rule" x1="0" x2="{width:.1f}" y1="{LINE:.1f}" y2="{LINE:.1f}"/>',
    ]
    for n, (heads, ratio) in enumerate(rows):
        y = LINE + _GAP / 2 + _ROW * (n + 0.5)
        squares = [bar((_NUMBER + _PITCH * h, y - _HEAD / 2, _HEAD, _HEAD), "part op-heads") for h in range(heads)]
        wide = bar((mlp, y - _HEAD / 2, longest * ratio, _HEAD), "bar op-mlp")
        said = f"<title>Layer {n + 1}: {heads} heads, MLP {_mlp(sketch, ratio)}</title>"
        number = words(str(n + 1), _NUMBER - _GAP, y, "soft end")
        text = words(_mlp(sketch, ratio), mlp + longest * ratio + _GAP, y)
        parts.append(f'<g class="row">{said}{number}{"".join(squares)}{wide}{text}</g>')
    height = LINE + _GAP / 2 + _ROW * len(rows)
    return frame("list", (0.0, 0.0, width, height), _spoken(sketch), parts)


def _mlp(sketch: TransformerLayers, ratio: float) -> str:
    return f"{ratio:g} = {int(sketch.embed * ratio)}"


def _spoken(sketch: TransformerLayers) -> str:
    rows = zip(sketch.heads, sketch.ratios, strict=True)
    layers = [f"{heads} heads, MLP ratio {ratio:g}" for heads, ratio in rows]
    return f"Transformer of width {sketch.embed} with {len(layers)} layers. " + "; ".join(layers)
