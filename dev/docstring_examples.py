"""An extension for mkdocstrings: the section `Example:` of a docstring is shown as code.

The documentation site reads docstrings with griffe, which knows only a section `Examples:`.
"""

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Renames the section in the docstrings of everything that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
