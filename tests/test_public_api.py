"""The public functions are documented, and the examples in their docstrings are right."""

import inspect
import re

import pytest

import untrained
from tests.docstring_examples import run_examples
from untrained.spaces import Space
from untrained.workflows.scores import Scores

FUNCTIONS = [name for name in untrained.__all__ if inspect.isfunction(getattr(untrained, name))]
# The example of this function needs tables of known results. It is run in
# `tests/papers/test_reproduce.py`.
NEED_TABLES = ("reproduce",)
# Using a decorator raises no error of this package.
DECORATORS = ("proxy", "space")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_have_all_sections(name):
    docstring = inspect.getdoc(getattr(untrained, name)) or ""
    summary = docstring.partition("\n")[0]
    assert summary.endswith(".")
    sections = ["Args", "Returns", "Raises", "Example"]
    if name in DECORATORS:
        sections.remove("Raises")
    for section in sections:
        assert re.search(rf"^{section}:$", docstring, re.MULTILINE), section


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_describe_every_parameter(name):
    function = getattr(untrained, name)
    docstring = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters.values():
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        assert f"\n    {stars}{parameter.name}: " in docstring


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in NEED_TABLES])
def test_examples_are_right(name):
    run_examples(getattr(untrained, name))


def test_the_example_of_scores_is_right():
    run_examples(Scores)


def test_the_example_of_probe_is_right():
    run_examples(untrained.Probe)


def test_examples_leave_no_files_in_the_working_directory(tmp_path, monkeypatch):
    """The example of `Space.draw` writes `cell.svg`."""
    monkeypatch.chdir(tmp_path)
    run_examples(Space.draw, load_space=untrained.load_space)
    assert list(tmp_path.iterdir()) == []


def test_samples_and_mutations_are_decided_by_a_seed():
    space = untrained.load_space("nasbench201")
    arch = space.sample(seed=0)
    assert space.sample(seed=0) == arch
    neighbour = space.mutate(arch, seed=1)
    assert neighbour != arch
    assert space.mutate(arch, seed=1) == neighbour
