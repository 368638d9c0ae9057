"""The tutorials of the documentation run, and what they show still has the form of what they print."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")


def load_tutorials() -> ModuleType:
    """Import `dev/tutorials.py`, which is a program and no package."""
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "dev" / "tutorials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorials"] = module  # its dataclasses look up their module
    spec.loader.exec_module(module)
    return module


tutorials = load_tutorials()

NUMBER = r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?"
DURATION = rf"({NUMBER} (h|min) )?{NUMBER} (h|min|s|ms|us)\b"
AMOUNT = rf"{NUMBER} [kMG]\b"


def describe_form(text: str) -> list[str]:
    """Return lines without what differs between machines: numbers, units of amounts, marks of ties, widths."""
    text = re.sub(DURATION, "TIME", text)
    text = re.sub(AMOUNT, "#", text)
    text = re.sub(NUMBER, "#", text)
    text = re.sub(r"[─━]+|(?<= )= (?=#)", "", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_form_ignores_numbers_units_and_ties_and_nothing_else():
    assert describe_form("took 1 min 3 s") == describe_form("took 0.42 s")
    assert describe_form("  = 2   1,024 k   a=3") == describe_form("  2   17   a=4")
    assert describe_form("──── \nbest: x") == describe_form("──\nbest:  x")
    assert describe_form("best: x") != describe_form("best: y")
    assert describe_form("a\nb") != describe_form("a")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_runs_and_shows_what_it_prints(name, tmp_path):
    if name == "ray":
        pytest.importorskip("ray", reason="ray is an extra")
    page = FOLDER / f"{name}.md"
    text = page.read_text()
    blocks = [block for block in tutorials.read_blocks(text) if block.is_output]
    outputs = tutorials.run_page(page, tmp_path)
    assert len(outputs) == len(blocks) >= 1
    for block, output in zip(blocks, outputs, strict=True):
        shown = describe_form(block.content)
        printed = describe_form(output)
        if block.title.startswith("Output of one run"):
            # Which networks take part differs, so only the beginning or the end is compared.
            if ", last" not in block.title:
                assert printed[0] == shown[0]
            if ", first" not in block.title:
                assert printed[-1] == shown[-1]
        else:
            assert printed == shown, (
                f"run `make tutorials`; shown:\n{block.content}\nprinted:\n{output}"
            )
    for picture in tutorials.read_pictures(text):
        assert (tmp_path / picture.source).is_file()
        assert (page.parent / picture.path).is_file()


def test_every_block_of_a_tutorial_is_run_written_or_shown():
    """A block in another language, or a misspelt title, would not be checked."""
    for name in PAGES:
        text = (FOLDER / f"{name}.md").read_text()
        blocks = tutorials.read_blocks(text)
        assert len(blocks) == text.count("\n```") / 2, name
        for block in blocks:
            is_for_others = block.language == "bash" and block.title
            assert block.is_file or block.is_output or block.is_run or is_for_others, block
