"""Run the examples in docstrings."""

import doctest
from typing import Any


def run_examples(target: Any) -> None:
    """Run the example in the docstring of a function or class, and fail if its output is wrong.

    The example sees the names of the module that defines the function or class.
    """
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner()
    report: list[str] = []
    for test in finder.find(target):
        runner.run(test, out=report.append)
    results = runner.summarize(verbose=False)
    assert results.attempted > 0, "there is no example"
    assert results.failed == 0, "".join(report)
