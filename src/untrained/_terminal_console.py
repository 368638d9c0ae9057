"""The console that tables, cards and progress bars are printed on."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from untrained._terminal_text import clean_text


class SafeConsole(Console):
    """A console of rich on which texts cannot give orders to the terminal; colours and bars still do."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # an order of rich itself, such as those that move a bar
                yield segment
            else:
                yield Segment(clean_text(segment.text), segment.style)
