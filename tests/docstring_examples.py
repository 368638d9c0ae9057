"""Run the examples in docstrings."""

import contextlib
import doctest
import inspect
import tempfile
from typing import Any


def run_examples(target: Any, **names: Any) -> None:
    """Run the examples in the docstrings of a function, class or module; fail if an output is wrong.

    The examples run in an empty folder, which is removed afterwards, because some of them write
    files. They see the names of the module that defines the function or class.

    Args:
        target: A function, or a class without its methods, or a module with all it defines.
        names: Further names that the examples see.
    """
    finder = doctest.DocTestFinder(recurse=inspect.ismodule(target))
    runner = doctest.DocTestRunner()
    report: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for test in finder.find(target, extraglobs=names):
            runner.run(test, out=report.append)
    results = runner.summarize(verbose=False)
    assert results.attempted > 0, "there is no example"
    assert results.failed == 0, "".join(report)
