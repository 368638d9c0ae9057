"""What a person ought to know about the columns of a table, and may want to say: advice, which changes nothing.

It comes from the first rows of the file. Knows nothing of files and of how rows become numbers.
"""

from untrained.data._roles import Roles

DECIMAL_COMMA = "looks like numbers with a decimal comma; write decimal=comma"
Advice = tuple[tuple[str, str], ...]  # names of columns, and what is said of each


def advice(roles: Roles) -> Advice:
    return tuple((name, DECIMAL_COMMA) for name in roles.commas)
