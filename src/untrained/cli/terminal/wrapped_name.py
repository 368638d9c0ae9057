"""Names of architectures and proxies in the cells of tables, broken only between their parts."""

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

# The characters after which a name may be broken: `depth=2,` or `nor_conv_3x3~0|`.
_SEPARATORS = ",;|+/ "
_PART = re.compile(f"[^{_SEPARATORS}]*[{_SEPARATORS}]+|[^{_SEPARATORS}]+")


def wrap_name(name: str, width: int) -> list[str]:
    """Break a name into lines, after a separator where that is possible.

    Args:
        name: Such as `depth=2,width1=64`.
        width: Columns of a line. A part that is longer than this is broken anywhere.
    """
    lines = [""]
    for part in _PART.findall(name):
        # A space at the end of a line does not count towards its width.
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
        while cell_len(lines[-1].rstrip()) > width:
            start = _cut(lines[-1], width)
            lines.append(lines[-1][len(start) :])
            lines[-2] = start
    return [line.rstrip() for line in lines]


def _cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits, but at least one character."""
    count = 1
    while count < len(text) and cell_len(text[: count + 1]) <= width:
        count += 1
    return text[:count]


class WrappedName:
    """A name in a cell of a table, which is not broken in the middle of a word.

    rich itself breaks texts without spaces after any character.

    Args:
        name: The name, without markup.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        parts = _PART.findall(self.name)
        widest_part = max((cell_len(part.rstrip()) for part in parts), default=0)
        measurement = Measurement(widest_part, cell_len(self.name))
        return measurement.with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text("\n".join(wrap_name(self.name, options.max_width)), overflow="fold")
