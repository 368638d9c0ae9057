"""The console for tables, data cards and progress bars."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from untrained.cli.terminal.text import clean_text


class SafeConsole(Console):
    """A rich console that shows control characters in texts as a replacement character."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                # rich itself emits this control code, for example to redraw a progress bar.
                yield segment
            else:
                yield Segment(clean_text(segment.text), segment.style)

    def print_plain(self, text: str, *, wrap: bool = True) -> None:
        """Print text without markup and without colours for numbers.

        Args:
            text: What to print.
            wrap: Whether rich wraps long lines. Lines with paths and commands are not wrapped by
                rich but by the terminal, so that they can be copied.
        """
        # Names of files and options contain square brackets, which are markup in rich.
        self.print(escape(text), highlight=False, soft_wrap=not wrap)
