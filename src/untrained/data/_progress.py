"""Who wants to know how far the reading of pictures is. Data are opened from many rooms, whose functions need not hand
a listener on for that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], None]  # pictures done, and of how many
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this block the listener is told."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(done: int, total: int) -> None:
    if listener := _LISTENER.get():
        listener(done, total)
