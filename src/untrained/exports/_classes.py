"""From blocks to the text of classes: what blocks of one class differ in becomes the arguments of its constructor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent, wrap
from typing import Any

from untrained.exports._expressions import (
    WIDTH,
    Binary,
    Call,
    Lit,
    Made,
    Ref,
    Text,
    finished,
    literals,
    rebuilt,
    wrapped,
    written,
)
from untrained.exports.recording import Line, Recording

TAKEN = ("torch", "nn", "F", "Tensor", "OrderedDict", "Path", "load", "load_file", "self")
_WIDTHS = {"channels", "in_channels", "out_channels", "num_features", "in_features", "out_features", "groups"}


@dataclass(frozen=True)
class Body:
    """What a block consists of. Equal bodies differ in numbers only: they are instances of one class."""

    name: str
    base: str
    doc: str = field(compare=False)
    parts: tuple[Any, ...]  # given to the constructor of the base
    members: tuple[tuple[str, Any], ...]  # attributes, and what makes them; statements where the attribute is ""
    recording: Recording | None  # of the forward pass; None where the base has the right one
    closing: tuple[str, ...] = field(default=(), compare=False)

    @property
    def forward(self) -> tuple[Any, Any]:
        return (self.recording.lines, self.recording.output) if self.recording else ((), ())


@dataclass
class Class:
    """A class in the making: its instances, then its name and text, and what each instance gives for its arguments."""

    instances: list[Body]
    name: str = ""
    given: list[tuple[Lit, ...]] = field(default_factory=list)
    text: str = ""


def settle(classes: Sequence[Class]) -> None:
    """Name and write every class; those that others are made of come first."""
    taken = set(TAKEN)

    def resolved(node: Any) -> Any:
        made = classes[node.kind] if isinstance(node, Made) else None
        return Call(Text(made.name), made.given[node.instance]) if made else node

    for one in classes:
        one.name = free(one.instances[0].name, taken)
        contents = [rebuilt(((body.parts, body.members), body.forward), resolved) for body in one.instances]
        columns = list(zip(*map(literals, contents), strict=True))
        arguments = _arguments(columns, {name for name, _ in one.instances[0].members})
        first: dict[str, int] = {}  # where each argument stands first
        for place, name in arguments.items():
            first.setdefault(name, place)
        one.given = [
            tuple(replace(columns[place][i], hint=name) for name, place in first.items()) for i in range(len(contents))
        ]
        types = {name: columns[place][0].kind for name, place in first.items()}
        one.text = _text(one, types, contents[0], arguments)


def _arguments(columns: Sequence[tuple[Lit, ...]], taken: set[str]) -> dict[int, str]:
    """The places of numbers in which instances differ, each with the name of the argument; equal columns share one."""
    varying: dict[tuple[Any, ...], list[int]] = {}
    for place, column in enumerate(columns):
        values = tuple(part.value for part in column)
        if len(set(values)) > 1:
            varying.setdefault(values, []).append(place)
    taken = taken | set(TAKEN)
    found: dict[int, str] = {}
    for places in varying.values():
        hints = list(dict.fromkeys(columns[place][0].hint for place in places))
        name = free("channels" if len(hints) > 1 and set(hints) <= _WIDTHS else hints[0], taken)
        found |= dict.fromkeys(places, name)
    return dict(sorted(found.items()))


def free(name: str, taken: set[str]) -> str:
    """The name, or one like it, that nothing else has; it is taken then."""
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}{count}" if name[:1].isupper() else f"{name}_{count}"
    taken.add(found)
    return found


# ------------------------------------------------------------------------------------------------------------- text


def _text(one: Class, types: dict[str, str], contents: Any, arguments: dict[int, str]) -> str:
    body, places = one.instances[0], iter(range(len(literals(contents))))
    parts, members = rebuilt(contents[0], _named(arguments, places, ""))
    forward = rebuilt(contents[1], _named(arguments, places, "self."))
    needed = {node.text for node in finished(forward) if isinstance(node, Text)}
    init = [written(Call(Text("super().__init__"), parts))]
    init += [f"self.{name} = {name}" for name in types if f"self.{name}" in needed]
    init += [f"self.{name} = {written(node)}" if name else written(node) for name, node in members]
    init += body.closing
    blocks = [_docstring(body.doc)]
    if len(init) > 1 or parts:
        told = "".join(f", {name}: {kind}" for name, kind in types.items())
        blocks.append(_function(f"def __init__(self{told}) -> None:", init))
    if body.recording:
        inputs = "".join(f", {name}: Tensor" for name in body.recording.inputs)
        returns = " -> Tensor" if isinstance(forward[1], Ref | Text) else ""
        blocks.append(_function(f"def forward(self{inputs}){returns}:", statements(body.recording.inputs, *forward)))
    return f"class {one.name}({body.base}):\n" + "\n\n".join(blocks)


def _named(arguments: dict[int, str], places: Any, prefix: str) -> Callable[[Any], Any]:
    """Puts arguments for the numbers that vary, in the order in which numbers come."""

    def change(node: Any) -> Any:
        name = arguments.get(next(places)) if isinstance(node, Lit) else None
        return Text(prefix + name) if name else node

    return change


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([wrapped(head, 4), *(wrapped(line, 8) for line in lines)])


def _docstring(text: str) -> str:
    lines = wrap(text, WIDTH - 10)
    return indent('"""' + "\n".join(lines) + ('"""' if len(lines) == 1 else '\n"""'), "    ")


def statements(inputs: Sequence[str], lines: Sequence[Line], output: Any) -> list[str]:
    """The lines of a forward pass: unused values dropped, values that are used at once put where they are used."""
    names: dict[int, str] = {}
    taken, found = {*inputs, *TAKEN}, []
    kept = _folded(_needed([*lines, Line((), output, True)]))
    used = set(_refs(kept))
    for line in kept[:-1]:
        said = written(line.expression, names)
        for target in line.targets:
            names[target] = _value_name(line.expression, taken) if target in used else "_"
        told = ", ".join(names[target] for target in line.targets)
        found.append(f"{told} = {said}" if used & set(line.targets) else said)
    return [*found, f"return {written(kept[-1].expression, names)}"]


def _refs(lines: Sequence[Line]) -> list[int]:
    return [node.index for line in lines for node in finished(line.expression) if isinstance(node, Ref)]


def _needed(lines: Sequence[Line]) -> list[Line]:
    used: set[int] = set()
    kept: list[Line] = []
    for line in reversed(lines):
        if line.acts or used & set(line.targets):
            used |= set(_refs([line]))
            kept.insert(0, line)
    return kept


def _folded(lines: Sequence[Line]) -> list[Line]:
    """Put a value into the next statement where it is used there, once, and nothing else is computed before it."""
    uses, kept = _refs(lines), list[Line]()
    for line in lines:
        while kept and len(kept[-1].targets) == 1 and uses.count(kept[-1].targets[0]) == 1 and _fits(kept[-1], line):
            line = _within(kept.pop(), line)
        kept.append(line)
    return kept


def _within(former: Line, line: Line) -> Line:
    value = Ref(former.targets[0])
    return replace(line, expression=rebuilt(line.expression, lambda node: former.expression if node == value else node))


def _fits(former: Line, line: Line) -> bool:
    if isinstance(former.expression, Binary) and former.expression.operator == "=":
        return False
    value = Ref(former.targets[0])
    calls = sum(isinstance(node, Call) for node in finished((former.expression, line.expression)))
    small = calls <= 4 and len(written(former.expression)) < WIDTH // 2
    before = next(
        (node for node in finished(line.expression) if not isinstance(node, Text | Lit | Ref) or node == value), None
    )
    return before == value and (small or line.expression == value)


def _value_name(expression: Any, taken: set[str]) -> str:
    """After the part of the network that made the value; otherwise x1, x2, ..."""
    path = expression.function.text if isinstance(expression, Call) and isinstance(expression.function, Text) else ""
    words = "_".join("".join(c if c.isalnum() or c == "_" else " " for c in path).split()[1:])
    if path.startswith("self.") and words.isidentifier():
        return free(words, taken)
    return free(next(name for n in range(1, len(taken) + 2) if (name := f"x{n}") not in taken), taken)
