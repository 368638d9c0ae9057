"""Python expressions as data: enough to write down what a network is made of and what it computes.

Two expressions are equal when they differ in numbers only (`Lit` compares by type), so that blocks which differ in
their widths are found to be one class. This file knows nothing of torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

WIDTH = 120  # of a line


@dataclass(frozen=True)
class Text:
    """Source as it stands."""

    text: str


@dataclass(frozen=True)
class Ref:
    """The value with this number among those that a forward pass makes."""

    index: int


@dataclass(frozen=True)
class Lit:
    """A number or truth value that may differ between blocks of one class; `hint` is what to call it then."""

    value: Any = field(compare=False)
    kind: str
    hint: str = field(default="size", compare=False)


@dataclass(frozen=True)
class Option:
    """`name=value` in a call; left out where it is written like its default."""

    name: str
    value: Any
    default: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Call:
    function: Any
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Unary:
    operator: str
    operand: Any


@dataclass(frozen=True)
class Index:
    base: Any
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Slice:
    start: Any
    stop: Any
    step: Any


@dataclass(frozen=True)
class Attribute:
    base: Any
    name: str


@dataclass(frozen=True)
class Listing:
    """`[a, b]`, `(a, b)`, or with pairs of key and value `{"a": b}`."""

    brackets: str
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    key: str
    value: Any


@dataclass(frozen=True)
class Made:
    """An instance of a class that is written too: the number of the class, and which instance of it."""

    kind: int
    instance: int = field(compare=False)


NONE = Text("None")


def lit(value: Any, hint: str = "size") -> Lit:
    return Lit(value, type(value).__name__, hint)


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with every node given to `change`, from left to right; what it changes is not looked into."""
    new = change(node)
    if new is not node:
        return new
    if isinstance(node, tuple):
        return tuple(rebuilt(item, change) for item in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    return replace(node, **{part.name: rebuilt(getattr(node, part.name), change) for part in fields(node)})


def finished(node: Any) -> Iterator[Any]:
    """Every node below and at `node`, in the order in which Python is done with them."""
    if isinstance(node, tuple):
        for item in node:
            yield from finished(item)
    elif is_dataclass(node):
        for part in fields(node):
            yield from finished(getattr(node, part.name))
        yield node


def literals(node: Any) -> list[Lit]:
    return [part for part in finished(node) if isinstance(part, Lit)]


# ------------------------------------------------------------------------------------------------------- printing


def written(node: Any, names: Mapping[int, str] | None = None) -> str:
    """Source of an expression; `names` are those of the values it refers to."""
    names = names or {}

    def inner(part: Any) -> str:
        return written(part, names)

    def tight(part: Any) -> str:
        """As an operand: brackets around what binds less."""
        loose = isinstance(part, Binary | Unary) or (isinstance(part, Lit) and part.value < 0)
        return f"({inner(part)})" if loose else inner(part)

    match node:
        case Text(text):
            return text
        case Ref(index):
            return names.get(index, f"x{index}")
        case Lit(value):
            return repr(value)
        case Option(name, value):
            return f"{name}={inner(value)}"
        case Call(function, args):
            told = (arg for arg in args if not (isinstance(arg, Option) and inner(arg.value) == arg.default))
            return f"{tight(function)}({', '.join(map(inner, told))})"
        case Unary(operator, operand):
            return f"{operator}{tight(operand)}"
        case Binary(operator, left, right):
            chain = operator == "+" and isinstance(left, Binary) and left.operator == "+"
            close = operator == "**" and not isinstance(left, Call | Index)
            a, b = inner(left) if chain else tight(left), inner(right) if isinstance(right, Lit) else tight(right)
            return f"{a}{operator}{b}" if close else f"{a} {operator} {b}"
        case Index(base, items):
            return f"{tight(base)}[{', '.join(map(inner, items))}]"
        case Slice(start, stop, step):
            ends = ["" if end == NONE else inner(end) for end in (start, stop, step)]
            return f"{ends[0]}:{ends[1]}" + (f":{ends[2]}" if ends[2] else "")
        case Attribute(base, name):
            return f"{tight(base)}.{name}"
        case Pair(key, value):
            return f"{key}: {inner(value)}"
        case Listing(brackets, items):
            comma = "," if brackets == "()" and len(items) == 1 else ""
            return f"{brackets[0]}{', '.join(map(inner, items))}{comma}{brackets[1]}"
    raise TypeError(f"no source for {node!r}")


def wrapped(line: str, indent: int) -> str:
    """A statement at this depth, broken inside of its last brackets where it is too long."""
    start, end = _brackets(line)
    if indent + len(line) <= WIDTH or end <= start + 1:
        return " " * indent + line
    head, inside, tail = line[: start + 1], line[start + 1 : end], line[end:]
    if indent + 4 + len(inside) <= WIDTH:
        body = " " * (indent + 4) + inside
    else:
        body = "\n".join(wrapped(f"{item},", indent + 4) for item in _split(inside))
    return f"{' ' * indent}{head}\n{body}\n{' ' * indent}{tail}"


def _brackets(line: str) -> tuple[int, int]:
    """Where the line's last brackets open and close; nowhere, (-1, -1), where there are none."""
    end = max(map(line.rfind, ")]}"))
    depth = 0
    for place in range(end, -1, -1):
        depth += (line[place] in ")]}") - (line[place] in "([{")
        if depth == 0:
            return place, end
    return -1, -1


def _split(inside: str) -> list[str]:
    """At the commas that are inside of no further brackets."""
    items, depth, start = [], 0, 0
    for place, character in enumerate(inside):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            items.append(inside[start:place])
            start = place + 1
    return [item.strip() for item in (*items, inside[start:]) if item.strip()]
