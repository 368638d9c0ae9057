"""Parse architectures that NASLib writes as nested tuples of numbers: `((0, 4), (1, 3))`."""

import json
import re
from typing import Any

_ALLOWED = re.compile(r"[0-9,()\[\] ]{0,2000}")
_MAX_BRACKETS = 200


def parse_naslib_tuple(text: str) -> Any:
    """Parse nested tuples or lists of whole numbers into nested lists.

    `ast.literal_eval` accepts far more, and deep nesting can crash the interpreter.

    Raises:
        ValueError: The text has other content, is too long or too deeply nested.
    """
    if not _ALLOWED.fullmatch(text) or text.count("(") + text.count("[") > _MAX_BRACKETS:
        raise ValueError(f"{text[:60]!r} is not a tuple of numbers")
    as_json = text.replace("(", "[").replace(")", "]").replace(" ", "")
    # A tuple of one item ends in a comma, which JSON does not allow.
    return json.loads(as_json.replace(",]", "]"))
