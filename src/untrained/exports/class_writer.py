"""Generate the source of classes from traced blocks.

Blocks that differ only in numbers are instances of one class, and these numbers become arguments of
its constructor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent, wrap

from untrained.exports.expressions import (
    LINE_WIDTH,
    Binary,
    Call,
    Code,
    Expression,
    InstanceRef,
    Literal,
    ValueRef,
    format_expression,
    iterate_nodes,
    list_literals,
    transform_tree,
    wrap_statement,
)
from untrained.exports.tracing import Statement, Trace

# Names that the generated module uses itself.
RESERVED_NAMES = ("torch", "nn", "F", "Tensor", "OrderedDict", "Path", "load", "load_file", "self")

# Arguments of layers that are numbers of channels.
_CHANNEL_ARGUMENTS = {
    "channels",
    "in_channels",
    "out_channels",
    "num_features",
    "in_features",
    "out_features",
    "groups",
}

_MAX_CALLS_PER_LINE = 4


@dataclass(frozen=True)
class Block:
    """The parts of a block. Blocks that compare equal differ only in numbers and share one class.

    Attributes:
        name: The preferred name of its class.
        base: The base class.
        doc: The docstring.
        base_arguments: Arguments for the constructor of the base class.
        members: Names and values of the attributes. A member without a name is a statement, such as
            a call of `register_buffer`.
        trace: The forward pass; None if it is inherited from the base class.
        last_statements: Source at the end of the constructor.
    """

    name: str
    base: str
    doc: str = field(compare=False)
    base_arguments: tuple[Expression, ...]
    members: tuple[tuple[str, Expression], ...]
    trace: Trace | None
    last_statements: tuple[str, ...] = field(default=(), compare=False)


@dataclass
class BlockClass:
    """A generated class.

    Attributes:
        instances: The blocks that are instances of it.
        name: Its name.
        arguments: Constructor arguments of each instance.
        text: The source.
    """

    instances: list[Block]
    name: str = ""
    arguments: list[tuple[Literal, ...]] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True)
class _Content:
    """The expressions of one block, with constructor calls of the classes that it contains."""

    base_arguments: tuple[Expression, ...]
    members: tuple[tuple[str, Expression], ...]
    statements: tuple[Statement, ...]
    output: Expression | None


def write_classes(classes: Sequence[BlockClass]) -> None:
    """Choose the name and write the text of every class.

    Args:
        classes: The classes. A class comes after those that it contains.
    """
    taken_names = set(RESERVED_NAMES)
    for block_class in classes:
        first = block_class.instances[0]
        block_class.name = take_free_name(first.name, taken_names)
        contents = [_resolve_instances(block, classes) for block in block_class.instances]
        literals_of_instances = [list_literals(content) for content in contents]
        # One column per literal, with its value in each instance.
        columns = list(zip(*literals_of_instances, strict=True))
        member_names = {name for name, _ in first.members}
        argument_names = _name_varying_literals(columns, member_names)
        # Several literals may share an argument; the first one gives its value.
        first_positions: dict[str, int] = {}
        for position, name in argument_names.items():
            first_positions.setdefault(name, position)
        for instance in range(len(contents)):
            arguments = []
            for name, position in first_positions.items():
                arguments.append(replace(columns[position][instance], hint=name))
            block_class.arguments.append(tuple(arguments))
        argument_types = {
            name: columns[position][0].kind for name, position in first_positions.items()
        }
        block_class.text = _write_class(block_class, argument_types, contents[0], argument_names)


def _resolve_instances(block: Block, classes: Sequence[BlockClass]) -> _Content:
    """Replace instances of other classes by constructor calls."""

    def resolve(node: object) -> object:
        if not isinstance(node, InstanceRef):
            return node
        block_class = classes[node.class_index]
        return Call(Code(block_class.name), block_class.arguments[node.instance])

    content = _Content(block.base_arguments, block.members, (), None)
    if block.trace is not None:
        content = replace(content, statements=block.trace.statements, output=block.trace.output)
    return transform_tree(content, resolve)


def _name_varying_literals(
    columns: Sequence[tuple[Literal, ...]], member_names: set[str]
) -> dict[int, str]:
    """Name the literals in which instances differ.

    Literals that are equal in every instance share one name.

    Returns:
        Names of arguments by the positions of the literals, in the order of the positions.
    """
    positions_by_values: dict[tuple[object, ...], list[int]] = {}
    for position, column in enumerate(columns):
        values = tuple(literal.value for literal in column)
        if len(set(values)) > 1:
            positions_by_values.setdefault(values, []).append(position)
    taken_names = member_names | set(RESERVED_NAMES)
    names: dict[int, str] = {}
    for positions in positions_by_values.values():
        hints = list(dict.fromkeys(columns[position][0].hint for position in positions))
        preferred_name = hints[0]
        if len(hints) > 1 and set(hints) <= _CHANNEL_ARGUMENTS:
            preferred_name = "channels"
        name = take_free_name(preferred_name, taken_names)
        for position in positions:
            names[position] = name
    return dict(sorted(names.items()))


def take_free_name(name: str, taken_names: set[str]) -> str:
    """Return the name, with a number if it is taken, and add it to the taken names."""
    candidate = name
    number = 1
    is_class = name[:1].isupper()
    while candidate in taken_names:
        number += 1
        candidate = f"{name}{number}" if is_class else f"{name}_{number}"
    taken_names.add(candidate)
    return candidate


# ------------------------------------------------------------------------------- text of a class


def _write_class(
    block_class: BlockClass,
    argument_types: dict[str, str],
    content: _Content,
    argument_names: dict[int, str],
) -> str:
    """Return the source of a class.

    Args:
        block_class: The class, with its name.
        argument_types: Names and types of the constructor arguments.
        content: The expressions of the first instance.
        argument_names: Names of arguments by the positions of the literals that they replace.
    """
    block = block_class.instances[0]
    # The positions of literals continue from the constructor to the forward pass, so both share one
    # iterator. In the constructor an argument is a local variable, in the forward pass it is an
    # attribute.
    positions = iter(range(len(list_literals(content))))
    constructor = transform_tree(
        (content.base_arguments, content.members), _insert_names(argument_names, positions, "")
    )
    forward = transform_tree(
        (content.statements, content.output), _insert_names(argument_names, positions, "self.")
    )
    sections = [_format_docstring(block.doc)]
    base_arguments, members = constructor
    lines = [format_expression(Call(Code("super().__init__"), base_arguments))]
    codes_in_forward = {node.text for node in iterate_nodes(forward) if isinstance(node, Code)}
    for name in argument_types:
        if f"self.{name}" in codes_in_forward:
            lines.append(f"self.{name} = {name}")
    for name, expression in members:
        source = format_expression(expression)
        lines.append(f"self.{name} = {source}" if name else source)
    lines.extend(block.last_statements)
    # A constructor that only calls the one of the base class is not needed.
    if len(lines) > 1 or base_arguments:
        parameters = "".join(f", {name}: {kind}" for name, kind in argument_types.items())
        sections.append(_format_function(f"def __init__(self{parameters}) -> None:", lines))
    if block.trace is not None:
        statements, output = forward
        assert output is not None  # every trace has an output
        parameters = "".join(f", {name}: Tensor" for name in block.trace.inputs)
        returns = " -> Tensor" if isinstance(output, ValueRef | Code) else ""
        lines = format_statements(block.trace.inputs, statements, output)
        sections.append(_format_function(f"def forward(self{parameters}){returns}:", lines))
    return f"class {block_class.name}({block.base}):\n" + "\n\n".join(sections)


def _insert_names(
    argument_names: dict[int, str], positions: Iterator[int], prefix: str
) -> Callable[[object], object]:
    """Make a function for `transform_tree` that replaces varying literals by names of arguments."""

    def insert_name(node: object) -> object:
        if not isinstance(node, Literal):
            return node
        name = argument_names.get(next(positions))
        if name is None:
            return node
        return Code(prefix + name)

    return insert_name


def _format_function(head: str, statements: Sequence[str]) -> str:
    lines = [wrap_statement(head, 4)]
    for statement in statements:
        lines.append(wrap_statement(statement, 8))
    return "\n".join(lines)


def _format_docstring(text: str) -> str:
    lines = wrap(text, LINE_WIDTH - 10)
    end = '"""' if len(lines) == 1 else '\n"""'
    return indent('"""' + "\n".join(lines) + end, "    ")


# ---------------------------------------------------------------------- text of a forward pass


def format_statements(
    inputs: Sequence[str], statements: Sequence[Statement], output: Expression
) -> list[str]:
    """Generate the body of a forward pass.

    Statements whose values are not used are dropped, and a value that only the next statement uses
    is inlined.

    Args:
        inputs: The names of the inputs.
        statements: The statements of the pass.
        output: The expression that is returned.

    Returns:
        The lines.
    """
    return_statement = Statement((), output, has_effect=True)
    remaining = _inline_values(_drop_unused_statements([*statements, return_statement]))
    used_values = set(_list_used_values(remaining))
    taken_names = {*inputs, *RESERVED_NAMES}
    names: dict[int, str] = {}
    lines = []
    for statement in remaining[:-1]:
        # The right side is formatted before its targets get names, since it cannot use them.
        source = format_expression(statement.expression, names)
        for target in statement.targets:
            if target in used_values:
                names[target] = _choose_value_name(statement.expression, taken_names)
            else:
                names[target] = "_"
        if used_values & set(statement.targets):
            targets = ", ".join(names[target] for target in statement.targets)
            lines.append(f"{targets} = {source}")
        else:
            lines.append(source)
    lines.append(f"return {format_expression(remaining[-1].expression, names)}")
    return lines


def _list_used_values(statements: Sequence[Statement]) -> list[int]:
    """Return the numbers of the values that statements use, once per use."""
    values = []
    for statement in statements:
        for node in iterate_nodes(statement.expression):
            if isinstance(node, ValueRef):
                values.append(node.index)
    return values


def _drop_unused_statements(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements that have side effects or compute a value that is used later."""
    # Backwards, because only later statements that are kept decide whether a value is used.
    used_values: set[int] = set()
    remaining: list[Statement] = []
    for statement in reversed(statements):
        if statement.has_effect or used_values & set(statement.targets):
            used_values.update(_list_used_values([statement]))
            remaining.insert(0, statement)
    return remaining


def _inline_values(statements: Sequence[Statement]) -> list[Statement]:
    """Inline values that the next statement uses first and that are used only once."""
    uses = _list_used_values(statements)
    remaining: list[Statement] = []
    for statement in statements:
        while remaining and _can_inline(remaining[-1], statement, uses):
            statement = _inline_value(remaining.pop(), statement)
        remaining.append(statement)
    return remaining


def _can_inline(earlier: Statement, statement: Statement, uses: Sequence[int]) -> bool:
    """Return whether the value of a statement can be written directly into the next statement.

    Args:
        earlier: The statement that computes the value.
        statement: The next statement.
        uses: The values that all statements use, once per use.
    """
    if len(earlier.targets) != 1 or uses.count(earlier.targets[0]) != 1:
        return False
    is_assignment = isinstance(earlier.expression, Binary) and earlier.expression.operator == "="
    if is_assignment:
        return False
    # Nothing else may be computed before the value, or the order of computation would change.
    value = ValueRef(earlier.targets[0])
    if _find_first_computation(statement.expression, value) != value:
        return False
    if statement.expression == value:
        return True
    # Long chains of calls are easier to read in several statements.
    call_count = 0
    for node in iterate_nodes((earlier.expression, statement.expression)):
        if isinstance(node, Call):
            call_count += 1
    is_short = len(format_expression(earlier.expression)) < LINE_WIDTH // 2
    return is_short and call_count <= _MAX_CALLS_PER_LINE


def _find_first_computation(expression: Expression, value: ValueRef) -> object:
    """Return the first node that computes something, or `value` if it comes earlier."""
    for node in iterate_nodes(expression):
        if node == value or not isinstance(node, Code | Literal | ValueRef):
            return node
    return None


def _inline_value(earlier: Statement, statement: Statement) -> Statement:
    """Return the second statement, with the value of the first one replaced by its expression."""
    value = ValueRef(earlier.targets[0])

    def insert_expression(node: object) -> object:
        return earlier.expression if node == value else node

    return replace(statement, expression=transform_tree(statement.expression, insert_expression))


def _choose_value_name(expression: Expression, taken_names: set[str]) -> str:
    """Name a value after the part of the network that computed it, otherwise x1, x2, ..."""
    path = ""
    if isinstance(expression, Call) and isinstance(expression.function, Code):
        path = expression.function.text
    if path.startswith("self."):
        # `self.cells[0].conv` becomes `cells_0_conv`.
        characters = [c if c.isalnum() or c == "_" else " " for c in path]
        name = "_".join("".join(characters).split()[1:])
        if name.isidentifier():
            return take_free_name(name, taken_names)
    number = 1
    while f"x{number}" in taken_names:
        number += 1
    return take_free_name(f"x{number}", taken_names)
