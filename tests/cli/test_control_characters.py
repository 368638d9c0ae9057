"""Names and messages of others cannot give orders to the terminal."""

import io

import numpy as np
import pytest
from rich.table import Table

from tests.data.pictures import save
from untrained._terminal_console import SafeConsole
from untrained._terminal_text import clean_text

ESC = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\x7f\u202e"


def check_clean(*texts: str) -> None:
    """Nothing but printable characters, spaces and line feeds."""
    for text in texts:
        assert [c for c in text.replace("\n", "") if not c.isprintable()] == []


def test_every_character_that_a_terminal_obeys_is_replaced():
    obeyed = [chr(k) for k in (*range(32), *range(127, 160), 0x202E, 0x2028, 0xDCFF) if chr(k) not in "\t\n"]
    assert clean_text("".join(obeyed)) == "\ufffd" * len(obeyed)
    plain = "cats, \u00e7\u00e0 \U0001f431\tand\nline"
    assert clean_text(plain) == plain


def test_colours_and_the_orders_of_bars_stay():
    out = io.StringIO()
    console = SafeConsole(file=out, force_terminal=True, color_system="standard", width=80)
    console.print("[red]warm[/]")
    console.clear()
    assert "\x1b[31mwarm" in out.getvalue()
    assert "\x1b[2J" in out.getvalue()


def test_tables_and_lines_are_clean():
    out = io.StringIO()
    console = SafeConsole(file=out, width=80)
    table = Table(title=ESC)
    table.add_column(ESC)
    table.add_row(ESC)
    console.print(table)
    console.print(ESC)
    check_clean(out.getvalue())
    assert "\ufffd" in out.getvalue()


@pytest.fixture
def evil_photos(project):
    for kind in (f"cats{ESC}", "dogs"):
        for k in range(6):
            save(project / "photos" / kind / f"{k}.png", np.full((8, 8, 3), 40 * k, np.uint8))
    (project / "photos" / "dogs" / f"bad{ESC}.png").write_bytes(b"no picture")
    return project / "photos"


def test_names_of_files_and_classes(untrained_, evil_photos):
    code, out, err = untrained_("data", "card", "folder:photos")
    assert code == 0
    assert "bad\ufffd]0;owned" in out
    check_clean(out, err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "card", f"folder:{ESC}"),
        ("report", ESC),
        ("store", "info", ESC),
        ("search", "--space", ESC),
        ("score", ESC),
        ("train", f"./{ESC}.py:make"),
        ("list", ESC),
        (ESC,),
    ],
)
def test_messages_of_errors(untrained_, arguments):
    code, out, err = untrained_(*arguments)
    assert code == 2
    check_clean(out, err)


def test_what_the_code_of_others_says(untrained_, project):
    (project / "evil.py").write_text(f"def make():\n    raise ValueError({ESC!r})\n")
    _, out, err = untrained_("score", "./evil.py:make", "--input-shape", "3x8x8")
    check_clean(out, err)
