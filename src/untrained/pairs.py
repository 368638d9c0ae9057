"""`depth=3,kernels=(3,5)`: names and values as text, the form of most architectures."""

from collections.abc import Iterable, Iterator


def format_pairs(pairs: Iterable[tuple[str, int | float | str]]) -> str:
    """Write `name=value` pairs. A value that would otherwise be parsed differently is quoted."""
    texts = []
    for name, value in pairs:
        text = str(value)
        if isinstance(value, str) and not _is_plain(value):
            text = repr(value)
        texts.append(f"{name}={text}")
    return ",".join(texts)


def _is_plain(text: str) -> bool:
    """Return whether a text needs no quotes, because it would be parsed back unchanged."""
    if not text.isprintable() or text != text.strip() or set(text) & set("'\""):
        return False
    # An unclosed bracket would hide the comma that follows the value.
    parts = [part for _, part in split_pairs(f"{text},")]
    return parts == [text, ""]


def split_pairs(text: str) -> list[tuple[int, str]]:
    """Split a text at its commas, except inside brackets and quotes.

    Returns:
        The position of every part in the text, and the part.
    """
    parts = []
    start = 0
    for position, character, depth in _scan_brackets(text):
        if character == "," and depth == 0:
            parts.append((start, text[start:position]))
            start = position + 1
    parts.append((start, text[start:]))
    return parts


def find_options(text: str) -> int:
    """Return the position of the bracket that opens the options at the end of a name.

    A folder in a name may contain brackets too: in `./nets (1)/mine.py:net(depth=2)`, the options
    are `(depth=2)`.

    Args:
        text: A name with or without options, without spaces at its end.

    Returns:
        The position; the length of the text if there are no options.
    """
    opening = 0
    closing = -1
    for position, character, depth in _scan_brackets(text):
        if character == "(" and depth == 1:
            opening = position
        elif character == ")" and depth == 0:
            closing = position
    # A bracket at the start would leave no name.
    if closing == len(text) - 1 and opening > 0:
        return opening
    return len(text)


def _scan_brackets(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and number of open brackets for all characters outside quotes."""
    depth = 0
    quote = ""
    is_escaped = False
    for position, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif quote:
            if character == "\\":
                is_escaped = True
            elif character == quote:
                quote = ""
        elif character in ("'", '"') and not text[max(position - 1, 0)].isalnum():
            # Inside a word it is an apostrophe, as in the path ./it's/mine.py.
            quote = character
        else:
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
            yield position, character, depth
