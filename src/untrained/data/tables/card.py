"""The card of a table: its rows, columns and problems, and how the columns are encoded."""

from collections.abc import Mapping
from dataclasses import dataclass

from untrained.data.tables.schema import DenseColumn, IdentifierColumn, Schema
from untrained.formatting import format_count, format_measured, format_percent
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, TASK_KINDS

# With fewer rows of the rarer label, an AUC is unreliable: its standard deviation is about 0.05.
_FEW_ROWS = 30
_FEW_CLASS_ROWS = 10  # test rows of a class
_IMBALANCE = 5  # rows of the most frequent class per row of the rarest
_MAX_CLASSES_SHOWN = 6


@dataclass(frozen=True)
class TableCard:
    """A summary of a table.

    Attributes:
        name: Name of the data.
        facts: Facts about the whole table, by title.
        rows: Facts about each column.
        problems: Columns or lines that the user should look at, with the reason.
        hints: Columns that are most likely right, with what to write if they are not.
    """

    name: str
    facts: Mapping[str, str]
    rows: tuple[Mapping[str, object], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    hints: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[str]:
        return [self.name, *(f"  {name}: {text}" for name, text in self.facts.items())]

    def details(self) -> list[str]:
        """Return one line per column of the table, aligned."""
        if not self.rows:
            return []
        cells = [list(self.rows[0])]
        for row in self.rows:
            cells.append([_format_cell(value) for value in row.values()])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for line in cells:
            padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            lines.append("  " + "  ".join(padded).rstrip())
        for name, text in self.hints:
            lines.append(f"  hint: {name} {text}")
        return lines


def make_table_card(name: str, schema: Schema) -> TableCard:
    """Make the card of a table from its schema."""
    columns = [_describe_dense(column, column.name in schema.timestamps) for column in schema.dense]
    for identifiers in schema.identifiers:
        columns.append(_describe_identifiers(identifiers, schema.floor))
    return TableCard(
        name, _list_facts(schema), tuple(columns), tuple(_list_problems(schema)), schema.hints
    )


def _list_facts(schema: Schema) -> dict[str, str]:
    row_count = sum(schema.rows)
    train_rows, val_rows, test_rows = schema.rows
    parts = f"{train_rows:,} train, {val_rows:,} val, {test_rows:,} test"
    bad_rows = f"{schema.bad:,}"
    if schema.bad:
        bad_rows += ", left out"
    facts = {}
    if schema.task_reason:
        facts["task"] = _describe_kind(schema)
    facts |= {
        "rows": f"{row_count:,} ({parts}; split {schema.split})",
        "label": _describe_label(schema),
        "columns": f"{len(schema.dense)} dense, {len(schema.identifiers)} identifiers, "
        f"{len(schema.dropped)} dropped",
        "bad rows": bad_rows,
    }
    if schema.kind == CLASSIFICATION and _is_imbalanced(schema):
        facts["imbalance"] = _describe_imbalance(schema)
    caution = ""
    if schema.kind == BINARY:
        caution = _warn_of_few_rows(schema.rows[-1], schema.clicks[-1])
    elif schema.kind == CLASSIFICATION:
        caution = _warn_of_rare_classes(schema)
    if caution:
        facts["caution"] = caution
    if schema.date_candidates:
        names = ", ".join(schema.date_candidates)
        verb = "looks" if len(schema.date_candidates) == 1 else "look"
        facts["proposed"] = (
            f"time={schema.date_candidates[0]} after the ? of --data ({names} {verb} like a "
            "date; the last rows then become the test part)"
        )
    return facts


def _describe_kind(schema: Schema) -> str:
    """Return the task, why it is this one, and how to change it."""
    possible_tasks = []
    for name, kind in TASK_KINDS.items():
        # With many values, a number is neither a class nor a binary label.
        if name == schema.task or (kind != REGRESSION and not schema.allows_classes):
            continue
        possible_tasks.append(name)
    text = f"{schema.task}, because {schema.task_reason}"
    if possible_tasks:
        text += f"; --task {' or '.join(possible_tasks)} changes it"
    return text


def _describe_label(schema: Schema) -> str:
    row_count = sum(schema.rows)
    if schema.kind == BINARY:
        return f"{schema.label}; {format_percent(sum(schema.clicks) / row_count)} of the rows are 1"
    if schema.kind == REGRESSION:
        return describe_number_label(
            schema.label, schema.label_range, schema.label_mean, schema.label_std
        )
    total = sum(schema.class_rows)
    class_shares = []
    for number in _sort_classes(schema)[:_MAX_CLASSES_SHOWN]:
        share = schema.class_rows[number] / total
        class_shares.append(f"{schema.classes[number]} {format_percent(share)}")
    text = f"{schema.label}, {len(schema.classes)} classes: {', '.join(class_shares)}"
    if len(schema.classes) > _MAX_CLASSES_SHOWN:
        text += f" and {len(schema.classes) - _MAX_CLASSES_SHOWN} more"
    return text


def describe_number_label(
    name: str, label_range: tuple[float, ...], mean: float, std: float
) -> str:
    """Return a summary of a label that is a number.

    Args:
        name: Its name.
        label_range: Its lowest and highest value.
        mean: Its mean over the training part.
        std: Its standard deviation over the training part.
    """
    low, high = label_range
    return (
        f"{name}, a number from {format_measured(low)} to {format_measured(high)}, "
        f"mean {format_measured(mean)}, deviation {format_measured(std)}"
    )


def _sort_classes(schema: Schema) -> list[int]:
    """Return the numbers of the classes, the most frequent first."""
    return sorted(range(len(schema.classes)), key=lambda number: -schema.class_rows[number])


def _is_imbalanced(schema: Schema) -> bool:
    return max(schema.class_rows) > _IMBALANCE * min(schema.class_rows)


def _describe_imbalance(schema: Schema) -> str:
    order = _sort_classes(schema)
    most_frequent = order[0]
    rarest = order[-1]
    name = schema.classes[most_frequent]
    share = schema.class_rows[most_frequent] / sum(schema.class_rows)
    return (
        f"{name} has {schema.class_rows[most_frequent]:,} rows and {schema.classes[rarest]} has "
        f"{schema.class_rows[rarest]:,}; a network that always predicts {name} has an accuracy of "
        f"{100 * share:.1f} %"
    )


def _warn_of_rare_classes(schema: Schema) -> str:
    """Return a warning about classes with too few test rows; empty if there are none."""
    rare_classes = []
    for name, count in zip(schema.classes, schema.test_class_rows, strict=True):
        if count < _FEW_CLASS_ROWS:
            rare_classes.append(name)
    if not rare_classes:
        return ""
    names = ", ".join(rare_classes[:_MAX_CLASSES_SHOWN])
    if len(rare_classes) > _MAX_CLASSES_SHOWN:
        names += f" and {len(rare_classes) - _MAX_CLASSES_SHOWN} more"
    verb = "has" if len(rare_classes) == 1 else "have"
    return (
        f"{names} {verb} fewer than {_FEW_CLASS_ROWS} of the "
        f"{format_count(schema.rows[-1], 'test row')}, so how well they are predicted is uncertain"
    )


def _list_problems(schema: Schema) -> list[tuple[str, str]]:
    problems = [(column, advice) for column, advice in schema.advice]
    for dense in schema.dense:
        if dense.text:
            verbs = "is text and counts" if dense.text == 1 else "are text and count"
            example = f", such as {dense.text_example}" if dense.text_example else ""
            count = format_count(dense.text, "value")
            problems.append((dense.name, f"{count} {verbs} as missing{example}"))
    for column, reason in schema.dropped:
        problems.append((column, f"dropped: {reason}"))
    for bad_row in schema.bad_rows:
        line, _, reason = bad_row.partition(":")
        problems.append((line, reason.strip()))
    return problems


def _warn_of_few_rows(rows: int, clicks: int) -> str:
    """Return a warning if the test part is too small for an AUC; else an empty text."""
    rarer_label = 1 if clicks <= rows - clicks else 0
    count = min(clicks, rows - clicks)
    if count >= _FEW_ROWS:
        return ""
    if count:
        warning = f"only {count} have the label {rarer_label}, so the AUC is unreliable"
    else:
        warning = f"none has the label {rarer_label}, so there is no AUC"
    return f"of {format_count(rows, 'test row')} {warning}"


def _describe_dense(column: DenseColumn, is_time: bool) -> dict[str, object]:
    treatment = f"mean {format_measured(column.mean)}, deviation {format_measured(column.std)}"
    if column.log:
        treatment = f"log, {treatment}"
    if is_time:
        treatment = f"microseconds since 1970, {treatment}"
    return _make_row(column.name, "dense", "", column.missing, treatment)


def _describe_identifiers(column: IdentifierColumn, floor: int) -> dict[str, object]:
    distinct: int | str = column.distinct
    kept_count = column.size - 1  # without the number for rare identifiers
    if column.vocabulary is None:
        distinct = f"{column.distinct:,} or more"
        treatment = f"hashed into {column.size:,}"
    elif kept_count == column.distinct:
        treatment = "all kept"
    else:
        treatment = f"{kept_count:,} kept that occur {floor} times or more"
    return _make_row(column.name, "identifiers", distinct, column.missing, treatment)


def _make_row(
    name: str, kind: str, distinct: int | str, missing: int, treatment: str
) -> dict[str, object]:
    return {
        "column": name,
        "kind": kind,
        "distinct": distinct,
        "missing": missing,
        "treatment": treatment,
    }


def _format_cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
