"""The contest in the terminal: one table with the winner marked, then the conclusions."""

from dataclasses import replace

from tests.reports.examples import make_contest
from untrained.cli.terminal.contest import show_contest

ARCHS = [f"width={i}" for i in range(1, 9)]


def read_cells(line: str) -> list[str]:
    """Return the cells of a row, which are at least two spaces apart."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_table_marks_the_winner_and_names_designs_in_plain_words(capsys):
    contest = make_contest(ARCHS)
    show_contest(contest)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "The contest of 8 networks on folder:./photos"
    assert read_cells(lines[1]) == ["#", "selected as", "params", "rate", "epochs", "val. accuracy"]
    rows = [read_cells(line) for line in lines[3:12]]
    # Three rounds of 4, 12 and 36 epochs.
    assert rows[0] == ["9", "ResNet-20 (known design)", "70.0 k", "0.3", "52", "74.0 \u00b1 4.4 %"]
    assert rows[1][:2] == ["* 7", "ResNet-20 (known design)"]
    assert rows[6][1] == "best by dextr, largest"
    assert rows[8] == ["4", "largest", "40.0 k", "0.1", "0", "failed"]
    assert [row[0].startswith("*") for row in rows].count(True) == 1
    text = " ".join(" ".join(lines[12:]).split())
    parts = ["network 4 failed: diverged", contest.verdict, *contest.sentences]
    parts.append("the contest took 5 min 50 s for 13 trainings in 3 rounds")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_networks_that_were_passed_over_are_counted_in_one_sentence(capsys):
    show_contest(make_contest(ARCHS, passed_over=11, replacements=5))
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "11 of the best networks by score were passed over, because they are too slow to train in "
        "the available time; 5 networks with the next best scores took part instead."
    ) in text
    show_contest(make_contest(ARCHS, passed_over=1))
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "1 of the best networks by score was passed over, because it is too slow to train in the "
        "available time; it was not replaced."
    ) in text
    show_contest(make_contest(ARCHS))
    assert "passed over" not in capsys.readouterr().out


def test_latency_is_shown_if_it_was_measured_and_texts_are_not_markup(capsys):
    contest = make_contest(ARCHS, data="folder:[red]x")
    first = replace(contest.entries[0], latency=0.0042, selections=("known design [bold]x",))
    show_contest(replace(contest, entries=(first, *contest.entries[1:])))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip().endswith("folder:[red]x")
    assert "latency" in read_cells(lines[1])
    assert read_cells(lines[3])[1:4] == ["[bold]x (known design)", "70.0 k", "4.20 ms"]
