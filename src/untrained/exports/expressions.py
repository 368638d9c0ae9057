"""Data classes for the Python expressions of constructors and forward passes.

Two expressions compare equal if they differ only in their numbers (`Literal` compares by type), so
blocks that differ only in their widths are recognised as instances of one class. This module does
not depend on torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

LINE_WIDTH = 100

_T = TypeVar("_T")


@dataclass(frozen=True)
class Code:
    """Source text that is used unchanged."""

    text: str


@dataclass(frozen=True)
class ValueRef:
    """A value that an earlier statement of the forward pass computed, by its number."""

    index: int


@dataclass(frozen=True)
class Literal:
    """A number or truth value that may differ between two blocks of one class.

    Attributes:
        value: The number. It does not take part in comparisons.
        kind: The name of its type.
        hint: The name of the constructor argument if blocks differ in this number.
    """

    value: Any = field(compare=False)
    kind: str
    hint: str = field(default="size", compare=False)


@dataclass(frozen=True)
class Keyword:
    """`name=value` in a call. It is left out if the source of the value equals the default."""

    name: str
    value: "Expression"
    default: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Call:
    """`function(*args)`."""

    function: "Expression"
    args: tuple["Expression", ...] = ()


@dataclass(frozen=True)
class Binary:
    """`left operator right`; also an assignment to a subscript, with the operator `=`."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True)
class Unary:
    """An operator before its only operand."""

    operator: str
    operand: "Expression"


@dataclass(frozen=True)
class Subscript:
    """`base[items]`."""

    base: "Expression"
    items: tuple["Expression", ...]


@dataclass(frozen=True)
class Slice:
    """`start:stop:step`, where an end that is `NONE` is left out."""

    start: "Expression"
    stop: "Expression"
    step: "Expression"


@dataclass(frozen=True)
class Attribute:
    """`base.name`."""

    base: "Expression"
    name: str


@dataclass(frozen=True)
class Collection:
    """`[a, b]`, `(a, b)` or, with `KeyValue` items, `{"a": b}`."""

    brackets: str
    items: tuple["Expression", ...]


@dataclass(frozen=True)
class KeyValue:
    """One item of a dictionary."""

    key: str
    value: "Expression"


@dataclass(frozen=True)
class InstanceRef:
    """An instance of a generated class: the indices of the class and of the instance."""

    class_index: int
    instance: int = field(compare=False)


Expression = (
    Code
    | ValueRef
    | Literal
    | Keyword
    | Call
    | Binary
    | Unary
    | Subscript
    | Slice
    | Attribute
    | Collection
    | KeyValue
    | InstanceRef
)

NONE = Code("None")


def make_literal(value: Any, hint: str = "size") -> Literal:
    """Wrap a number or truth value."""
    return Literal(value, type(value).__name__, hint)


# ------------------------------------------------------------------------------------- traversal


def transform_tree(node: _T, change: Callable[[Any], Any]) -> _T:
    """Copy a tree of expressions and replace nodes on the way.

    Args:
        node: An expression, a statement, or a tuple of such.
        change: Called with every node from left to right. If it returns another node, that node is
            used unchanged, and the children of the old one are not visited.

    Returns:
        The new tree.
    """
    new: Any = change(node)
    if new is not node:
        return new  # type: ignore[no-any-return]
    if isinstance(node, tuple):
        return tuple(transform_tree(item, change) for item in node)  # type: ignore[return-value]
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {}
    for part in fields(node):
        parts[part.name] = transform_tree(getattr(node, part.name), change)
    return replace(node, **parts)


def iterate_nodes(node: Any) -> Iterator[Any]:
    """Yield all nodes of a tree in the order in which Python finishes evaluating them."""
    if isinstance(node, tuple):
        for item in node:
            yield from iterate_nodes(item)
    elif is_dataclass(node):
        for part in fields(node):
            yield from iterate_nodes(getattr(node, part.name))
        yield node


def list_literals(node: Any) -> list[Literal]:
    """Return the literals of a tree from left to right."""
    return [part for part in iterate_nodes(node) if isinstance(part, Literal)]


# ------------------------------------------------------------------------------------- formatting


def format_expression(expression: Expression, names: Mapping[int, str] | None = None) -> str:
    """Return the source of an expression.

    Args:
        expression: The expression.
        names: Variable names of the values that the expression refers to, by their numbers.
    """
    return _Formatter(names or {}).format(expression)


class _Formatter:
    """Formats expressions with the given variable names."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def format(self, node: Expression) -> str:
        match node:
            case Code(text):
                return text
            case ValueRef(index):
                return self._names.get(index, f"x{index}")
            case Literal(value):
                return repr(value)
            case Keyword(name, value):
                return f"{name}={self.format(value)}"
            case Call(function, args):
                return self._format_call(function, args)
            case Unary(operator, operand):
                return f"{operator}{self._format_operand(operand)}"
            case Binary():
                return self._format_binary(node)
            case Subscript(base, items):
                return f"{self._format_operand(base)}[{self._join(items)}]"
            case Slice():
                return self._format_slice(node)
            case Attribute(base, name):
                return f"{self._format_operand(base)}.{name}"
            case KeyValue(key, value):
                return f"{key}: {self.format(value)}"
            case Collection(brackets, items):
                # A tuple of one item needs a comma to be a tuple.
                comma = "," if brackets == "()" and len(items) == 1 else ""
                return f"{brackets[0]}{self._join(items)}{comma}{brackets[1]}"
        raise TypeError(f"cannot write source for {node!r}")

    def _join(self, nodes: Sequence[Expression]) -> str:
        return ", ".join(map(self.format, nodes))

    def _format_operand(self, node: Expression) -> str:
        """Format an operand, in parentheses if it binds less tightly than its operator."""
        is_negative = isinstance(node, Literal) and node.value < 0
        if isinstance(node, Binary | Unary) or is_negative:
            return f"({self.format(node)})"
        return self.format(node)

    def _format_call(self, function: Expression, args: Sequence[Expression]) -> str:
        shown = []
        for arg in args:
            if isinstance(arg, Keyword) and self.format(arg.value) == arg.default:
                continue
            shown.append(arg)
        return f"{self._format_operand(function)}({self._join(shown)})"

    def _format_binary(self, node: Binary) -> str:
        # A sum of several terms is written without parentheses.
        is_sum = node.operator == "+"
        if is_sum and isinstance(node.left, Binary) and node.left.operator == "+":
            left = self.format(node.left)
        else:
            left = self._format_operand(node.left)
        if isinstance(node.right, Literal):
            right = self.format(node.right)
        else:
            right = self._format_operand(node.right)
        # `x**2`, but `x.mean() ** 2`: the layout that formatters choose.
        if node.operator == "**" and not isinstance(node.left, Call | Subscript):
            return f"{left}**{right}"
        return f"{left} {node.operator} {right}"

    def _format_slice(self, node: Slice) -> str:
        start = self._format_slice_end(node.start)
        stop = self._format_slice_end(node.stop)
        step = self._format_slice_end(node.step)
        if step:
            return f"{start}:{stop}:{step}"
        return f"{start}:{stop}"

    def _format_slice_end(self, node: Expression) -> str:
        if node == NONE:
            return ""
        return self.format(node)


def wrap_statement(statement: str, indent: int) -> str:
    """Indent a statement, and break it inside its last brackets if it is too long."""
    margin = " " * indent
    start, end = _find_last_brackets(statement)
    has_content = end > start + 1
    if indent + len(statement) <= LINE_WIDTH or not has_content:
        return margin + statement
    head = statement[: start + 1]
    content = statement[start + 1 : end]
    tail = statement[end:]
    if indent + 4 + len(content) <= LINE_WIDTH:
        body = f"{margin}    {content}"
    else:
        lines = []
        for item in _split_at_commas(content):
            lines.append(wrap_statement(f"{item},", indent + 4))
        body = "\n".join(lines)
    return f"{margin}{head}\n{body}\n{margin}{tail}"


def _find_last_brackets(statement: str) -> tuple[int, int]:
    """Return where the last brackets open and close, or (-1, -1) if there are none."""
    end = max(map(statement.rfind, ")]}"))
    depth = 0
    for position in range(end, -1, -1):
        depth -= _get_nesting_change(statement[position])
        if depth == 0:
            return position, end
    return -1, -1


def _split_at_commas(text: str) -> list[str]:
    """Split at the commas that are not inside further brackets."""
    items = []
    depth = 0
    start = 0
    for position, character in enumerate(text):
        depth += _get_nesting_change(character)
        if character == "," and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    items.append(text[start:].strip())
    return [item for item in items if item]


def _get_nesting_change(character: str) -> int:
    """Return 1 for an opening bracket, -1 for a closing one, 0 for anything else."""
    if character in "([{":
        return 1
    if character in ")]}":
        return -1
    return 0
