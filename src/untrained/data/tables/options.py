"""Options of a table, after its path: `csv:clicks.csv?label=click&drop=id,url&time=hour`.

The path and all options form one string, which configurations, stores and resumed runs can keep.
"""

from dataclasses import dataclass, fields, replace
from math import isnan, nan
from typing import Any
from urllib.parse import unquote

from untrained.errors import UsageError, make_unknown_name_error
from untrained.types import BINARY, TASK_KINDS

LOG_CHOICES = ("counts", "all", "none")
DECIMAL_SIGNS = {".": "point", ",": "comma"}
COLUMN_OPTIONS = ("dense", "categorical", "drop")
LARGEST_FLOAT_INTEGER = 2**24  # all smaller integers are exact in float32


@dataclass(frozen=True)
class TableOptions:
    """Options for reading a table. The roles of columns that are not named are inferred.

    Attributes:
        label: Column to predict.
        task: "binary", "classification" or "regression"; empty to infer it from the label.
        above: If given, the task is binary, and a label is 1 if its number is above this.
        dense: Columns of numbers.
        categorical: Columns of identifiers.
        drop: Columns that are not used.
        time: If given, the last rows by this column are the test part, instead of random rows.
        test: If given, a file with the same columns whose rows are the test part.
        floor: Identifiers that are less frequent than this in training share one index.
        hash: If a column has more different identifiers than this, they are hashed into this many
            buckets.
        log: Which dense columns are transformed by sign(x) log(1 + |x|).
        decimal: Decimal sign of numbers that are text.
    """

    label: str = ""
    task: str = ""
    above: float | None = None
    dense: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    time: str = ""
    test: str = ""
    floor: int = 2
    hash: int = 100_000
    log: str = "counts"
    decimal: str = "point"

    def __post_init__(self) -> None:
        if self.log not in LOG_CHOICES:
            raise make_unknown_name_error("value of log", self.log, LOG_CHOICES)
        if self.decimal not in (*DECIMAL_SIGNS, *DECIMAL_SIGNS.values()):
            raise make_unknown_name_error("decimal sign", self.decimal, DECIMAL_SIGNS.values())
        if self.task and self.task not in TASK_KINDS:
            raise make_unknown_name_error("task", self.task, TASK_KINDS)
        if self.above is not None and self.task not in ("", BINARY.name):
            raise UsageError(
                f"above={self.above:g} makes a binary label of a number, and task={self.task}; "
                "leave out one of the two"
            )
        if self.floor < 1:
            raise UsageError(
                f"floor={self.floor} is too small; write floor=1 to keep every identifier"
            )
        if not 2 <= self.hash < LARGEST_FLOAT_INTEGER:
            raise UsageError(
                f"hash={self.hash} is impossible; "
                f"write a number from 2 to {LARGEST_FLOAT_INTEGER - 1}"
            )

    @property
    def has_decimal_comma(self) -> bool:
        """Whether numbers are written with a decimal comma."""
        return self.decimal in (",", DECIMAL_SIGNS[","])

    @property
    def named_columns(self) -> tuple[str, ...]:
        """All columns that the options name."""
        names = (self.label, self.time, *self.dense, *self.categorical, *self.drop)
        return tuple(name for name in names if name)


def split_query(argument: str) -> tuple[str, str]:
    """Split an argument such as `clicks.csv?label=click` into the path and the options."""
    path, _, query = argument.partition("?")
    return path, query


def parse_table_options(query: str, defaults: TableOptions) -> TableOptions:
    """Read options such as `label=click&drop=id,url`.

    Args:
        query: The options. In names, `%2C` is a comma and `%26` an ampersand.
        defaults: Options that are used unless the query says otherwise.

    Raises:
        UsageError: An option does not exist or has an impossible value.
    """
    option_names = [field.name for field in fields(TableOptions)]
    options: dict[str, Any] = {}
    for word in query.split("&"):
        if not word:
            continue
        name, _, text = word.partition("=")
        if name not in option_names:
            raise make_unknown_name_error("option of a table", name, option_names)
        if not text:
            raise UsageError(
                f"{name} has no value; write {name}=..., "
                "such as csv:clicks.csv?label=click&drop=id,url"
            )
        if name == "label" and name in options:
            raise UsageError(
                f"the label is both {options[name]} and {unquote(text)}, and a network predicts "
                "one column; name one of them"
            )
        if name in options:
            raise UsageError(
                f"{name} is given twice; write it once, with commas between several columns, such "
                "as drop=id,url"
            )
        options[name] = _parse_value(name, text)

    # A column that the query names loses its default role.
    named_columns = TableOptions(**options).named_columns
    for role in COLUMN_OPTIONS:
        default_columns = [name for name in getattr(defaults, role) if name not in named_columns]
        options[role] = (*default_columns, *options.get(role, ()))
    return replace(defaults, **options)


def _parse_value(name: str, text: str) -> object:
    """Convert the text of an option to the type of its default."""
    default = getattr(TableOptions, name)
    if isinstance(default, tuple):
        return tuple(unquote(part) for part in text.split(",") if part)
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError as error:
            raise UsageError(
                f"{name}={text} is not a whole number; write it like {name}=10"
            ) from error
    if name == "above":
        try:
            threshold = float(text)
        except ValueError:
            threshold = nan
        if isnan(threshold):
            raise UsageError(f"above={text} is not a number; write it like above=3.5")
        return threshold
    return unquote(text)
