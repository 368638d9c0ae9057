"""Names of architectures and proxies in tables are broken between their parts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table

from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.wrapped_name import WrappedName, wrap_name

CELL = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|"


def test_a_name_is_broken_after_separators():
    assert wrap_name("depth=2,width1=256,activation=tanh", 20) == [
        "depth=2,width1=256,",
        "activation=tanh",
    ]
    assert wrap_name(CELL, 24) == ["|nor_conv_3x3~0|+|", "none~0|nor_conv_1x1~1|"]
    assert wrap_name("linear(0)64 interact; fm", 12) == ["linear(0)64", "interact; fm"]
    assert wrap_name("./folder/mine.py:mynet", 14) == ["./folder/", "mine.py:mynet"]
    assert wrap_name("short", 80) == ["short"]
    assert wrap_name("", 80) == [""]


def test_a_part_that_is_longer_than_a_line_is_broken_anywhere():
    assert wrap_name("a=1,abcdefgh=2", 5) == ["a=1,", "abcde", "fgh=2"]
    # These characters are two columns wide.
    assert wrap_name("世界世界", 5) == ["世界", "世界"]


@given(st.text(st.characters(exclude_categories=("C", "Z", "M")), max_size=40), st.integers(2, 30))
@settings(derandomize=True)
def test_no_character_is_lost_and_every_line_fits(name, width):
    lines = wrap_name(name, width)
    assert "".join(lines) == name
    assert all(cell_len(line) <= width for line in lines)


def test_a_cell_of_a_table_is_broken_at_its_width(capsys):
    table = Table(box=None)
    table.add_column("network")
    table.add_column("score", no_wrap=True)
    table.add_row(WrappedName("depth=2,width1=256,[bold],activation=tanh"), "1.23456")
    SafeConsole(width=30).print(table)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["network", "score"],
        ["depth=2,width1=256,", "1.23456"],
        ["[bold],"],
        ["activation=tanh"],
    ]


def test_the_ranking_of_a_search_breaks_no_gene(run_cli, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    search = ("search", "--space", "mlp", "--proxy", "params", "--budget", "4", "--workers", "1")
    code, out, _ = run_cli(*search, "--run", "run")
    assert code == 0
    table = out.partition("architecture")[2].partition("best: ")[0]
    genes = ("depth", "width", "activation")
    for line in table.splitlines()[2:]:
        words = line.split()
        if words:
            assert words[-1].startswith(genes), line
