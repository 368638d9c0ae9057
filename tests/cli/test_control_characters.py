"""Control characters in names and messages do not reach the terminal."""

import io

import numpy as np
import pytest
from rich.table import Table

from tests.data.pictures import save_image
from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.text import clean_text

CONTROL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\x7f\u202e"


def check_clean(*texts: str) -> None:
    """Check that texts contain only printable characters, spaces and line feeds."""
    for text in texts:
        assert [c for c in text.replace("\n", "") if not c.isprintable()] == []


def test_every_control_character_is_replaced():
    unsafe = [
        chr(k)
        for k in (*range(32), *range(127, 160), 0x202E, 0x2028, 0xDCFF)
        if chr(k) not in "\t\n"
    ]
    assert clean_text("".join(unsafe)) == "\ufffd" * len(unsafe)
    plain = "cats, \u00e7\u00e0 \U0001f431\tand\nline"
    assert clean_text(plain) == plain


def test_colours_and_control_codes_of_rich_stay():
    out = io.StringIO()
    console = SafeConsole(file=out, force_terminal=True, color_system="standard", width=80)
    console.print("[red]warm[/]")
    console.clear()
    assert "\x1b[31mwarm" in out.getvalue()
    assert "\x1b[2J" in out.getvalue()


def test_tables_and_lines_contain_no_control_characters():
    out = io.StringIO()
    console = SafeConsole(file=out, width=80)
    table = Table(title=CONTROL)
    table.add_column(CONTROL)
    table.add_row(CONTROL)
    console.print(table)
    console.print(CONTROL)
    check_clean(out.getvalue())
    assert "\ufffd" in out.getvalue()


@pytest.fixture
def photos(project):
    """Images with control characters in the names of a class and of a file."""
    for kind in (f"cats{CONTROL}", "dogs"):
        for k in range(6):
            save_image(project / "photos" / kind / f"{k}.png", np.full((8, 8, 3), 40 * k, np.uint8))
    (project / "photos" / "dogs" / f"bad{CONTROL}.png").write_bytes(b"no picture")
    return project / "photos"


def test_names_of_files_and_classes_are_printed_clean(run_cli, photos):
    code, out, err = run_cli("data", "card", "folder:photos")
    assert code == 0
    assert "bad\ufffd]0;owned" in out
    check_clean(out, err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "card", f"folder:{CONTROL}"),
        ("report", CONTROL),
        ("store", "info", CONTROL),
        ("search", "--space", CONTROL),
        ("score", CONTROL),
        ("train", f"./{CONTROL}.py:make"),
        ("list", CONTROL),
        (CONTROL,),
    ],
)
def test_error_messages_are_printed_clean(run_cli, arguments):
    code, out, err = run_cli(*arguments)
    assert code == 2
    check_clean(out, err)


def test_messages_of_user_code_are_printed_clean(run_cli, project):
    (project / "hostile.py").write_text(f"def make():\n    raise ValueError({CONTROL!r})\n")
    _, out, err = run_cli("score", "./hostile.py:make", "--input-shape", "3x8x8")
    check_clean(out, err)
